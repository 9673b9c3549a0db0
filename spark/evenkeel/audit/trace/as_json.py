"""A trace as JSON for a program; keys are documented in docs/how-to/explain.md and stay as they are."""

from __future__ import annotations

import json
from dataclasses import asdict

from evenkeel.audit.explain.as_json import stamp
from evenkeel.audit.trace.model import Dependents, Inputs

VERSION = 1


def as_json(found: Inputs | Dependents) -> str:
    """The text of one JSON object."""
    body = asdict(found) | {"type": "inputs" if isinstance(found, Inputs) else "dependents", "version": VERSION}
    if isinstance(found, Dependents):
        body["direct_decisions"] = found.decisions
    return json.dumps(body, ensure_ascii=False, indent=2, default=stamp)
