"""Results on standard output: for a person in lines, with `--json` as one JSON object a result."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

VERSION = 1
"""Rises when a member of a result changes its meaning or goes; docs/reference/json.md has the schemas."""


def add_json(parser: argparse.ArgumentParser, of: str = "one JSON object") -> None:
    """The option `--json`."""
    parser.add_argument("--json", action="store_true", help=f"{of} on standard output, for a program")


def print_result(given: argparse.Namespace, text: str, result: Mapping[str, Any]) -> None:
    """Print the text, or with `--json` the result, as an object in one line."""
    print(as_line(result) if given.json else text, flush=True)


def as_line(result: Mapping[str, Any]) -> str:
    """The result with its version as JSON in one line; moments in ISO 8601."""
    return json.dumps({"version": VERSION, **result}, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)
