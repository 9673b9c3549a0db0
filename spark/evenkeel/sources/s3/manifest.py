"""A manifest: the object that says that a snapshot has arrived, what it is, and which bytes belong to it.

Nothing in it is believed before it is checked: names of files become names on a disk, and sizes bound what is fetched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.sources.headers import FOLDER_HEADER, utc

FORMAT = 1
DOCUMENTS = ("document.json", "document.json.gz")
"""What a snapshot of one JSON document is called in the landing zone, plain and packed."""

_PART = re.compile(r"requests-[^/\\\x00]{1,200}\.jsonl(\.gz)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a snapshot: its name, its size in bytes, its sha256 (hex)."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a landed snapshot says of itself. `collector` names the machine that uploaded it, `version` its Evenkeel."""

    cluster: str
    started_at: datetime
    finished_at: datetime
    has_configuration: bool
    files: tuple[StoredFile, ...]
    collector: str
    version: str
    cycle_at: datetime | None = None

    @property
    def moment(self) -> datetime:
        """The moment that the snapshot stands for: of its cycle where it was taken for one, else of its end."""
        return self.cycle_at or self.finished_at

    @property
    def digest(self) -> str:
        """sha256 (hex) of names, sizes and digests of the files, whatever their order."""
        told = sorted([file.name, file.size, file.sha256] for file in self.files)
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def is_document(self) -> bool:
        """Whether the snapshot is one JSON document; else it is a folder."""
        return self.files[0].name in DOCUMENTS

    def to_bytes(self) -> bytes:
        """JSON with sorted members: the same snapshot makes the same bytes."""
        body = {
            "format": FORMAT,
            "cluster": self.cluster,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "cycle_at": self.cycle_at.isoformat() if self.cycle_at else None,
            "has_configuration": self.has_configuration,
            "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in self.files],
            "digest": self.digest,
            "uploaded_by": {"collector": self.collector, "version": self.version},
        }
        return (json.dumps(body, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def read_manifest(data: bytes) -> Manifest:
    """The manifest in these bytes; `BadInput` says which member cannot be what it should be."""
    try:
        body = json.loads(data)
    except ValueError as error:
        raise BadInput(f"it is no JSON ({error})") from None
    if not isinstance(body, dict):
        raise BadInput(f"it is a JSON {type(body).__name__}, not an object")
    if body.get("format") != FORMAT:
        raise BadInput(f"format is {body.get('format')!r}; this version reads format {FORMAT}")
    uploaded_by = body.get("uploaded_by")
    if not isinstance(uploaded_by, dict):
        uploaded_by = {}
    manifest = Manifest(
        cluster=_text(body, "cluster"),
        started_at=utc(body.get("started_at")),
        finished_at=utc(body.get("finished_at")),
        cycle_at=utc(body["cycle_at"]) if body.get("cycle_at") is not None else None,
        has_configuration=body.get("has_configuration") is True,
        files=_files(body.get("files")),
        collector=str(uploaded_by.get("collector") or "unknown"),
        version=str(uploaded_by.get("version") or "unknown"),
    )
    if body.get("digest") != manifest.digest:
        raise BadInput("its digest is not the one of the files that it lists: it was altered, or written by other code")
    return manifest


def _text(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    if not isinstance(value, str) or not value:
        raise BadInput(f"member {member} is missing or no text")
    return value


def _files(listed: object) -> tuple[StoredFile, ...]:
    if not isinstance(listed, list) or not listed:
        raise BadInput("member files lists nothing")
    files = tuple(_file(entry) for entry in listed)
    check_names([file.name for file in files])
    return files


def _file(entry: object) -> StoredFile:
    if not isinstance(entry, dict):
        raise BadInput(f"an entry of files is a JSON {type(entry).__name__}, not an object")
    name, size, sha256 = entry.get("name"), entry.get("size"), entry.get("sha256")
    if not isinstance(name, str):
        raise BadInput(f"a file has the name {name!r}")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise BadInput(f"file {name} has the size {size!r}")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise BadInput(f"file {name} has no sha256 of 64 hex digits")
    return StoredFile(name, size, sha256)


def check_names(names: Sequence[str]) -> None:
    """Demands the files of one document, or of one folder: anything else could leave the folder it is written to."""
    if len(names) == 1 and names[0] in DOCUMENTS:
        return
    strange = [name for name in names if name != FOLDER_HEADER and not _PART.fullmatch(name)]
    if strange:
        raise BadInput(
            f"file {strange[0]!r} belongs to no snapshot: expected {FOLDER_HEADER} and requests-*.jsonl[.gz]"
        )
    if len(set(names)) < len(names):
        raise BadInput("a file is listed twice")
    if FOLDER_HEADER not in names or len(names) == 1:
        raise BadInput(
            f"a snapshot's folder holds {FOLDER_HEADER} and requests-*.jsonl[.gz]; listed are {', '.join(names)}"
        )
