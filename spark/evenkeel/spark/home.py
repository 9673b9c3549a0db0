"""The folder of a Spark server's state, and process identities that outlive the reuse of pids.

`<home>/.evenkeel/` holds `engine.json` (where the server serves, with which code and settings), `token` (for its
clients), `engine.lock`, `owners/` (processes that need the server), `server.log` and the server's scratch files. Only
the user who made the folder may open it, so other secrets of that user are kept in it as well.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from evenkeel.errors import EngineError
from evenkeel.locks import held

KEEP = "keep"
OWNER_ONLY = 0o700


@dataclass(frozen=True, slots=True)
class State:
    """The record of a server.

    `supervisor` and `server` are process identities; `ready` says that it has answered a first query. `code` is the
    digest of the engine that started it, `workers` that of the code its Python workers may have imported (`code`).
    """

    supervisor: str
    server: str
    port: int
    code: str
    settings: dict[str, Any]
    ready: bool = False
    workers: str = ""  # a server that an earlier version of Evenkeel started has no recorded digest


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below one home, and the operations on them."""

    folder: Path

    @classmethod
    def of(cls, home: Path | str) -> Home:
        """Return the engine's part of a home folder, created if need be; raises `EngineError` if another user owns
        it."""
        folder = Path(home).resolve() / ".evenkeel"
        try:
            folder.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.geteuid():  # root may open it, and so may its owner what root puts into it
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            folder.chmod(OWNER_ONLY)
            (folder / "owners").mkdir(exist_ok=True)
        except PermissionError as error:
            raise EngineError(
                f"{folder} belongs to another user ({error.strerror}): set EVENKEEL_HOME to a folder of your own"
            ) from None
        return cls(folder)

    def token(self) -> str:
        """Return the token that clients of the server have to show; made on the first call and kept from then on."""
        return self.secret("token")

    def secret(self, name: str) -> str:
        """Return the secret of this name; made on the first call and kept from then on."""
        place = self.folder / name
        with suppress(FileNotFoundError):
            return place.read_text(encoding="ascii").strip()
        part = self.folder / f"{name}.{uuid.uuid4().hex}"
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        with suppress(FileExistsError):  # another process was faster: its secret is the one
            os.link(part, place)
        part.unlink()
        return place.read_text(encoding="ascii").strip()

    @property
    def log(self) -> Path:
        """The file of the Spark server's log."""
        return self.folder / "server.log"

    @property
    def scratch(self) -> Path:
        """The folder of the Spark server's temporary files."""
        return self.folder / "scratch"

    @property
    def _state(self) -> Path:
        return self.folder / "engine.json"

    def read(self) -> State | None:
        """Return the recorded state, None if none can be read."""
        try:
            return State(**json.loads(self._state.read_text(encoding="utf-8")))
        except (FileNotFoundError, json.JSONDecodeError, TypeError):
            return None

    def write(self, state: State) -> None:
        """Replace the recorded state; readers see either the old one or the new one."""
        part = self.folder / f"engine.{os.getpid()}.json"
        part.write_text(json.dumps(asdict(state), indent=1, sort_keys=True), encoding="utf-8")
        part.replace(self._state)

    def forget(self) -> None:
        """Remove the recorded state, if there is one."""
        self._state.unlink(missing_ok=True)

    def add_owner(self, pid: int | None) -> str:
        """Note that a process needs the server (None: until it is stopped); return the mark to remove later."""
        if pid is None:
            mark = KEEP
        else:
            owner = identity(pid)
            mark = f"{owner or f'{pid}-gone'}-{uuid.uuid4().hex[:8]}"
        (self.folder / "owners" / mark).touch()
        return mark

    def remove_owner(self, mark: str) -> None:
        """Remove the mark that `add_owner` returned; do nothing if it is gone already."""
        (self.folder / "owners" / mark).unlink(missing_ok=True)

    def remove_owners(self) -> None:
        """Remove the marks of all owners."""
        for mark in (self.folder / "owners").iterdir():
            mark.unlink(missing_ok=True)

    def has_owner(self) -> bool:
        """Return True if a living process needs the server; remove the marks of ended ones."""
        needed = False
        for mark in (self.folder / "owners").iterdir():
            if mark.name == KEEP or lives(mark.name.rpartition("-")[0]):
                needed = True
            else:
                mark.unlink(missing_ok=True)
        return needed

    @contextmanager
    def locked(self, wait_seconds: float) -> Iterator[bool]:
        """Hold the lock of this home; give False if it cannot be taken in time."""
        with held(self.folder / "engine.lock", wait_seconds=wait_seconds) as is_held:
            yield is_held


PROC = Path("/proc")


def identity(pid: int) -> str | None:
    """Return `pid-start` of a living process; None if the process does not exist or is a zombie."""
    try:
        if psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return f"{pid}-{_started(pid)}"
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def pid_of(process: str) -> int:
    """Return the pid in an identity."""
    return int(process.partition("-")[0])


def lives(process: str) -> bool:
    """Return True if the process of this identity still runs."""
    return identity(pid_of(process)) == process


def _started(pid: int) -> str:
    if PROC.exists():  # ticks since boot; psutil's own figure moves when the clock is set
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    return f"{psutil.Process(pid).create_time():.2f}"


def session_members(session: int) -> list[psutil.Process]:
    """Return all living processes of one session. Python workers leave their process group, never their session."""
    members = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session and identity(pid) is not None:
                members.append(psutil.Process(pid))
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
    return members


def kill_forks(pid: int, module: str) -> None:
    """Kill the forks made by the children of a process that run `python -m module`; the children go on."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            for fork in _forks(child, module):
                with suppress(psutil.NoSuchProcess):
                    fork.kill()


def _forks(child: psutil.Process, module: str) -> list[psutil.Process]:
    try:
        return child.children(recursive=True) if module in child.cmdline() else []
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def kill_session(session: int) -> None:
    """Kill every process of a session except the caller."""
    for process in session_members(session):
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def login() -> str:
    """Return the login of this process's user, as the system knows it.

    The environment (LOGNAME, USER) is not asked: any user can set it.
    """
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a uid without a name
        return f"uid {os.geteuid()}"
