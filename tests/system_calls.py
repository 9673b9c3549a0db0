"""The system calls by which a process puts files on disk, in their order, as strace shows them."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
Call = tuple[str, str]
"""`sync` and the file or folder; or `name` and the name that a file gets."""
_SYNC = re.compile(r"(?:fsync|fdatasync)\(\d+<(?P<place>[^>]+)>")
_NAME = re.compile(r"(?:link|rename)\w*\(.*\"(?P<place>[^\"]+)\"")


@contextmanager
def system_calls(pid: int, out: Path) -> Iterator[list[Call]]:
    """The list has the calls of the block once the block is over."""
    traced = "trace=fsync,fdatasync,link,linkat,rename,renameat,renameat2"
    words = ["strace", "-f", "-y", "-s", "4096", "-e", traced, "-e", "signal=none", "-o", str(out), "-p", str(pid)]
    calls: list[Call] = []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracing:
        assert tracing.stderr is not None
        assert "attached" in tracing.stderr.readline()
        try:
            yield calls
        finally:
            tracing.send_signal(signal.SIGINT)
            tracing.communicate()
    for line in out.read_text().splitlines():
        for kind, pattern in (("sync", _SYNC), ("name", _NAME)):
            calls += [(kind, match["place"]) for match in [pattern.search(line)] if match]


def are_in_order(calls: Sequence[Call], wanted: Sequence[Call]) -> bool:
    """Whether the wanted calls were made, one after the other."""
    left = iter(calls)
    return all(call in left for call in wanted)
