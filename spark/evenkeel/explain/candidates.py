"""The brokers that were considered for a bundle, each with its result in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.lake.record import Row
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.settings.compatibility import PLACEMENT

_FILTERS = {
    "anti_affinity": "more of its anti-affinity group there",
    "anti_affinity_domain": "more of its anti-affinity group in that failure domain",
    "topics_over_limit": "too many topics",
    "more_bundles_of_namespace": "more bundles of its namespace there",
    "other_load_manager": "other load manager than the leader",
    "older_version": "older version of Pulsar",
    "draining": "being emptied",
}
# Meanings of a placement strategy's scores; any other one's is a rate in msg/s.
_SCORED = {"LeastResourceUsageWithWeight": ("Average usage", "fraction"), BY_DRAINING: ("Usage by then", "fraction")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker that was checked for a bundle, with the outcome in words; `score` if it got so far."""

    broker: str
    verdict: str
    is_chosen: bool
    score: float | None


def candidates_of(row: Row, strategy: str) -> list[Candidate]:
    """All candidates of a placement: the one chosen, then by score, then those without one by name."""
    return sorted(
        (_candidate(candidate, row, strategy) for candidate in row["candidates"]),
        key=lambda c: (not c.is_chosen, c.score is None, c.score if c.score is not None else 0.0, c.broker),
    )


def scored_by(strategy: str) -> tuple[str, str]:
    """Return the meaning and the unit of a placement strategy's scores."""
    return _SCORED.get(strategy, ("Long-term rate", "msg/s"))


def strategy_of(row: Row, settings: Sequence[Row]) -> str:
    """Return the strategy that scored a row's candidates: for a manual request the one in force."""
    if row["strategy"] != BY_REQUEST:
        return str(row["strategy"])
    return next((json.loads(setting["value"]) for setting in settings if setting["key"] == PLACEMENT), "")


def _candidate(candidate: Row, row: Row, strategy: str) -> Candidate:
    broker, removed_by = candidate["broker"], candidate["removed_by"]
    if broker == row["destination"]:
        verdict = "chosen" if len(row["best"]) < 2 else f"chosen, first by name of {len(row['best'])} equals"
    elif removed_by:
        verdict = f"ruled out: {_FILTERS.get(removed_by, removed_by.replace('_', ' '))}"
    elif broker in row["best"]:
        verdict = "as good, later by name"
    elif strategy == "RoundRobinBrokerSelector" or row["rule"].startswith("in_turns"):
        verdict = "possible, not its turn"
    elif strategy == "AvgShedder":
        verdict = "possible, not planned"
    else:
        verdict = "possible, busier"
    return Candidate(broker, verdict, broker == row["destination"], candidate["score"])
