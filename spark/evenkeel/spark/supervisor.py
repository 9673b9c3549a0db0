"""Supervisor of one Connect server: ends it when asked, when its last owner has ended, or after a suspension.

It runs as `python -m evenkeel.spark.supervisor HOME` in a session of its own. It reads the JVM's command from standard
input, starts the JVM and records it. It imports little, since it lives as long as the server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from evenkeel.object_store import FOLDER
from evenkeel.spark import gateway
from evenkeel.spark.home import Home, State, identity, kill_session
from evenkeel.times import elapsed

TICK_SECONDS = 0.25
# A server that slept for more than two minutes lost its executor's heartbeats and was later found dead.
LONGEST_SUSPENSION_SECONDS = 120.0
GRACE_SECONDS = 5.0

_asked_to_end = False


def main(home: Home) -> int:
    """Start the server and watch it; return the JVM's exit code, or 0 if it was ended on purpose."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ask_to_end)
    order = json.loads(sys.stdin.read())
    server = gateway.start(order["command"], order["environment"], home.folder, sys.stderr)
    try:
        home.write(
            State(
                supervisor=identity(os.getpid()) or "",
                server=identity(server.pid) or f"{server.pid}-gone",
                port=order["port"],
                code=order["code"],
                workers=order["workers"],
                settings=order["settings"],
            )
        )
        return _watch(server, home)
    finally:
        _end(server)
        shutil.rmtree(home.folder / FOLDER, ignore_errors=True)  # keys that were handed over


def _watch(server: subprocess.Popen[bytes], home: Home) -> int:
    before = elapsed()
    while not _asked_to_end:
        exit_code = server.poll()
        if exit_code is not None:
            _say(f"the server ended by itself, exit code {exit_code}")
            return exit_code
        time.sleep(TICK_SECONDS)
        now = elapsed()
        if now - before > LONGEST_SUSPENSION_SECONDS:
            _say(f"ending the server: it was suspended for {now - before:.0f} s and is not to be trusted")
            return 0
        before = now
        if _is_left(home):
            _say("ending the server: its last owner has ended")
            return 0
    _say("ending the server: asked to")
    return 0


def _is_left(home: Home) -> bool:
    """Return True if no owner lives. Decided under the lock, so that no process takes the server over while it ends."""
    if home.has_owner():
        return False
    with home.locked(wait_seconds=0) as held:
        if not held or home.has_owner():
            return False
        home.forget()
        return True


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    kill_session(os.getsid(0))


def _ask_to_end(_signal: int, _frame: FrameType | None) -> None:
    # Only a flag is set: an exception could strike between the JVM's start and the moment its pid is known.
    global _asked_to_end
    _asked_to_end = True


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} supervisor: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(Home(Path(sys.argv[1]))))
