"""One server writes a lake: it holds a lock on the file `_writer` in the lake's folder, or a lease in its bucket.

In a folder the JVM takes a lock of the operating system before its first commit and keeps it until it ends
(`evenkeel.spark.file_systems`), so one that was killed frees it and one that stands still keeps it. The file says who
holds it, for people; the lock itself decides, and a file without one means nothing. In an object store the object
`_writer` says until when it is held; its holder replaces it again and again, and nobody else before that time
(`evenkeel.spark.file_systems`). Rows that an operator puts on record without Spark need neither: they too are
committed only under a name that nobody else has.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.errors import LakeError
from evenkeel.lake.table_files import FolderFiles, StoreFiles, files_of

WRITER_FILE = "_writer"
"""The file in a lake's root; no table has a name that begins with an underscore."""
_REFUSED = re.compile(r"The lake [^\n]+ is written by another server: [^\n]+?(?=\. Nothing was committed)")
_HELD = re.compile(r"[^\n]+ on (?P<host>[^\n,]+), server of [^\n]+, process (?P<pid>\d{1,9}), since [^\n]+")
_FLOCK = "hhqqi4x"  # C's `struct flock` of Linux: type, whence, start, length, process
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class LakeWriter:
    """The server that holds a lake: its JVM's process id (0 where it runs on another machine or in another container),
    and what it says of itself: user, machine, its folder, process, since when."""

    pid: int
    words: str


def writer_of(root: str) -> LakeWriter | None:
    """The server that holds the lake at this very moment; None where nobody does, and where that cannot be told from
    here: a folder on a system other than Linux, a file that may not be read, a store that speaks no S3."""
    files = files_of(root)
    if isinstance(files, StoreFiles):
        return _in_a_store(files)
    if isinstance(files, FolderFiles) and sys.platform == "linux":
        return _in_a_folder(files)
    return None


def _in_a_store(files: StoreFiles) -> LakeWriter | None:
    try:
        words, until = files.read(WRITER_FILE, _MOST_BYTES).decode("utf-8", "replace").split("\n")[:2]
        ends = datetime.fromtimestamp(int(until) / 1000, UTC)
    except (OSError, ValueError, OverflowError):  # what is wrong with the store is told by whoever needs it
        return None
    if ends <= datetime.now(UTC):
        return None
    found = _HELD.fullmatch(words)
    pid = int(found["pid"]) if found is not None and found["host"] == socket.gethostname() else 0
    return LakeWriter(pid, f"{words}, until {ends:%Y-%m-%dT%H:%M:%SZ} unless it goes on")


def _in_a_folder(files: FolderFiles) -> LakeWriter | None:
    try:
        with Path(files.full(WRITER_FILE)).open("rb") as file:
            # Asked for a lock to read, as the file may be another user's; the answer tells of one to write.
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
            said = file.read(_MOST_BYTES)
    except OSError:
        return None
    if kind == fcntl.F_UNLCK:
        return None
    return LakeWriter(max(pid, 0), said.decode("utf-8", "replace").strip() or f"process {pid}")


def demand_no_other(root: str, own_pid: int | None) -> None:
    """Raises LakeError, with the name of the holder, where a server other than the one with this process id holds the
    lake. For the start of a command: every commit is refused by itself."""
    holder = writer_of(root)
    if holder is not None and (own_pid is None or holder.pid != own_pid):
        raise LakeError(_refusal(f"The lake {root} is written by another server: {holder.words}"))


def refusal_in(error: BaseException) -> LakeError | None:
    """The refusal of a commit as one line, where an error of Spark's is one; else None."""
    found = _REFUSED.search(str(error))
    return None if found is None else LakeError(_refusal(found[0]))


def _refusal(sentence: str) -> str:
    return (
        f"{sentence}. Nothing was written: let this command use that server (EVENKEEL_HOME names the folder in which "
        "its `.evenkeel` lies, EVENKEEL_SPARK a server by URL), wait until it ends, or end it"
    )
