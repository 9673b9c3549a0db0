"""Sentences about splits, by either manager's rule."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.words import Template, Templates, measured, number, plural, threshold

_FIGURES: Mapping[str, str] = {
    "loadBalancerNamespaceBundleMaxTopics": "its {} topics are",
    "loadBalancerNamespaceBundleMaxSessions": "its {} sessions are",
    "loadBalancerNamespaceBundleMaxMsgRate": "its long-term rate of {} is",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": "its long-term throughput of {} is",
}


def _figure(row: Considered) -> str:
    return _FIGURES.get(row.setting or "", "its {} are").format(measured(row))


def _over_limit(row: Considered) -> str:
    return f"{row.subject} is split: {_figure(row)} over the limit of {threshold(row)}."


def _below_limits(row: Considered) -> str:
    return (
        f"{row.subject} is not split: {_figure(row)} within the limit of {threshold(row)}, the nearest of its limits."
    )


def _refused_split(why: str) -> Template:
    def text(row: Considered) -> str:
        return f"{row.subject} is not split although {_figure(row)} over the limit of {threshold(row)}: {why}."

    return text


SPLITTING: Templates = {
    ("skipped", "too_few_topics"): lambda row: (
        f"{row.subject} is not looked at for a split: it has {plural(row.measured, 'topic')}, and a split needs two."
    ),
    ("kept", "below_limits"): _below_limits,
    ("split", "topics_over_limit"): _over_limit,
    ("split", "sessions_over_limit"): _over_limit,
    ("split", "rate_over_limit"): _over_limit,
    ("split", "throughput_over_limit"): _over_limit,
    ("refused", "maximum_bundles"): lambda row: (
        f"{row.subject} is over a limit but is not split: its namespace has {plural(row.measured, 'bundle')}, "
        f"splits chosen in this cycle included, and may have {threshold(row)}."
    ),
    ("refused", "too_narrow"): _refused_split("its range cannot be divided any further"),
    ("refused", "bundle_gone"): _refused_split("its namespace no longer has a bundle of that range"),
    ("refused", "nothing_to_cut"): _refused_split("the split algorithm finds too few topics to cut between"),
    ("refused", "cut_outside_bundle"): _refused_split("the cut would leave one side without any range"),
    ("refused", "no_positions"): _refused_split("the split algorithm cuts at given positions, and none are given"),
    ("refused", "no_position_inside"): _refused_split("none of the given positions lies inside its range"),
    ("refused", "too_few_busy_topics"): _refused_split("fewer than two of its topics have traffic to cut between"),
    ("refused", "traffic_below_gate"): _refused_split(
        "its loaded topics' present traffic is not far enough over the limits of rate and throughput"
    ),
    ("refused", "one_piece"): _refused_split("its loaded topics' present traffic fits into one bundle"),
    ("skipped", "reported_by_two_brokers"): lambda row: (
        f"{row.subject} is reported by more than one broker; the report of {row.broker} is not the one acted on."
    ),
}

_HITS_KEY = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"

SPLITTING_EXTENSIBLE: Templates = {
    ("skipped", "not_the_owner"): lambda row: (
        f"{row.subject} is not looked at for a split: {row.broker} reports it and does not own it."
    ),
    ("skipped", "too_narrow"): lambda row: f"{row.subject} cannot be split: its range cannot be divided any further.",
    ("skipped", "enough_splits"): lambda row: (
        f"{row.subject} is left for the next round: {row.broker} has decided on {plural(row.measured, 'split')}, "
        "as many as it may in one round."
    ),
    ("kept", "over_limit_too_briefly"): lambda row: (
        f"{row.subject} is not split yet: it is over a limit in {plural(row.measured, 'round')} in a row, "
        f"and more than {threshold(row)} are needed."
    ),
    ("split", "no_condition"): lambda row: (
        f"{row.subject} is split although it is over no limit: {_HITS_KEY} is below 0, so that no round over a limit "
        "is needed."
    ),
    ("refused", "splitting_already"): _refused_split("a bundle that shares one of its edges is being split"),
    ("refused", "more_than_one_cut"): lambda row: (
        f"{row.subject} is not split although {_figure(row)} over the limit of {threshold(row)}: the split algorithm "
        f"wants {number(row, 'cuts')} cuts, and the extensible manager makes one at a time."
    ),
}
