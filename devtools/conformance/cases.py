"""Cases: JSON lines, plain or gzipped, one case with its golden answer on each."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput

SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `expected` is Pulsar's answer, None if Pulsar refused (`error` is its text then)."""

    id: str
    op: str
    input: dict[str, Any]
    expected: dict[str, Any] | None
    error: str | None


def case_files(paths: Iterable[str | Path]) -> list[Path]:
    """The case files among these files and folders, in name order; `BadInput` if something is missing or has none."""
    case_paths: list[Path] = []
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise BadInput(f"cases {path} do not exist: give a folder or a file of JSON lines (.jsonl, .jsonl.gz)")
        files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.name.endswith(SUFFIXES))
        if not files:
            raise BadInput(f"cases {path} hold no file that ends in .jsonl or .jsonl.gz")
        case_paths += files
    return case_paths


def read_cases(file: Path) -> Iterator[Case]:
    """Return the cases of one file; `BadInput` names the file and line of an unreadable one."""
    number = 0
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _case(line, f"{file}:{number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadInput(f"{file}:{number + 1}: cannot be read: {error}") from None


def _case(line: str, place: str) -> Case:
    try:
        body = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{place}: not JSON: {error}") from None
    if not isinstance(body, dict) or not all(isinstance(body.get(k), str) for k in ("id", "op")):
        raise BadInput(f"{place}: not a case: it needs an id, an op and an input")
    if not isinstance(body.get("input"), dict):
        raise BadInput(f"{place}: case {body['id']} has no input")
    if not isinstance(body.get("output"), dict) and not isinstance(body.get("error"), str):
        raise BadInput(f"{place}: case {body['id']} has no answer: it needs an output or an error")
    return Case(body["id"], body["op"], body["input"], body.get("output"), body.get("error"))
