"""What would have made a bundle be split, or be left whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evenkeel.errors import EvenkeelError
from evenkeel.model.load import BundleStats
from evenkeel.plan_splits.rules.bundle_splitter_task import FEWEST_TOPICS, Limit, limits_of
from evenkeel.record.explain.changes.change import Amount, Change, Context, Row, at_least, at_most, compared, within
from evenkeel.settings import Settings
from evenkeel.settings.parsing import coerce, known_key

HITS_KEY = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"
SETTINGS = (
    "loadBalancerNamespaceBundleMaxTopics",
    "loadBalancerNamespaceBundleMaxSessions",
    "loadBalancerNamespaceBundleMaxMsgRate",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes",
    HITS_KEY,
)
"""The settings that hold a bundle's limits."""


def over_limit(row: Row, context: Context) -> list[Change]:
    """Of a bundle that is split for being over a limit: what it would have taken to be over none."""
    limits = _limits(row, context.settings)
    exceeded = [limit for limit in limits if limit.exceeded]
    # Below 0 the extensible manager splits without any limit exceeded.
    if not exceeded or ("hits" in row["numbers"] and context.settings.get(HITS_KEY, -1) < 0):
        return []
    first, others = exceeded[0], exceeded[1:]
    also = " and ".join(limit.name for limit in others)
    effect = f"still have been over its limit of {also}" if others else "have been over no limit"
    return [
        Change(
            subject=row["subject"],
            figure=first.name,
            measured=first.measured,
            needed=first.threshold,
            unit=first.unit,
            is_strict=False,
            effect=f"it would {effect}",
            is_more=False,
            sentence=f"With {_figure(first.threshold, first, 'at most ', at_most)}, {row['subject']} would {effect}.",
        )
    ]


def below_limits(row: Row, context: Context) -> list[Change]:
    """Of a bundle that is over no limit: the nearest one."""
    figures, name = within(row), _of_setting(row["setting"])
    if figures is None or not name:
        return []
    measured, threshold = figures
    limit = Limit(name, row["setting"], measured, threshold, row["unit"])
    return [
        Change(
            subject=row["subject"],
            figure=name,
            measured=measured,
            needed=threshold,
            unit=row["unit"],
            is_strict=True,
            effect="it would have been over a limit",
            sentence=f"With {_figure(threshold, limit, 'more than ', at_least)}, {row['subject']} would have been "
            "over a limit.",
        )
    ]


def too_many_bundles(row: Row, context: Context) -> list[Change]:
    """A namespace may have so many bundles."""
    figures = compared(row)
    if figures is None or figures[0] < figures[1]:
        return []
    measured, threshold = figures
    most = int(threshold) - 1
    return [
        Change(
            subject=row["namespace"],
            figure="bundles",
            measured=measured,
            needed=float(most),
            unit="count",
            is_strict=False,
            effect="the number of bundles would not have stood against it",
            is_more=False,
            sentence=f"With {most:,} {'bundle' if most == 1 else 'bundles'} or fewer in {row['namespace']}, their "
            "number would not have stood against it.",
        )
    ]


def for_planner(row: Row, context: Context) -> list[Change]:
    """Of a bundle that is split for the planner: with how much load it would have had room as a whole."""
    load, room = row["numbers"].get("load"), row["numbers"].get("room")
    if load is None or room is None or load <= room:
        return []
    effect = "have had room on a broker as a whole"
    return [
        Change(
            subject=row["subject"],
            figure="load",
            measured=load,
            needed=room,
            unit="byte/s",
            is_strict=False,
            effect=f"it would {effect}",
            is_more=False,
            sentence=f"With a load of at most {at_most(room, 'byte/s').text}, messages counted as bytes, "
            f"{row['subject']} would {effect}.",
        )
    ]


def too_few_topics(row: Row, context: Context) -> list[Change]:
    """A split needs two topics."""
    if row["measured"] is None:
        return []
    return [
        Change(
            subject=row["subject"],
            figure="topics",
            measured=row["measured"],
            needed=float(FEWEST_TOPICS),
            unit="count",
            is_strict=False,
            effect="its limits would have been checked",
            sentence=f"With {FEWEST_TOPICS} topics, the limits of {row['subject']} would have been checked.",
        )
    ]


def _figure(value: float, limit: Limit, side: str, rounded: Callable[[float, str], Amount]) -> str:
    """`more than 60 topics`, `a rate of at most 1,000.0 msg/s`."""
    amount = rounded(value, limit.unit).text
    if limit.name in ("topics", "sessions"):
        return f"{side}{amount} {limit.name}"
    return f"a {limit.name} of {side}{amount}"


def _of_setting(key: str | None) -> str:
    names = {
        "loadBalancerNamespaceBundleMaxTopics": "topics",
        "loadBalancerNamespaceBundleMaxSessions": "sessions",
        "loadBalancerNamespaceBundleMaxMsgRate": "rate",
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": "throughput",
    }
    return names.get(key or "", "")


def _limits(row: Row, settings: Mapping[str, Any]) -> tuple[Limit, ...]:
    """All limits as they stood; only the one that the row names where settings are not on record."""
    numbers = row["numbers"]
    figures = [numbers.get(name) for name in ("topics", "sessions", "rate", "throughput")]
    if None in (figures[0], *figures[2:]) or not set(SETTINGS) <= settings.keys():
        return ()
    topics, sessions, rate, throughput = (figure or 0.0 for figure in figures)
    try:
        typed = {key: coerce(known_key(key), settings[key]) for key in SETTINGS}
        in_force = Settings().with_values(typed)
    except EvenkeelError:
        return ()
    return limits_of(BundleStats(topics=int(topics), consumers=int(sessions)), rate, throughput, in_force)


def setting_values(rows: Iterable[Row]) -> dict[str, Any]:
    """key -> value of rows of `settings`."""
    return {row["key"]: json.loads(row["value"]) for row in rows}
