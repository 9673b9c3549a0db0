"""A process that holds the lock of a lake in a server's place."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenkeel.lake.one_writer import WRITER_FILE

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write(sys.argv[2]); file.flush()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(lake: Path, words: str = "alice on host-7, server of /srv/evenkeel, process 1") -> Iterator[int]:
    """The lake's lock is held by another process, whose id this gives and who says this of itself."""
    command = [sys.executable, "-c", HOLDS, str(lake / WRITER_FILE), words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder.pid
        finally:
            holder.stdin.close()
            holder.wait()
