"""The schemas that the reference has of what commands print with `--json`, and what they print held against them."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


def schemas() -> dict[str, Any]:
    """Command -> its documented schema."""
    rows = re.findall(r"^\|(`.+?`)\|\[.+?\]\((json/.+?\.json)\)\|", (REFERENCE / "json.md").read_text("utf-8"), re.M)
    found: dict[str, Any] = {}
    for names, file in rows:
        for name in re.findall(r"`(.+?)`", names):
            assert name not in found, name
            found[name] = json.loads((REFERENCE / file).read_text("utf-8"))
    return found


SCHEMAS = schemas()


def check(name: str, out: str) -> list[Any]:
    """The results on standard output, each held against the schema: one document, or a line each."""
    try:
        results = [json.loads(out)]
    except ValueError:
        results = [json.loads(line) for line in out.splitlines()]
    for one in results:
        jsonschema.validate(one, SCHEMAS[name], cls=jsonschema.Draft202012Validator)
    return results
