"""Watches over one Airflow: ends it on request, when its owner is gone, or when one of its components dies.

Runs as `python -P supervisor.py OWNER LOGS`, in a separate session, with Airflow's environment. OWNER is a process
identity (`evenkeel.spark.home.identity`). Airflow's own `standalone` leaves processes when it is stopped: scheduler and
API server, which keep their ports. This module ends them: first kindly, then the whole session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from evenkeel.spark.home import kill_session, lives

COMPONENTS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],  # logs are read from the folder; the log server's port is fixed
    "dag-processor": ["dag-processor"],
}
TICK_SECONDS = 0.3
GRACE_SECONDS = 8.0


def main(owner: str, logs: Path) -> int:
    """Start the components and wait; 0 where they were ended on purpose, 1 where one of them died."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments in COMPONENTS.items():
            started[name] = _start(arguments, logs / f"{name}.log")
        return _watch(started, owner)
    finally:
        _end(started)


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "airflow", *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )


def _watch(started: dict[str, subprocess.Popen[bytes]], owner: str) -> int:
    while True:
        time.sleep(TICK_SECONDS)
        for name, process in started.items():
            if process.poll() is not None:
                _say(f"{name} ended with exit code {process.returncode}")
                return 1
        if not lives(owner):
            _say("its owner is gone")
            return 0


def _end(started: dict[str, subprocess.Popen[bytes]]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The scheduler first: while the API server answers, its tasks can still report how they ended.
    for name in ("scheduler", "dag-processor", "api-server"):
        if name in started and started[name].poll() is None:
            started[name].terminate()
    until = time.monotonic() + GRACE_SECONDS
    for process in started.values():
        try:
            process.wait(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            continue
    kill_session(os.getsid(0))


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} supervisor: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
