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

_LOAD = ("bundle", "owner", "topics", "consumers", "producers", "used_msg_rate_in", "used_msg_rate_out")
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
    """The cost of a plan's unloads, and of its splits. A bundle that is split and unloaded counts with both.

    `moves`: bundle, broker that it leaves and broker where it goes, None where Pulsar chooses; `divided`: bundles that
    are split. Both are in order of name.
    """

    unloads: ClientCost
    splits: ClientCost
    moves: tuple[tuple[str, str | None, str | None], ...] = ()
    divided: tuple[str, ...] = ()


def read_plan_cost(lake: str | Path, attempt: Attempt) -> PlanCost:
    """The cost of an attempt's plan, by the loads that it was decided on. Raises LakeError where rows have expired."""
    loads = read_rows(lake, attempt, "bundle_load", columns=_LOAD)
    unloads, splits = (asked_bundles(lake, attempt, name) for name in ("unloads", "splits"))
    columns = ["subject", "subject_kind", "broker", "destination"]
    placed = {row["subject"]: row for row in read_rows(lake, attempt, "placement_decisions", columns=columns)}
    owner = {row["bundle"]: row["owner"] for row in loads}
    moves = tuple((name, owner.get(name), placed.get(name, {}).get("destination")) for name in sorted(unloads))
    return PlanCost(client_cost(unloads, loads), client_cost(splits, loads), moves, tuple(sorted(splits)))


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


def traffic_of(loads: Iterable[Row]) -> dict[str, float]:
    """Return bundle -> its traffic in and out (byte/s), by rows of `bundle_load`."""
    ways = "used_msg_throughput_in", "used_msg_throughput_out"
    return {row["bundle"]: float((row[ways[0]] or 0.0) + (row[ways[1]] or 0.0)) for row in loads}
