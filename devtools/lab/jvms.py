"""The JVMs of one cluster, each recorded in its folder as `NAME.jvm` with its log in `NAME.log`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from devtools.lab.errors import LabError
from evenkeel.spark.code import source_root
from evenkeel.spark.home import lives, pid_of

CHECKOUT = Path(__file__).resolve().parents[2]
TICK_SECONDS = 0.05
RECORD_SECONDS = 60.0
END_SECONDS = 20.0

_keepers: list[subprocess.Popen[str]] = []  # kept, so that their exit codes are collected


@dataclass(frozen=True, slots=True)
class Jvm:
    """One JVM by name: zookeeper, bookie, setup, broker-1, ..."""

    home: Path
    name: str

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    @property
    def record(self) -> Path:
        return self.home / f"{self.name}.jvm"

    def start(
        self,
        command: Sequence[str],
        *,
        owner: str | None,
        lock: IO[bytes] | None = None,
        cgroups: Sequence[str] = (),
    ) -> None:
        """Start it and wait until it is recorded. `lock` is an open file that its keeper holds from now on."""
        if self.identity() is not None:
            raise LabError(f"{self.name} of {self.home} runs already.")
        self.record.unlink(missing_ok=True)
        order = {
            "command": list(command),
            "home": str(self.home),
            "log": str(self.log),
            "record": str(self.record),
            "owner": owner,
            "cgroups": list(cgroups),
        }
        with (self.home / "keepers.log").open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "devtools.lab.keeper"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=child_environment(),
                pass_fds=() if lock is None else (lock.fileno(),),
                start_new_session=True,
                text=True,
            )
        _keepers[:] = [known for known in _keepers if known.poll() is None]
        _keepers.append(keeper)
        with suppress(BrokenPipeError):  # it ended at once; the reason is in its log
            _tell(keeper, json.dumps(order))
        self._await_record(keeper)

    def _await_record(self, keeper: subprocess.Popen[str]) -> None:
        until = time.monotonic() + RECORD_SECONDS
        while not self.record.exists():
            if keeper.poll() is not None or time.monotonic() > until:
                raise LabError(f"{self.name} could not be started. {tail(self.home / 'keepers.log')}")
            time.sleep(TICK_SECONDS)

    def identity(self) -> str | None:
        """The process identity while it lives."""
        if not self.record.exists():
            return None
        known = self.record.read_text()
        return known if lives(known) else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; harmless if it has ended."""
        known = self.identity()
        if known is not None:
            with suppress(ProcessLookupError):
                os.kill(pid_of(known), number)

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        self.signal(signal.SIGKILL)
        until = time.monotonic() + END_SECONDS
        while self.identity() is not None:
            if time.monotonic() > until:
                raise LabError(f"{self.name} of {self.home} does not end.")
            time.sleep(TICK_SECONDS)

    def resident_mb(self) -> float:
        """Return its private memory in MB: resident, without the pages of files that it shares with others (the
        archive)."""
        known = self.identity()
        if known is None:
            return 0.0
        memory = psutil.Process(pid_of(known)).memory_info()
        return float(memory.rss - memory.shared) / 1e6

    def cpu_seconds(self) -> float:
        """Return its CPU time so far in seconds; 0 if it does not run."""
        known = self.identity()
        if known is None:
            return 0.0
        times = psutil.Process(pid_of(known)).cpu_times()
        return float(times.user + times.system)


def child_environment() -> dict[str, str]:
    """Return the environment of child Python processes: they import the packages that this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(source_root()), str(CHECKOUT)))}


def _tell(keeper: subprocess.Popen[str], order: str) -> None:
    assert keeper.stdin is not None
    keeper.stdin.write(order)
    keeper.stdin.close()


def tail(log: Path, lines: int = 6) -> str:
    """Return the last informative lines of a log: errors and causes if there are any, no stack traces."""
    if not log.exists():
        return f"There is no log {log}."
    all_lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    informative = [line for line in all_lines if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    telling = [
        line for line in informative if " ERROR " in line or line.startswith(("Caused by:", "Error"))
    ] or informative
    return f"Its log {log} ends with:\n" + "\n".join(line[:400] for line in telling[-lines:])
