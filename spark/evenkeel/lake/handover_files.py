"""Hand-overs that are too large for a message between tasks: a file in the lake, and a small reference to it.

A day of five-minute cycles lists five thousand writes, a megabyte of JSON; Airflow's XCom keeps such a text in its
database for every task of every run. So a large one is written beside the tables, once, and what travels is its name
with the SHA-256 of its bytes. In an object store it travels as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.handover import Handover
from evenkeel.lake.delta_log import local_log
from evenkeel.lake.store import Lake

FOLDER = "_handovers"
MOST_BYTES = 48_000
"""The longest text that travels itself: half a dozen cycles have room in it."""
_REFERENCE = "handover_file"
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}\.json")


def handed_on(handover: Handover) -> str:
    """The text that the next task gets (`taken` reads it): the hand-over's JSON, or the reference to a new file of it.

    Raises LakeError where the file cannot be written.
    """
    text = handover.to_json()
    data = text.encode()
    folder = _folder(handover.lake)
    if len(data) <= MOST_BYTES or folder is None:
        return text
    # Nobody can guess the name, and names of runs, which may hold any sign, stay out of it.
    name = f"{hashlib.sha256(handover.run.run_id.encode()).hexdigest()[:16]}-{uuid.uuid4().hex}.json"
    try:
        _write(folder, name, data)
    except OSError as error:
        raise LakeError(
            f"the hand-over of run {handover.run.run_id} cannot be written to {folder / name}: {error}. Make room, or "
            "the folder writable, and run the task again"
        ) from error
    reference = {_REFERENCE: name, "lake": handover.lake, "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(reference, sort_keys=True, ensure_ascii=False)


def taken(text: str) -> Handover:
    """The hand-over in a text that `handed_on` gave.

    Raises LakeError where its file is missing or is not what was written, ValueError, KeyError or TypeError for a text
    that is no hand-over.
    """
    body: Any = json.loads(text)
    if not isinstance(body, dict) or _REFERENCE not in body:
        return Handover.from_json(text)
    name, folder = str(body[_REFERENCE]), _folder(str(body["lake"]))
    if folder is None or not _NAME.fullmatch(name):
        raise LakeError(f"the hand-over {name!r} of the lake {body['lake']} is no file of that lake: nothing was read")
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise LakeError(
            f"the hand-over {folder / name} cannot be read: {error}. Where upkeep has removed it, its run is too old "
            "to be gone on with: start the run anew"
        ) from error
    if hashlib.sha256(data).hexdigest() != body["sha256"]:
        raise LakeError(f"the hand-over {folder / name} is not what the task before wrote: start the run anew")
    return Handover.from_json(data.decode())


def clear(root: str, before: datetime) -> int:
    """Removes the files of hand-overs that were last written before a moment; returns their number."""
    folder = _folder(root)
    if folder is None or not folder.is_dir():
        return 0
    gone = 0
    for file in folder.iterdir():
        if _NAME.fullmatch(file.name) and file.stat().st_mtime < before.timestamp():
            file.unlink(missing_ok=True)
            gone += 1
    return gone


def _folder(root: str) -> Path | None:
    """None for an object store."""
    log = local_log(Lake(root).path(FOLDER))
    return None if log is None else log.parent


def _write(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
