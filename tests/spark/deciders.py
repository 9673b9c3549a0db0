"""Decide functions for the tests of grouped maps; workers import them by their path."""

import struct
from collections.abc import Mapping
from typing import Any

from evenkeel.cycle.fold import Round, fold
from evenkeel.errors import BadInput

Rows = list[dict[str, Any]]
Group = Mapping[str, Rows]


def echo(key: Mapping[str, object], rows: Group) -> Group:
    return {"out": rows["in"]}


def double_bits(key: Mapping[str, object], rows: Group) -> Group:
    """Each double with the bits that the function saw."""
    return {
        "out": [
            {"id": row["id"], "value": row["value"], "bits": struct.pack(">d", row["value"]).hex()}
            for row in rows["in"]
        ]
    }


def describe(key: Mapping[str, object], rows: Group, *, parameters: Mapping[str, Any]) -> Group:
    """What a decide function is given, as text."""
    return {"out": [{"text": repr((dict(key), dict(rows), dict(parameters)))}]}


def count(key: Mapping[str, object], rows: Group) -> Group:
    counts = {kind: len(found) for kind, found in rows.items()}
    return {"sizes": [{"brokers": counts["brokers"], "bundles": counts["bundles"]}], "empty": []}


def order(key: Mapping[str, object], rows: Group) -> Group:
    return {"out": [{"ids": [row["id"] for row in rows["in"]]}]}


def echo_and_order(key: Mapping[str, object], rows: Group) -> Group:
    return {**echo(key, rows), **{"order": order(key, rows)["out"]}}


def half(key: Mapping[str, object], rows: Group) -> Group:
    return {"out": [{"text": "\ud800"}]}


def fail(key: Mapping[str, object], rows: Group) -> Group:
    raise BadInput("bundle t/n/0x00000000_0x00000000 is empty\nand a second line that nobody needs")


def misfit(key: Mapping[str, object], rows: Group) -> Group:
    return {"out": [{"id": "not a number"}]}


def stray(key: Mapping[str, object], rows: Group) -> Group:
    return {"elsewhere": []}


def remembered(key: Mapping[str, object], rows: Group) -> Group:
    """The rows of a table of state, as they came, but for the stamp of a write."""
    return {"strategy_state": [_unstamped(row) for row in rows["strategy_state"]]}


def _unstamped(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("cycle_date", "write_id")}


def refusing(key: Mapping[str, object], rows: Group) -> Group:
    raise ValueError(f"cannot decide on {len(rows['strategy_state'])} rows\nof which more is said here")


def straying(key: Mapping[str, object], rows: Group) -> Group:
    return {"elsewhere": []}


def misfitting(key: Mapping[str, object], rows: Group) -> Group:
    return {"strategy_state": [{**_unstamped(rows["strategy_state"][0]), "value": "much"}]}


def refusing_east(key: Mapping[str, object], rows: Any) -> Any:
    """A round that fails on one cluster, in the fold of the tasks."""
    return fold((Round(_refusing_east),), key, rows)


def refusing_each(key: Mapping[str, object], rows: Any) -> Any:
    return fold((Round(refusing),), key, rows)


def _refusing_east(key: Mapping[str, object], rows: Any) -> Any:
    return refusing(key, rows) if key["cluster"] == "east" else remembered(key, rows)
