"""The cost of a plan for clients: sessions that have to connect again, and the traffic that pauses meanwhile.

A bundle that is unloaded or split closes its topics for a moment, so every producer and consumer of it connects again.
Unloads and splits are separate figures, since a split can be postponed. Commands that guards hold back cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.lake.record import Attempt, Row, read_rows

_LOAD = ("bundle", "topics", "consumers", "producers", "used_msg_rate_in", "used_msg_rate_out")
_ACTS = {"unloads": ("unload_decisions", "unload"), "splits": ("split_decisions", "split")}


@dataclass(frozen=True, slots=True)
class ClientCost:
    """Cost of some bundles: their number, `topics`, `sessions` (producers and consumers), and messages in and out
    (msg/s).

    `share`: their part of the cluster's messages, a fraction; None if nothing is known or there are none.
    """

    bundles: int = 0
    topics: int = 0
    sessions: int = 0
    msg_rate: float = 0.0
    share: float | None = None


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The cost of a plan's unloads, and of its splits. A bundle that is split and unloaded counts with both."""

    unloads: ClientCost
    splits: ClientCost


def read_plan_cost(lake: str | Path, attempt: Attempt) -> PlanCost:
    """The cost of an attempt's plan, by the loads that it was decided on. Raises LakeError where rows have expired."""
    loads = read_rows(lake, attempt, "bundle_load", columns=_LOAD)
    return PlanCost(*(client_cost(asked_bundles(lake, attempt, name), loads) for name in ("unloads", "splits")))


def asked_bundles(lake: str | Path, attempt: Attempt, acts: str) -> frozenset[str]:
    """The bundles that a plan asks to unload or split (`acts`: unloads or splits), without those that guards hold."""
    table, outcome = _ACTS[acts]
    guards = read_rows(lake, attempt, "guard_decisions", columns=["subject", "subject_kind", "outcome"])
    held = {str(row["subject"]) for row in guards if row["subject_kind"] == "bundle" and row["outcome"] == "held"}
    rows = read_rows(lake, attempt, table, columns=["subject", "subject_kind", "outcome"])
    bundles = {row["subject"] for row in rows if row["subject_kind"] == "bundle" and row["outcome"] == outcome}
    return frozenset(bundles - held)


def client_cost(bundles: Collection[str], loads: Sequence[Row]) -> ClientCost:
    """The cost of these bundles; `loads` are rows of `bundle_load` of the whole cluster."""
    bundle_rows = [row for row in loads if row["bundle"] in bundles]
    moved, whole = (sum(map(_messages, rows)) for rows in (bundle_rows, loads))
    return ClientCost(
        len(bundles),
        _sum(bundle_rows, "topics"),
        _sum(bundle_rows, "producers") + _sum(bundle_rows, "consumers"),
        moved,
        moved / whole if whole else None,
    )


def _messages(row: Mapping[str, Any]) -> float:
    return float(row["used_msg_rate_in"] or 0.0) + float(row["used_msg_rate_out"] or 0.0)


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(int(row[name] or 0) for row in rows)
