"""Keeps one JVM of a cluster: starts it, ends with it, and ends it when the cluster's owner is gone.

Runs as `python -m devtools.lab.keeper`, in a separate session, with its order on standard input. So no JVM outlives a
test run, even a killed one. Any process that knows the cluster's folder can kill a broker and start it again.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from evenkeel.spark.home import identity, lives

TICK_SECONDS = 0.25
PR_SET_PDEATHSIG = 1


def main() -> int:
    """Read {command, home, log, record, owner, cgroups}; write the JVM's identity into `record`; return its exit code.

    `owner` is a process identity, or null for a JVM that stays until it is ended. When the owner is gone, `home` is
    removed too.
    """
    order = json.loads(sys.stdin.read())
    jvm = _start(order["command"], Path(order["log"]), order["cgroups"])
    try:
        _put_on_record(Path(order["record"]), jvm)
        end = os.pidfd_open(jvm.pid)
        while not select.select([end], [], [], TICK_SECONDS)[0]:
            if order["owner"] is not None and not lives(order["owner"]):
                jvm.kill()
                shutil.rmtree(order["home"], ignore_errors=True)
                break
    finally:
        jvm.kill()
        jvm.wait()
        for cgroup in order["cgroups"]:  # not before it was waited for: until then it is a member
            with suppress(OSError):
                os.rmdir(cgroup)
    return jvm.returncode


def _start(command: Sequence[str], log: Path, cgroups: Sequence[str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=_prepare(cgroups)
        )


def _prepare(cgroups: Sequence[str]) -> Callable[[], None]:
    """Prepare the child before it becomes the JVM. Library and paths are found before the fork."""
    library = ctypes.CDLL(None, use_errno=True)
    members = [os.path.join(cgroup, "cgroup.procs") for cgroup in cgroups]

    def prepare() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it goes with its keeper, however that ends
        for file in members:
            with open(file, "w") as joined:
                joined.write(str(os.getpid()))

    return prepare


def _put_on_record(record: Path, jvm: subprocess.Popen[bytes]) -> None:
    part = record.with_suffix(".part")
    part.write_text(identity(jvm.pid) or f"{jvm.pid}-gone")
    part.replace(record)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main())
