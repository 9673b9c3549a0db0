"""Commits that wait for their leaf in the transparency log: a small file for each.

A writer of rows outside manifests may have no key of the log (an operator's shell), or be killed before it can log its
commit (an upkeep). So it leaves a file about the commit in the folder `_pending` of the lake, and the next writer with
the key logs it. A commit without leaf and without such a file comes from no writer of Evenkeel.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

from evenkeel.handover import Commit, DataFile
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.table_files import files_of

FOLDER = "_pending"
"""The folder of the files in a lake's root; no table has a name that begins with an underscore."""
OUTSIDE_MANIFESTS = frozenset(
    {"anchors", "approvals", "commands", "controls", "cycles", "outcomes", "proofs", "upkeeps", "wishes"}
)
"""The tables whose files no manifest lists."""
_LOG = "_log/checkpoint"
_MOST_FILES = 10_000


def hand_on(lake: str, commit: Commit) -> None:
    """Write the file of a commit; do nothing in a lake without a transparency log."""
    files = files_of(lake)
    if files.exists(_LOG):
        text = json.dumps({**asdict(commit), "by": getpass.getuser()}, sort_keys=True)
        with suppress(FileExistsError):
            files.write_new(f"{FOLDER}/{_name(commit)}", text.encode())


def pending(lake: str) -> list[tuple[Commit, str]]:
    """Return the waiting commits, each with its maker; other files are left out."""
    files = files_of(lake)
    names = sorted(name for name in files.names(FOLDER) if name.endswith(".json"))[:_MOST_FILES]
    found: list[tuple[Commit, str]] = []
    for name in names:
        with suppress(FileNotFoundError):  # another writer may have logged it meanwhile
            if (one := _read(files.read(f"{FOLDER}/{name}"))) is not None:
                found.append(one)
    return found


def take_away(lake: str, commits: Iterable[Commit]) -> None:
    """Remove the files of commits that have their leaf."""
    files = files_of(lake)
    for name in {*files.names(FOLDER)} & {*map(_name, commits)}:
        files.remove(f"{FOLDER}/{name}")


def _name(commit: Commit) -> str:
    return f"{commit.table}-{commit.version:020d}-{commit.digest[:16]}.json"


def _read(data: bytes) -> tuple[Commit, str] | None:
    try:
        body = json.loads(data)
        files = tuple(DataFile(str(file["path"]), int(file["size"]), str(file["digest"])) for file in body["files"])
        commit = Commit(str(body["table"]), int(body["version"]), str(body["digest"]), files)
        return (commit, str(body["by"])) if commit.table in TABLES else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
