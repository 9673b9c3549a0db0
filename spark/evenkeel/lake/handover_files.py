"""Hand-overs too large for a message between tasks: a file in the lake, and a small reference to it.

A day of five-minute cycles lists five thousand writes, a megabyte of JSON. Airflow's XCom keeps such a text in its
database for every task of every run. So a large hand-over is written beside the tables, once, and the message has its
name and SHA-256. Users may edit XComs, so only configured lakes are read, and sizes are bounded.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from datetime import datetime
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.handover import Handover
from evenkeel.json_text import parse_json
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, files_of
from evenkeel.settings.lakes import LakeMap

FOLDER = "_handovers"
MOST_BYTES = 48_000
"""Longest text that is sent itself: it has room for half a dozen cycles."""
MOST_FILE_BYTES = 256 << 20
"""Largest file of a hand-over, that of some 250 days of five-minute cycles."""
_REFERENCE = "handover_file"
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}\.json")


def handed_on(handover: Handover) -> str:
    """Return the text for the next task (`taken` reads it): the hand-over's JSON, or the reference to a new file of it.

    Raises LakeError if the file cannot be written, or would be larger than `MOST_FILE_BYTES`.
    """
    text = handover.to_json()
    data = text.encode()
    files = _files(handover.lake)
    if len(data) <= MOST_BYTES:
        return text
    if len(data) > MOST_FILE_BYTES:
        raise LakeError(f"the hand-over of run {handover.run.run_id} has {len(data):,} bytes: take a shorter interval")
    # The name cannot be guessed, and does not contain names of runs, which may hold any character.
    name = f"{hashlib.sha256(handover.run.run_id.encode()).hexdigest()[:16]}-{uuid.uuid4().hex}.json"
    try:
        files.write_new(name, data)
    except OSError as error:
        raise LakeError(
            f"the hand-over of run {handover.run.run_id} cannot be written to {files.full(name)}: {error}. Make room, "
            "or the place writable, and run the task again"
        ) from error
    reference = {_REFERENCE: name, "lake": handover.lake, "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(reference, sort_keys=True, ensure_ascii=False)


def taken(text: str, lakes: LakeMap, most_bytes: int = MOST_FILE_BYTES) -> Handover:
    """Read the hand-over from a text of `handed_on`; of files only one in a lake of `lakes`, of `most_bytes` at most.

    Raises LakeError if its file is missing or differs from the written one, and ValueError, LookupError or TypeError if
    the text is not a hand-over.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} characters")
    body: Any = parse_json(text)
    if not isinstance(body, dict) or _REFERENCE not in body:
        return Handover.from_json(text)
    name, lake = str(body[_REFERENCE]), lakes.at(str(body["lake"]))
    if lake is None or not _NAME.fullmatch(name):
        raise LakeError(
            f"the hand-over {name!r} of the lake {body['lake']} is not a file of a configured lake: nothing was read"
        )
    files = _files(lake.path)
    try:
        data = files.read(name, most_bytes + 1)
    except OSError as error:
        raise LakeError(
            f"the hand-over {files.full(name)} cannot be read: {error}. If upkeep has removed it, its run is too old "
            "to continue: start a new run"
        ) from error
    if len(data) > most_bytes or hashlib.sha256(data).hexdigest() != body["sha256"]:
        fault = f"differs from what the task before wrote, or has more than {most_bytes:,} bytes"
        raise LakeError(f"the hand-over {files.full(name)} {fault}: start a new run")
    return Handover.from_json(data.decode())


def clear(root: str, before: datetime) -> int:
    """Remove the files of hand-overs that were last written before a moment; return their number."""
    files = _files(root)
    removed = 0
    for name, modified in files.modified("").items():
        if _NAME.fullmatch(name) and modified < before.timestamp():
            files.remove(name)
            removed += 1
    return removed


def _files(root: str) -> TableFiles:
    return files_of(Lake(root).path(FOLDER))
