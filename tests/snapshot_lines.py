"""Snapshots in lines, made of documents, and the requests of any snapshot."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
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


def requests_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the requests of a snapshot with their whole texts."""
    data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    if ".jsonl" in path.name:
        yield from map(json.loads, data.splitlines()[1:])
    else:
        yield from json.loads(data)["requests"]
