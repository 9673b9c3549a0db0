"""Files that `verify` writes to a lake, one for each run: who checked what and when, and the result.

These files are not signed. They tell an operator when the record was last verified; only `verify` itself can prove the
record. So a run never fails because its file cannot be written, and values from such a file are only shown.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.json_text import parse_json
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, files_of
from evenkeel.spark.code import code_version
from evenkeel.spark.home import login

if TYPE_CHECKING:  # the desk reads runs without loading `verify`
    from evenkeel.verify import VerifyReport

FOLDER = "_verify"
"""The folder of the files in a lake's root; no table has a name that begins with an underscore."""
KEPT = 50
"""The number of files that stay; a run removes older ones."""
MOST_BYTES = 16_384
_NAME = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}\.json")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """A run of `verify` as its file describes it.

    `at`: time of its end. `by`: user and host. `version`: version of the code. `depth`: how much was decided again.
    `cluster`: "" for all. `since`, `until`: ends of the range of cycles, "" for an open one. `manifests`: number of
    manifests of all chains. `cycles`: number of attempts that were to be decided again; `reproduced` of them were.
    `places`: number of faults. `leaves`: size of the log's checkpoint that the run read, 0 without a log.
    `held_against`: number of checkpoints, witnesses, heads and keys that the run was given.
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
    report: VerifyReport, *, depth: str, cluster: str | None, since: datetime | None, until: datetime | None,
    held_against: int,
) -> VerifyRun:  # fmt: skip
    """Return the description of a run of this process that ends now."""
    checkpoint = None if report.log is None else report.log.checkpoint
    return VerifyRun(
        at=datetime.now(UTC).replace(microsecond=0),
        by=f"{login()}@{socket.gethostname()}",
        version=code_version(),
        depth=depth,
        cluster=cluster or "",
        since="" if since is None else since.isoformat(),
        until="" if until is None else until.isoformat(),
        manifests=sum(report.manifests.values()),
        cycles=report.verified.tried,
        reproduced=len(report.verified.reproduced),
        places=len(report.faults),
        leaves=0 if checkpoint is None else checkpoint.checkpoint.size,
        held_against=held_against,
    )


def leave(lake: str, run: VerifyRun) -> str | None:
    """Write the file of a run and remove the oldest beyond `KEPT`. Return why it was not written, None if it was.

    Nothing is written to an export.
    """
    try:
        files = files_of(Lake(lake).root)
        from evenkeel.verify.export import MANIFEST

        if files.exists(MANIFEST):
            return "an export is not written to"
        name = f"{run.at:%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}.json"
        line = json.dumps({**asdict(run), "at": run.at.isoformat()}, ensure_ascii=False)
        files.write_new(f"{FOLDER}/{name}", f"{line}\n".encode())
        for old in _names(files)[KEPT:]:
            files.remove(f"{FOLDER}/{old}")
    except Exception as error:  # the report is printed already and does not depend on this file
        return f"{error.strerror or error}" if isinstance(error, OSError) else str(error)
    return None


def read_runs(lake: str, most: int = KEPT) -> list[VerifyRun]:
    """Return the `most` newest runs on file, the newest first. Files that cannot be read as a run are skipped."""
    files = files_of(Lake(lake).root)
    try:
        names = _names(files)[:most]
    except OSError:
        return []
    runs = [run for name in names if (run := _read(files, f"{FOLDER}/{name}"))]
    return sorted(runs, key=lambda run: run.at, reverse=True)


def _names(files: TableFiles) -> list[str]:
    return sorted((name for name in files.names(FOLDER) if _NAME.fullmatch(name)), reverse=True)


def _read(files: TableFiles, name: str) -> VerifyRun | None:
    try:
        data = files.read(name, MOST_BYTES + 1)
        values = parse_json(data) if len(data) <= MOST_BYTES else None
        return _run(values) if isinstance(values, dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run(values: dict[str, Any]) -> VerifyRun:
    """Return the run that the values of a file describe. Raises ValueError, KeyError or TypeError if they do not."""
    at = datetime.fromisoformat(values["at"])
    if at.tzinfo is None:
        raise ValueError("a moment without a zone")
    kinds = {column.name: column.type for column in fields(VerifyRun) if column.name != "at"}
    typed = {name: values[name] for name in kinds}
    for name, kind in kinds.items():
        if type(typed[name]).__name__ != kind:
            raise TypeError(name)
    texts = {name: value[:_LONGEST] for name, value in typed.items() if isinstance(value, str)}
    return VerifyRun(at=at, **{**typed, **texts})
