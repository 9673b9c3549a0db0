"""Sentences about shedding by the modular manager's shedders: brokers, pairs of brokers, bundles."""

from __future__ import annotations

from evenkeel.model.amounts import amount
from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.words import Template, Templates, measured, number, plural, points, threshold


def _has_mean(row: Considered) -> bool:
    """Whether there is an average to stand above or below; figures that no broker could tell are missing."""
    return "mean_usage" in row.numbers and row.measured is not None and row.threshold is not None


def _distance(row: Considered) -> str:
    """Where a broker stands: against the cluster's average, or against a fixed threshold."""
    usage = row.measured or 0.0
    if not _has_mean(row):
        return f"{row.subject} at {measured(row)}"
    mean = row.numbers["mean_usage"]
    side = "over" if usage >= mean else "under"
    return (
        f"{row.subject} at {measured(row)} is {abs(usage - mean) * 100:.1f} points {side} "
        f"the cluster's average of {amount(mean, 'fraction')}"
    )


def _limit(row: Considered) -> str:
    if not _has_mean(row):
        return f"the limit of {threshold(row)}"
    return points((row.threshold or 0.0) - row.numbers["mean_usage"])


def _below_threshold(row: Considered) -> str:
    if _has_mean(row):
        return f"{_distance(row)}; the limit is {_limit(row)}."
    return f"{row.subject} at {measured(row)} is below {_limit(row)}."


def _above_threshold(row: Considered) -> str:
    wanted, taken = number(row, "to_offload", "byte/s"), plural(row.numbers.get("selected"), "bundle")
    tail = f"{taken} to go, for {wanted} to offload"
    if _has_mean(row):
        return f"{_distance(row)}; the limit is {_limit(row)}: {tail}."
    return f"{row.subject} at {measured(row)} has reached {_limit(row)}: {tail}."


def _busy_but(why: str) -> Template:
    def text(row: Considered) -> str:
        over = f"; the limit is {_limit(row)}" if _has_mean(row) else f" has reached {_limit(row)}"
        return f"{_distance(row)}{over}, but {why}."

    return text


def _too_little(row: Considered) -> str:
    why = "should feed an idle broker" if "lower_boundary" in row.numbers else "is over its limit"
    return (
        f"{row.subject} at {number(row, 'usage', 'fraction')} {why}, but the {measured(row)} to offload is less than "
        f"the {threshold(row)} worth moving."
    )


BROKERS: Templates = {
    ("kept", "below_threshold"): _below_threshold,
    ("unload", "above_threshold"): _above_threshold,
    ("refused", "sole_bundle"): _busy_but("it has no second bundle, and moving its only one would move the trouble"),
    ("refused", "nothing_to_shed"): _busy_but("none of its bundles may be unloaded now"),
    ("refused", "below_minimum_throughput"): _too_little,
    ("kept", "nobody_below_lower_boundary"): lambda row: (
        f"{row.broker}, the idlest broker, at {measured(row)} is not below the lower boundary of {threshold(row)}."
    ),
    ("refused", "nobody_to_take_from"): lambda row: (
        f"{row.broker} at {measured(row)} is below the lower boundary of {threshold(row)}, but no busier broker "
        "has more than one bundle."
    ),
    ("unload", "below_lower_boundary"): lambda row: (
        f"The idlest broker at {measured(row)} is below the lower boundary of {threshold(row)}: {row.subject}, the "
        f"busiest at {number(row, 'usage', 'fraction')}, gives {plural(row.numbers.get('selected'), 'bundle')}."
    ),
    ("kept", "no_usage"): lambda row: "No broker shows any usage, so nothing is shed.",
}


def _far_apart(row: Considered) -> str:
    """How far the busiest broker is above the idlest, by rate or by throughput."""
    if row.setting == "loadBalancerMsgRateDifferenceShedderThreshold":
        highest, lowest, by = number(row, "highest", "msg/s"), number(row, "lowest", "msg/s"), "more than"
        return f"{row.subject}, the busiest with {highest}, has {measured(row)} {by} the idlest with {lowest}"
    highest, lowest = number(row, "highest", "byte/s"), number(row, "lowest", "byte/s")
    return f"{row.subject}, the busiest with {highest}, has {measured(row)} times the traffic of the idlest, {lowest}"


def _apart_but(why: str) -> Template:
    return lambda row: f"{_far_apart(row)}; the limit is {threshold(row)}, but {why}."


def _apart(unit: str) -> Template:
    return lambda row: (
        f"{_far_apart(row)}; the limit is {threshold(row)}: {plural(row.numbers.get('selected'), 'bundle')} to go, "
        f"for {number(row, 'wanted', unit)} to move."
    )


def _partner(row: Considered) -> str:
    return row.alternatives[0].name if row.alternatives else "another broker"


def _over_partner(row: Considered) -> str:
    score, other = row.numbers.get("score", 0.0), row.numbers.get("partner_score", 0.0)
    return (
        f"{row.subject} at {amount(score, 'percent')} is {amount(score - other, 'count')} points over its partner "
        f"{_partner(row)}"
    )


def _lasting(measure: str, unit: str) -> Template:
    return lambda row: (
        f"{_over_partner(row)}, and the limit of {amount(row.threshold, 'count')} has been reached for long enough: "
        f"{plural(row.numbers.get('selected'), 'bundle')} to go there, for "
        f"{number(row, f'wanted_{measure}', unit)} to move."
    )


DIFFERENCES: Templates = {
    ("kept", "no_traffic_at_all"): lambda row: "No broker has told of any traffic, so nothing is shed.",
    ("skipped", "no_difference_looked_at"): lambda row: (
        "Nothing is shed: the limits of both differences, in rate and in throughput, are switched off."
    ),
    ("kept", "rate_difference_within"): lambda row: f"{_far_apart(row)}; the limit is {threshold(row)}.",
    ("kept", "throughput_difference_within"): lambda row: f"{_far_apart(row)}; the limit is {threshold(row)}.",
    ("unload", "rate_difference_exceeded"): _apart("msg/s"),
    ("unload", "throughput_difference_exceeded"): _apart("byte/s"),
    ("refused", "sole_bundle_of_busiest"): _apart_but("it has no second bundle"),
    ("refused", "nothing_fits"): _apart_but("none of its bundles may be unloaded now and is small enough"),
    ("refused", "below_minimum_unload"): lambda row: (
        f"{row.subject} is far busier than the idlest broker, but the {measured(row)} to move is less than the "
        f"{threshold(row)} worth moving."
    ),
    ("kept", "not_the_busiest"): lambda row: (
        f"{row.subject} with {measured(row)} is not shed from: only the busiest broker is, with {threshold(row)}."
    ),
}

PAIRS: Templates = {
    ("kept", "no_partner"): lambda row: f"{row.subject} at {measured(row)} is in the middle and has no partner.",
    ("kept", "difference_below_low_threshold"): lambda row: (
        f"{_over_partner(row)}; the limit is {amount(row.threshold, 'count')}."
    ),
    ("kept", "too_few_hits"): lambda row: (
        f"{_over_partner(row)}, for {plural(row.measured, 'round')} so far; it takes {threshold(row)}."
    ),
    ("kept", "idle_partner"): lambda row: (
        f"{row.subject} at {measured(row)} is the idler partner of {_partner(row)} at {threshold(row)}."
    ),
    ("refused", "not_above_minimum_unload"): lambda row: (
        f"{_over_partner(row)}, but neither {number(row, 'wanted_rate', 'msg/s')} nor {measured(row)} is more than "
        f"the {number(row, 'minimum_rate', 'msg/s')} or {threshold(row)} worth moving."
    ),
    ("refused", "nothing_fits_partner"): lambda row: (
        f"{_over_partner(row)}, but none of its bundles may be unloaded now and is small enough."
    ),
    ("unload", "lasting_difference_in_rate"): _lasting("rate", "msg/s"),
    ("unload", "lasting_difference_in_throughput"): _lasting("throughput", "byte/s"),
}


def bundle_stays(why: str) -> Template:
    """The sentence of a bundle that stays on its broker, with the reason."""
    return lambda row: f"{row.subject} stays on {row.broker}: {why}."


BUNDLES: Templates = {
    ("unload", "heaviest_first"): lambda row: (
        f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) leaves {row.broker}: number "
        f"{number(row, 'rank')} by throughput, with {measured(row)} of {threshold(row)} taken before it."
    ),
    ("kept", "wanted_reached"): lambda row: (
        f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) stays on {row.broker}: heavier bundles with "
        f"{measured(row)} already cover the {threshold(row)} to offload."
    ),
    ("unload", "fits"): lambda row: (
        f"{row.subject} ({measured(row)}) leaves {row.broker}"
        f"{f' for {_partner(row)}' if row.alternatives else ''}: it fits into the {threshold(row)} left to move."
    ),
    ("kept", "too_large_to_fit"): lambda row: (
        f"{row.subject} ({measured(row)}) stays on {row.broker}: it is larger than the {threshold(row)} left to move."
    ),
    ("kept", "no_traffic"): bundle_stays("it has no traffic"),
    ("kept", "most_bundles_taken"): lambda row: (
        f"{row.subject} stays on {row.broker}: {threshold(row)} is the most that may go at once."
    ),
    ("skipped", "no_history"): bundle_stays("nothing is known of its traffic yet"),
    ("skipped", "brokers_own_namespace"): lambda row: (
        f"{row.subject} belongs to {row.broker} alone and is never moved."
        if row.broker
        else f"{row.subject} belongs to one broker alone and is never moved."
    ),
    ("skipped", "recently_unloaded"): bundle_stays("it was unloaded within the grace period"),
    ("refused", "excluded_namespace"): bundle_stays("its namespace is excluded from shedding"),
    ("refused", "no_other_broker_allowed"): bundle_stays("isolation policies allow it no other broker"),
    ("refused", "anti_affinity_even"): bundle_stays(
        "its anti-affinity group is spread evenly over all brokers it may have"
    ),
}
