"""Files that `verify` leaves in a lake, one for each run: who checked what and when, and the result.

These files are not signed. They tell an operator when the record was last verified; only `verify` itself can prove the
record. So a run never fails because its file cannot be written, and anything that is read here is taken for text.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.json_text import parse_json
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import FolderFiles, TableFiles, files_of
from evenkeel.spark.code import code_version
from evenkeel.spark.home import login

if TYPE_CHECKING:  # a page reads runs without what makes them
    from evenkeel.verify import VerifyReport

FOLDER = "_verify"
"""The folder of the files in a lake's root; no table has a name that begins with an underscore."""
KEPT = 50
"""So many files stay; a run removes older ones."""
MOST_BYTES = 16_384
_NAME = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}\.json")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """A run of `verify` as its file describes it.

    `since` and `until`: ends of the range of cycles, "" for an open one; `cluster`: "" for all. `leaves`: size of the
    log's checkpoint that the run read, 0 without a log; `held_against`: how many checkpoints, witnesses, heads and keys
    from elsewhere it was given. `manifests`: length of all chains; `cycles`: how many were decided again, `reproduced`
    of them alike. `places`: how many were not as they should be.
    """

    at: datetime
    by: str
    version: str
    depth: str
    cluster: str
    since: str
    until: str
    manifests: int
    cycles: int
    reproduced: int
    places: int
    leaves: int
    held_against: int


def run_of(
    found: VerifyReport, *, depth: str, cluster: str | None, since: datetime | None, until: datetime | None,
    held_against: int,
) -> VerifyRun:  # fmt: skip
    """Return the description of a run of this process, now."""
    checkpoint = None if found.log is None else found.log.checkpoint
    return VerifyRun(
        at=datetime.now(UTC).replace(microsecond=0),
        by=f"{login()}@{socket.gethostname()}",
        version=code_version(),
        depth=depth,
        cluster=cluster or "",
        since="" if since is None else since.isoformat(),
        until="" if until is None else until.isoformat(),
        manifests=sum(found.manifests.values()),
        cycles=found.verified.tried,
        reproduced=len(found.verified.reproduced),
        places=len(found.faults),
        leaves=0 if checkpoint is None else checkpoint.checkpoint.size,
        held_against=held_against,
    )


def leave(lake: str, run: VerifyRun) -> str | None:
    """Write the file of a run and remove the oldest beyond `KEPT`; return why it was not written, None if it was.

    An export is left as it was handed out.
    """
    try:
        files = _files(lake)
        if files is None:
            return "this kind of store is not written to"
        from evenkeel.verify.export import MANIFEST

        if files.exists(MANIFEST):
            return "an export is not written to"
        name = f"{run.at:%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}.json"
        line = json.dumps({**asdict(run), "at": run.at.isoformat()}, ensure_ascii=False)
        files.write_new(f"{FOLDER}/{name}", f"{line}\n".encode())
        for old in _names(files)[KEPT:]:
            files.remove(f"{FOLDER}/{old}")
    except Exception as error:  # the answer is out already, and stands whatever a store says here
        return f"{error.strerror or error}" if isinstance(error, OSError) else str(error)
    return None


def read_runs(lake: str, most: int = KEPT) -> list[VerifyRun]:
    """Return the newest runs on file, the newest first. Other files, and those that cannot be read, are left out."""
    try:
        files = _files(lake)
        names = [] if files is None else _names(files)[:most]
    except OSError:
        return []
    found = [run for name in names if files is not None and (run := _read(files, f"{FOLDER}/{name}"))]
    return sorted(found, key=lambda run: run.at, reverse=True)


def _files(lake: str) -> TableFiles | None:
    return files_of(Lake(lake).root)


def _names(files: TableFiles) -> list[str]:
    if isinstance(files, FolderFiles) and not files.has_folder(FOLDER):
        return []
    return sorted((name for name in files.names(FOLDER) if _NAME.fullmatch(name)), reverse=True)


def _read(files: TableFiles, name: str) -> VerifyRun | None:
    try:
        if isinstance(files, FolderFiles) and Path(files.full(name)).stat().st_size > MOST_BYTES:
            return None
        data = files.read(name) if isinstance(files, FolderFiles) else files.read(name, MOST_BYTES)
        told = parse_json(data)
        return _run(told) if isinstance(told, dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run(told: dict[str, Any]) -> VerifyRun:
    """Return the run that a file describes. Raises ValueError, KeyError or TypeError for anything else."""
    at = datetime.fromisoformat(told["at"])
    if at.tzinfo is None:
        raise ValueError("a moment without a zone")
    kinds = {one.name: one.type for one in fields(VerifyRun) if one.name != "at"}
    words = {name: told[name] for name in kinds}
    for name, kind in kinds.items():
        if type(words[name]).__name__ != kind:
            raise TypeError(name)
    texts = {name: word[:_LONGEST] for name, word in words.items() if isinstance(word, str)}
    return VerifyRun(at=at, **{**words, **texts})
