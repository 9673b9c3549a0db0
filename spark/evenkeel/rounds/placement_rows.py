"""Rows of `placement_decisions`, and which bundles need a broker."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from evenkeel.decisions.considered import considered
from evenkeel.decisions.placement.pipeline import Placement
from evenkeel.rounds import state
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import reason_row
from evenkeel.rounds.shared import acts_only, once
from evenkeel.settings import Settings

UNOWNED = "unowned"


def is_unload(row: Row) -> bool:
    """Whether a row of `unload_decisions` says that a bundle leaves its broker."""
    return bool(row["subject_kind"] == "bundle" and row["outcome"] == "unload")


def lost_its_owner(row: Row) -> bool:
    """Whether a bundle had an owner once and has none now."""
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is not None)


def never_owned(row: Row) -> bool:
    """Whether a bundle has had no owner as far as is known."""
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is None)


def placement_row(placement: Placement, cause: str, strategy: str, without: Placement) -> dict[str, Any]:
    """A placement; `without`: what it would have been without anti-affinity groups."""
    return {
        **reason_row(placement.considered, strategy),
        "cause": cause,
        "destination": placement.destination,
        "best": list(placement.best),
        "candidates": [
            {"broker": c.name, "removed_by": c.rule if c.verdict == "removed" else None, "score": c.measured}
            for c in placement.candidates
        ],
        "without_anti_affinity": without.destination,
        "changed_by_anti_affinity": placement.destination != without.destination,
    }


@once
def lost_bundles(rows: Rows) -> list[str]:
    """The bundles that had an owner once and have none now."""
    return [row["bundle"] for row in rows["bundle_load"] if lost_its_owner(row)]


def waiting_rows(rows: Rows, strategy: str) -> list[dict[str, Any]]:
    """A row for each bundle that waits for its first client; nothing happens to it."""
    if acts_only(rows):
        return []
    return [waiting_row(row, strategy) for row in rows["bundle_load"] if never_owned(row)]


def waiting_row(row: Row, strategy: str) -> dict[str, Any]:
    """A bundle that waits for its first client."""
    verdict = considered(row["bundle"], "bundle", None, "skipped", "never_owned")
    nothing = Placement(row["bundle"], None, (), (), verdict)
    return placement_row(nothing, "no_owner", strategy, nothing)


def assumed_rows(decided: list[dict[str, Any]], cycle: Row, settings: Settings) -> list[dict[str, Any]]:
    """With evenkeelAssumeUnloadsSucceed, what a dry run would otherwise not remember: the unloads of this cycle."""
    if not settings.evenkeelAssumeUnloadsSucceed:
        return []
    at = datetime.fromisoformat(cycle["cycle_at"])
    gone = [row["subject"] for row in decided if row["cause"] == "shed" and row["outcome"] == "placed"]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return [{**state.state_row(state.FRAME, bundle, state.ASSUMED_UNLOADED, at=at), **stamp} for bundle in gone]
