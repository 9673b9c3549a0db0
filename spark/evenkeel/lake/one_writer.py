"""One writing server for a lake: it holds a lock on the file `_writer` in the lake's folder, or a lease in its bucket.

In a folder the JVM takes an operating system's lock before its first commit and keeps it until it ends
(`evenkeel.spark.file_systems`). So a killed server frees it, and a suspended one keeps it. The file names the holder,
for people; only the lock decides, and a file without one means nothing. In an object store the object `_writer` holds
the end of the lease. The holder replaces it again and again, and no other server does before that time. Control rows
that an operator writes without Spark need neither: they too are committed only under a name that does not exist yet.
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

from evenkeel.errors import LakeError
from evenkeel.folders import open_below
from evenkeel.lake.table_files import FolderFiles, StoreFiles, files_of

WRITER_FILE = "_writer"
"""The file in a lake's root; no table has a name that begins with an underscore."""
_REFUSED = re.compile(r"The lake [^\n]+ is written by another server: [^\n]+?(?=\. Nothing was committed)")
_HELD = re.compile(r"[^\n]+ on (?P<host>[^\n,]+), server of [^\n]+, process (?P<pid>\d{1,9}), since [^\n]+")
_FLOCK = "hhqqi4x"  # C's `struct flock` of Linux: type, whence, start, length, process
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class LakeWriter:
    """The server that holds a lake: its JVM's process id (0 on another machine or in another container), and its own
    description: user, machine, folder, process, start."""

    pid: int
    words: str


def writer_of(root: str) -> LakeWriter | None:
    """Return the server that holds the lake at this moment; None if no server does, or if this process cannot see it.

    It cannot see it in a folder on other systems than Linux, in an unreadable file, or in a store without S3.
    """
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
    except (OSError, ValueError, OverflowError):  # the next user of the store reports the store's fault
        return None
    if ends <= datetime.now(UTC):
        return None
    match = _HELD.fullmatch(words)
    pid = int(match["pid"]) if match is not None and match["host"] == socket.gethostname() else 0
    return LakeWriter(pid, f"{words}, until {ends:%Y-%m-%dT%H:%M:%SZ} unless it goes on")


def _in_a_folder(files: FolderFiles) -> LakeWriter | None:
    try:
        with os.fdopen(open_below(files.folder, WRITER_FILE), "rb") as file:
            # The request is for a read lock, as the file may be another user's; the answer also shows a write lock.
            lock_request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, lock_request))
            holder_text = file.read(_MOST_BYTES)
    except OSError:
        return None
    if kind == fcntl.F_UNLCK:
        return None
    return LakeWriter(max(pid, 0), holder_text.decode("utf-8", "replace").strip() or f"process {pid}")


def demand_no_other(root: str, own_pid: int | None) -> None:
    """Raise LakeError, with the name of the holder, if a server other than the one with this process id holds the lake.

    It is for the start of a command: every commit is refused by itself.
    """
    holder = writer_of(root)
    if holder is not None and (own_pid is None or holder.pid != own_pid):
        raise LakeError(_refusal(f"The lake {root} is written by another server: {holder.words}"))


def refusal_in(error: BaseException) -> LakeError | None:
    """Return the refusal of a commit as one line if Spark's error is one; else None."""
    match = _REFUSED.search(str(error))
    return None if match is None else LakeError(_refusal(match[0]))


def _refusal(sentence: str) -> str:
    return (
        f"{sentence}. Nothing was written: let this command use that server (EVENKEEL_HOME names the folder of its "
        "`.evenkeel`, EVENKEEL_SPARK a server by URL), wait until it ends, or end it"
    )
