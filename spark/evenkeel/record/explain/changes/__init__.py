"""What would have changed an answer, for rules whose numbers say so for certain.

Every statement is about one figure with all others as they were, and is true of the deciding code: a property test
decides again with the figure changed. Where a rule's numbers do not settle it, nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.record.explain.changes import bundle_splits, held_back, placements, unloads
from evenkeel.record.explain.changes.change import Change, Context, Row

__all__ = ["SETTINGS", "Change", "Context", "changes_of"]

SETTINGS = (*bundle_splits.SETTINGS, *placements.SETTINGS)
"""The settings that statements rest on, beside the rows themselves."""

_Rule = Callable[[Row, Context], list[Change]]

_UNLOADS: Mapping[tuple[str, str], _Rule] = {
    ("kept", "below_threshold"): unloads.by_threshold,
    ("unload", "above_threshold"): unloads.by_threshold,
    ("refused", "below_minimum_throughput"): unloads.too_little,
    ("kept", "rate_difference_within"): unloads.by_difference,
    ("kept", "throughput_difference_within"): unloads.by_difference,
    ("unload", "rate_difference_exceeded"): unloads.by_difference,
    ("unload", "throughput_difference_exceeded"): unloads.by_difference,
    ("kept", "not_the_busiest"): unloads.busiest,
    ("kept", "difference_below_low_threshold"): unloads.outermost_pair,
    ("kept", "too_few_hits"): unloads.more_rounds,
    ("refused", "hit_count"): unloads.more_rounds,
    ("skipped", "not_due"): unloads.later,
    ("kept", "evenly_loaded"): unloads.more_uneven,
    ("unload", "std_over_target"): unloads.more_even,
    ("unload", "heaviest_first"): unloads.taken,
    ("kept", "wanted_reached"): unloads.left,
}
_SPLITS: Mapping[tuple[str, str], _Rule] = {
    ("split", "topics_over_limit"): bundle_splits.over_limit,
    ("split", "sessions_over_limit"): bundle_splits.over_limit,
    ("split", "rate_over_limit"): bundle_splits.over_limit,
    ("split", "throughput_over_limit"): bundle_splits.over_limit,
    ("kept", "below_limits"): bundle_splits.below_limits,
    ("refused", "maximum_bundles"): bundle_splits.too_many_bundles,
    ("skipped", "too_few_topics"): bundle_splits.too_few_topics,
    ("kept", "over_limit_too_briefly"): unloads.more_rounds,
    ("split", "planner_target"): bundle_splits.for_planner,
}
_PLACEMENTS: Mapping[tuple[str, str], _Rule] = {
    ("placed", "least_long_term_rate"): placements.by_rate,
    ("kept", "already_best"): placements.by_rate,
    ("placed", "below_mean_usage"): placements.by_usage,
    ("placed", "near_mean_usage"): placements.by_usage,
}
_TABLES = {"unload_decisions": _UNLOADS, "split_decisions": _SPLITS, "placement_decisions": _PLACEMENTS}


def changes_of(table: str, row: Row, context: Context) -> list[Change]:
    """What would have changed what the row says, the nearest first where several brokers are concerned."""
    if table == "guard_decisions":
        return held_back.of_guard(row, context)
    if table not in _TABLES:  # of what the planner weighed against each other no single figure decides
        return []
    found = _TABLES[table].get((row["outcome"], row["rule"]))
    changes = [] if found is None else found(row, context)
    return [*changes, *placements.without_groups(row)] if table == "placement_decisions" else changes
