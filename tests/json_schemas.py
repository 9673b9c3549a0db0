"""The schemas that the reference has of what commands print with `--json`, and what they print held against them."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


def schemas() -> dict[str, Any]:
    """Command -> its documented schema."""
    (of_status,) = re.findall(r"```json schema\n(.*?)```", (REFERENCE / "status-json.md").read_text("utf-8"), re.S)
    found: dict[str, Any] = {}
    for section in re.split(r"^### ", (REFERENCE / "json.md").read_text("utf-8"), flags=re.M)[1:]:
        head, _, body = section.partition("\n")
        own = re.findall(r"```json schema\n(.*?)```", body, re.S)
        assert len(own) == 1 or "[status-json.md]" in body, head
        for name in re.findall(r"`(.+?)`", head):
            assert name not in found, name
            found[name] = json.loads(own[0] if own else of_status)
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
