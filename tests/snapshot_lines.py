"""Snapshots in lines, made of documents."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def in_lines(document: Mapping[str, Any], more: Sequence[str] = (), *, has_configuration: bool = True) -> bytes:
    """The document as a snapshot in lines; `more` are further lines behind its requests."""
    head = {**document, "has_configuration": has_configuration}
    requests = [
        json.dumps({"n": n, **request} if isinstance(request, dict) else request, ensure_ascii=False)
        for n, request in enumerate(document["requests"])
    ]
    lines = [*requests, *more]
    return "\n".join([json.dumps({**head, "requests": len(lines)}), *lines, ""]).encode("utf-8", "replace")


def land_lines(
    document: Mapping[str, Any], file: Path, more: Sequence[str] = (), *, has_configuration: bool = True
) -> Path:
    """Write the snapshot to a file, packed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(in_lines(document, more, has_configuration=has_configuration), 1))
    return file
