"""What would have sent a bundle to another broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.record.explain.changes.change import Change, Context, Row, at_least
from evenkeel.settings.compatibility import PLACEMENT

DIFFERENCE = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
SETTINGS = (DIFFERENCE,)
# The nearest to being chosen; a cluster may have a thousand.
MOST_LOSERS = 5


def by_rate(row: Row, context: Context) -> list[Change]:
    """LeastLongTermMessageRate: the candidate with the least long-term rate, the first by name of equal ones."""
    if row["rule"] == "already_best" and row["strategy"] != "LeastLongTermMessageRate":
        return []
    scores = _scores(row)
    chosen = row["best"][0] if row["best"] else None
    if chosen is None or chosen not in scores:
        return []
    return [*_of_chosen(row, chosen, scores), *_of_losers(row, chosen, scores)]


def _of_chosen(row: Row, chosen: str, scores: dict[str, float]) -> list[Change]:
    others = {broker: score for broker, score in scores.items() if broker != chosen}
    if not others:
        return []
    runner_up = min(others, key=lambda broker: (others[broker], broker))
    gap = others[runner_up] - scores[chosen]
    more = f"over {at_least(gap, 'msg/s').text} more" if gap > 0 else "any more"
    return [
        Change(
            subject=chosen,
            figure="long-term rate",
            measured=scores[chosen],
            needed=others[runner_up],
            unit="msg/s",
            is_strict=True,
            effect=f"{runner_up} would have been chosen",
            sentence=f"Had {chosen} carried {more} in the long term, {runner_up} would have been chosen.",
        )
    ]


def _of_losers(row: Row, chosen: str, scores: dict[str, float]) -> list[Change]:
    best = scores[chosen]
    if best <= 0:
        return []
    losers = sorted((score, broker) for broker, score in scores.items() if broker != chosen)[:MOST_LOSERS]
    return [
        Change(
            subject=broker,
            figure="long-term rate",
            measured=score,
            needed=best,
            unit="msg/s",
            is_strict=True,
            effect="it would have been chosen",
            is_more=False,
            sentence=f"Had {broker} carried {_less(score - best)} in the long term, it would have been chosen.",
        )
        for score, broker in losers
    ]


def _less(gap: float) -> str:
    return f"over {at_least(gap, 'msg/s').text} less" if gap > 0 else "any less"


def without_groups(row: Row) -> list[Change]:
    """What anti-affinity groups changed stands in the row: placement was decided without them as well."""
    other = row["without_anti_affinity"]
    if not row["changed_by_anti_affinity"] or other is None:
        return []
    return [
        Change(
            subject=row["subject"],
            figure="anti-affinity groups",
            measured=None,
            needed=None,
            unit="",
            is_strict=False,
            effect=f"{other} would have been chosen",
            sentence=f"Without anti-affinity groups, {other} would have been chosen.",
            is_more=False,
        )
    ]


def by_usage(row: Row, context: Context) -> list[Change]:
    """LeastResourceUsageWithWeight: candidates whose average usage is below their mean by a difference.

    A candidate is a part of the mean: less busy by x, it is below the mean by x less x/n.
    """
    scores, mean = _scores(row), row["numbers"].get("mean_usage")
    difference = context.settings.get(DIFFERENCE)
    if mean is None or difference is None or len(scores) < 2 or len(scores) != row["numbers"].get("candidates"):
        return []
    good = set(row["best"]) if row["rule"] == "below_mean_usage" else set()
    number = len(scores)
    made = []
    for broker, usage in sorted(scores.items(), key=lambda pair: (pair[1], pair[0])):
        distance = (usage + float(difference) / 100.0 - mean) * number / (number - 1)
        if broker in good or distance < 0 or distance > usage:
            continue
        amount = at_least(distance, "fraction").text
        made.append(
            Change(
                subject=broker,
                figure="average usage",
                measured=usage,
                needed=usage - distance,
                unit="fraction",
                is_strict=False,
                effect="it would have been well below the mean",
                is_more=False,
                sentence=f"Had {broker} been {amount} less busy on average, it would have been well below the mean.",
            )
        )
    return made[:MOST_LOSERS]


def _scores(row: Row) -> dict[str, float]:
    """Of the candidates that stayed and measure something."""
    return {
        candidate["broker"]: candidate["score"]
        for candidate in row["candidates"]
        if candidate["removed_by"] is None and candidate["score"] is not None
    }


# The brokers that were looked at for a bundle, with what became of each in words.

_FILTERS = {
    "anti_affinity": "more of its anti-affinity group there",
    "anti_affinity_domain": "more of its anti-affinity group in that failure domain",
    "topics_over_limit": "too many topics",
    "more_bundles_of_namespace": "more bundles of its namespace there",
    "other_load_manager": "other load manager than the leader",
    "older_version": "older version of Pulsar",
    "draining": "being emptied",
}
# What the scores of a placement strategy are; any other one's is a rate in msg/s.
_SCORED = {"LeastResourceUsageWithWeight": ("Average usage", "fraction"), BY_DRAINING: ("Usage by then", "fraction")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker that was looked at for a bundle, with what became of it in words; `score` if it got so far."""

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
    """What the scores of a placement strategy are, and in which unit."""
    return _SCORED.get(strategy, ("Long-term rate", "msg/s"))


def strategy_of(row: Row, settings: Sequence[Row]) -> str:
    """The strategy that scored a row's candidates: for a wish the one in force."""
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
