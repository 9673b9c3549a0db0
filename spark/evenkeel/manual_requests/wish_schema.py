"""The JSON Schema of a wish: one per kind; options of splits and unloads are named as in Pulsar's admin REST API.

The DAG `rebalance` checks its param `wishes` with it, and `ingest.wish_intake` takes the names of a wish's options from
it. It imports nothing large, since DAG files are parsed again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.lake.schemas.acted import DRAIN, SPLIT, UNDRAIN, UNLOAD, UNLOAD_TOPIC

LARGEST, HOT = "LARGEST", "HOT"
"""Literals instead of a range: the namespace's bundle with most topics, or with most traffic."""
ALL = "ALL"
"""Literal instead of a range: every bundle of the namespace, to be unloaded."""

_RANGE = r"^0[xX][0-9a-fA-F]{1,8}_0[xX][0-9a-fA-F]{1,8}$"
_NAMESPACE = r"^[-=:.\w]+/[-=:.\w]+$"
BROKER = r"^[^\s/]+:\d{1,5}$"
"""A broker id, `host:port`."""
_TOPIC = r"^((non-)?persistent://)?[-=:.\w]+/[-=:.\w]+/[^/]+$"


def _schema(kind: str, bundle: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "kind": {"const": kind},
            "cluster": {"type": "string", "minLength": 1},
            "namespace": {"type": "string", "pattern": _NAMESPACE},
            "bundle": {"type": "string", "pattern": bundle},
            "by": {"type": "string", "minLength": 1},
            **options,
        },
        "required": ["kind", "namespace", "bundle"],
        "additionalProperties": False,
    }


def _of_one(kind: str, name: str, pattern: str) -> dict[str, Any]:
    """Return the schema of a wish that names one thing, and has no options."""
    return {
        "type": "object",
        "properties": {
            "kind": {"const": kind},
            "cluster": {"type": "string", "minLength": 1},
            name: {"type": "string", "pattern": pattern},
            "by": {"type": "string", "minLength": 1},
        },
        "required": ["kind", name],
        "additionalProperties": False,
    }


SCHEMAS: Mapping[str, dict[str, Any]] = {
    SPLIT: _schema(
        SPLIT,
        f"{_RANGE}|^{LARGEST}$|^{HOT}$",
        {
            "splitAlgorithmName": {"type": "string"},
            "splitBoundaries": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}},
            "unload": {"type": "boolean"},
        },
    ),
    UNLOAD: _schema(UNLOAD, f"{_RANGE}|^{ALL}$", {"destinationBroker": {"type": "string", "minLength": 1}}),
    UNLOAD_TOPIC: _of_one(UNLOAD_TOPIC, "topic", _TOPIC),
    DRAIN: _of_one(DRAIN, "broker", BROKER),
    UNDRAIN: _of_one(UNDRAIN, "broker", BROKER),
}
"""Kind -> the schema of a wish of that kind."""


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names that a wish of that kind may have."""
    return tuple(SCHEMAS[kind]["properties"])
