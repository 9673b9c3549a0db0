"""One plain English sentence, with its numbers, for every verdict.

Templates are grouped by what decided: splitting, shedding, placement, transfers, wishes, and the frame around all. A
rule that has none (rows of another version) still gets a sentence, from its columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.model.amounts import amount
from evenkeel.model.considered import Considered

Template = Callable[[Considered], str]


def sentence(row: Considered) -> str:
    """What became of the subject and why, in one sentence that ends with a full stop."""
    template = TEMPLATES.get((row.outcome, row.rule))
    return template(row) if template else _plain(row)


def destination_of(row: Considered) -> str | None:
    """The broker a placed bundle goes to: the first by name of the best ones; None if there is none."""
    return next((a.name for a in row.alternatives if a.verdict == "best"), None)


def _measured(row: Considered) -> str:
    return amount(row.measured, row.unit)


def _threshold(row: Considered) -> str:
    return amount(row.threshold, row.unit)


def _number(row: Considered, name: str, unit: str = "count") -> str:
    return amount(row.numbers.get(name), unit)


def _plural(count: float | None, noun: str) -> str:
    return f"{amount(count, 'count')} {noun}{'' if count == 1 else 's'}"


def _points(fraction: float) -> str:
    """Percentage points, without decimals where there are none to show."""
    points = round(fraction * 100, 6)
    return f"{points:.0f} points" if points == round(points) else f"{points:.1f} points"


def _plain(row: Considered) -> str:
    text = f"{row.subject}: {row.outcome} by the rule {row.rule.replace('_', ' ')}"
    if row.measured is not None and row.threshold is not None:
        text += f" (measured {_measured(row)}, threshold {_threshold(row)})"
    return f"{text}."


# Splitting


_FIGURES: Mapping[str, str] = {
    "loadBalancerNamespaceBundleMaxTopics": "its {} topics are",
    "loadBalancerNamespaceBundleMaxSessions": "its {} sessions are",
    "loadBalancerNamespaceBundleMaxMsgRate": "its long-term rate of {} is",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": "its long-term throughput of {} is",
}


def _figure(row: Considered) -> str:
    return _FIGURES.get(row.setting or "", "its {} are").format(_measured(row))


def _over_limit(row: Considered) -> str:
    return f"{row.subject} is split: {_figure(row)} over the limit of {_threshold(row)}."


def _below_limits(row: Considered) -> str:
    return (
        f"{row.subject} is not split: {_figure(row)} within the limit of {_threshold(row)}, the nearest of its limits."
    )


def _refused_split(why: str) -> Template:
    def text(row: Considered) -> str:
        return f"{row.subject} is not split although {_figure(row)} over the limit of {_threshold(row)}: {why}."

    return text


_SPLITTING: dict[tuple[str, str], Template] = {
    ("skipped", "too_few_topics"): lambda row: (
        f"{row.subject} is not looked at for a split: it has {_plural(row.measured, 'topic')}, and a split needs two."
    ),
    ("kept", "below_limits"): _below_limits,
    ("split", "topics_over_limit"): _over_limit,
    ("split", "sessions_over_limit"): _over_limit,
    ("split", "rate_over_limit"): _over_limit,
    ("split", "throughput_over_limit"): _over_limit,
    ("refused", "maximum_bundles"): lambda row: (
        f"{row.subject} is over a limit but is not split: its namespace has {_plural(row.measured, 'bundle')}, "
        f"splits chosen in this cycle included, and may have {_threshold(row)}."
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

_SPLITTING_EXTENSIBLE: dict[tuple[str, str], Template] = {
    ("skipped", "not_the_owner"): lambda row: (
        f"{row.subject} is not looked at for a split: {row.broker} reports it and does not own it."
    ),
    ("skipped", "too_narrow"): lambda row: f"{row.subject} cannot be split: its range cannot be divided any further.",
    ("skipped", "enough_splits"): lambda row: (
        f"{row.subject} is left for the next round: {row.broker} has decided on {_plural(row.measured, 'split')}, "
        "as many as it may in one round."
    ),
    ("kept", "over_limit_too_briefly"): lambda row: (
        f"{row.subject} is not split yet: it is over a limit in {_plural(row.measured, 'round')} in a row, "
        f"and more than {_threshold(row)} are needed."
    ),
    ("split", "no_condition"): lambda row: (
        f"{row.subject} is split although it is over no limit: {_HITS_KEY} is below 0, so that no round over a limit "
        "is needed."
    ),
    ("refused", "splitting_already"): _refused_split("a bundle that shares one of its edges is being split"),
    ("refused", "more_than_one_cut"): lambda row: (
        f"{row.subject} is not split although {_figure(row)} over the limit of {_threshold(row)}: the split algorithm "
        f"wants {_number(row, 'cuts')} cuts, and the extensible manager makes one at a time."
    ),
}


# Shedding, broker by broker


def _has_mean(row: Considered) -> bool:
    """Whether there is an average to stand above or below; figures that no broker could tell are missing."""
    return "mean_usage" in row.numbers and row.measured is not None and row.threshold is not None


def _distance(row: Considered) -> str:
    """Where a broker stands: against the cluster's average, or against a fixed threshold."""
    usage = row.measured or 0.0
    if not _has_mean(row):
        return f"{row.subject} at {_measured(row)}"
    mean = row.numbers["mean_usage"]
    side = "over" if usage >= mean else "under"
    return (
        f"{row.subject} at {_measured(row)} is {abs(usage - mean) * 100:.1f} points {side} "
        f"the cluster's average of {amount(mean, 'fraction')}"
    )


def _limit(row: Considered) -> str:
    if not _has_mean(row):
        return f"the limit of {_threshold(row)}"
    return _points((row.threshold or 0.0) - row.numbers["mean_usage"])


def _below_threshold(row: Considered) -> str:
    if _has_mean(row):
        return f"{_distance(row)}; the limit is {_limit(row)}."
    return f"{row.subject} at {_measured(row)} is below {_limit(row)}."


def _above_threshold(row: Considered) -> str:
    wanted, taken = _number(row, "to_offload", "byte/s"), _plural(row.numbers.get("selected"), "bundle")
    tail = f"{taken} to go, for {wanted} to offload"
    if _has_mean(row):
        return f"{_distance(row)}; the limit is {_limit(row)}: {tail}."
    return f"{row.subject} at {_measured(row)} has reached {_limit(row)}: {tail}."


def _busy_but(why: str) -> Template:
    def text(row: Considered) -> str:
        over = f"; the limit is {_limit(row)}" if _has_mean(row) else f" has reached {_limit(row)}"
        return f"{_distance(row)}{over}, but {why}."

    return text


def _too_little(row: Considered) -> str:
    why = "should feed an idle broker" if "lower_boundary" in row.numbers else "is over its limit"
    return (
        f"{row.subject} at {_number(row, 'usage', 'fraction')} {why}, but the {_measured(row)} to offload is less than "
        f"the {_threshold(row)} worth moving."
    )


_BROKERS: dict[tuple[str, str], Template] = {
    ("kept", "below_threshold"): _below_threshold,
    ("unload", "above_threshold"): _above_threshold,
    ("refused", "sole_bundle"): _busy_but("it has no second bundle, and moving its only one would move the trouble"),
    ("refused", "nothing_to_shed"): _busy_but("none of its bundles may be unloaded now"),
    ("refused", "below_minimum_throughput"): _too_little,
    ("kept", "nobody_below_lower_boundary"): lambda row: (
        f"{row.broker}, the idlest broker, at {_measured(row)} is not below the lower boundary of {_threshold(row)}."
    ),
    ("refused", "nobody_to_take_from"): lambda row: (
        f"{row.broker} at {_measured(row)} is below the lower boundary of {_threshold(row)}, but no busier broker "
        "has more than one bundle."
    ),
    ("unload", "below_lower_boundary"): lambda row: (
        f"The idlest broker at {_measured(row)} is below the lower boundary of {_threshold(row)}: {row.subject}, the "
        f"busiest at {_number(row, 'usage', 'fraction')}, gives {_plural(row.numbers.get('selected'), 'bundle')}."
    ),
    ("kept", "no_usage"): lambda row: "No broker shows any usage, so nothing is shed.",
}


# Shedding, busiest against idlest broker and pair by pair


def _far_apart(row: Considered) -> str:
    """How far the busiest broker is above the idlest, by rate or by throughput."""
    if row.setting == "loadBalancerMsgRateDifferenceShedderThreshold":
        highest, lowest, by = _number(row, "highest", "msg/s"), _number(row, "lowest", "msg/s"), "more than"
        return f"{row.subject}, the busiest with {highest}, has {_measured(row)} {by} the idlest with {lowest}"
    highest, lowest = _number(row, "highest", "byte/s"), _number(row, "lowest", "byte/s")
    return f"{row.subject}, the busiest with {highest}, has {_measured(row)} times the traffic of the idlest, {lowest}"


def _apart_but(why: str) -> Template:
    return lambda row: f"{_far_apart(row)}; the limit is {_threshold(row)}, but {why}."


def _apart(unit: str) -> Template:
    return lambda row: (
        f"{_far_apart(row)}; the limit is {_threshold(row)}: {_plural(row.numbers.get('selected'), 'bundle')} to go, "
        f"for {_number(row, 'wanted', unit)} to move."
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
        f"{_plural(row.numbers.get('selected'), 'bundle')} to go there, for "
        f"{_number(row, f'wanted_{measure}', unit)} to move."
    )


_DIFFERENCES: dict[tuple[str, str], Template] = {
    ("kept", "no_traffic_at_all"): lambda row: "No broker has told of any traffic, so nothing is shed.",
    ("skipped", "no_difference_looked_at"): lambda row: (
        "Nothing is shed: the limits of both differences, in rate and in throughput, are switched off."
    ),
    ("kept", "rate_difference_within"): lambda row: f"{_far_apart(row)}; the limit is {_threshold(row)}.",
    ("kept", "throughput_difference_within"): lambda row: f"{_far_apart(row)}; the limit is {_threshold(row)}.",
    ("unload", "rate_difference_exceeded"): _apart("msg/s"),
    ("unload", "throughput_difference_exceeded"): _apart("byte/s"),
    ("refused", "sole_bundle_of_busiest"): _apart_but("it has no second bundle"),
    ("refused", "nothing_fits"): _apart_but("none of its bundles may be unloaded now and is small enough"),
    ("refused", "below_minimum_unload"): lambda row: (
        f"{row.subject} is far busier than the idlest broker, but the {_measured(row)} to move is less than the "
        f"{_threshold(row)} worth moving."
    ),
    ("kept", "not_the_busiest"): lambda row: (
        f"{row.subject} with {_measured(row)} is not shed from: only the busiest broker is, with {_threshold(row)}."
    ),
}

_PAIRS: dict[tuple[str, str], Template] = {
    ("kept", "no_partner"): lambda row: f"{row.subject} at {_measured(row)} is in the middle and has no partner.",
    ("kept", "difference_below_low_threshold"): lambda row: (
        f"{_over_partner(row)}; the limit is {amount(row.threshold, 'count')}."
    ),
    ("kept", "too_few_hits"): lambda row: (
        f"{_over_partner(row)}, for {_plural(row.measured, 'round')} so far; it takes {_threshold(row)}."
    ),
    ("kept", "idle_partner"): lambda row: (
        f"{row.subject} at {_measured(row)} is the idler partner of {_partner(row)} at {_threshold(row)}."
    ),
    ("refused", "not_above_minimum_unload"): lambda row: (
        f"{_over_partner(row)}, but neither {_number(row, 'wanted_rate', 'msg/s')} nor {_measured(row)} is more than "
        f"the {_number(row, 'minimum_rate', 'msg/s')} or {_threshold(row)} worth moving."
    ),
    ("refused", "nothing_fits_partner"): lambda row: (
        f"{_over_partner(row)}, but none of its bundles may be unloaded now and is small enough."
    ),
    ("unload", "lasting_difference_in_rate"): _lasting("rate", "msg/s"),
    ("unload", "lasting_difference_in_throughput"): _lasting("throughput", "byte/s"),
}


# Shedding, bundle by bundle


def _bundle_stays(why: str) -> Template:
    return lambda row: f"{row.subject} stays on {row.broker}: {why}."


_BUNDLES: dict[tuple[str, str], Template] = {
    ("unload", "heaviest_first"): lambda row: (
        f"{row.subject} ({_number(row, 'bundle_throughput', 'byte/s')}) leaves {row.broker}: number "
        f"{_number(row, 'rank')} by throughput, with {_measured(row)} of {_threshold(row)} taken before it."
    ),
    ("kept", "wanted_reached"): lambda row: (
        f"{row.subject} ({_number(row, 'bundle_throughput', 'byte/s')}) stays on {row.broker}: heavier bundles with "
        f"{_measured(row)} already cover the {_threshold(row)} to offload."
    ),
    ("unload", "fits"): lambda row: (
        f"{row.subject} ({_measured(row)}) leaves {row.broker}"
        f"{f' for {_partner(row)}' if row.alternatives else ''}: it fits into the {_threshold(row)} left to move."
    ),
    ("kept", "too_large_to_fit"): lambda row: (
        f"{row.subject} ({_measured(row)}) stays on {row.broker}: it is larger than the {_threshold(row)} left to move."
    ),
    ("kept", "no_traffic"): _bundle_stays("it has no traffic"),
    ("kept", "most_bundles_taken"): lambda row: (
        f"{row.subject} stays on {row.broker}: {_threshold(row)} is the most that may go at once."
    ),
    ("skipped", "no_history"): _bundle_stays("nothing is known of its traffic yet"),
    ("skipped", "brokers_own_namespace"): lambda row: (
        f"{row.subject} belongs to {row.broker} alone and is never moved."
        if row.broker
        else f"{row.subject} belongs to one broker alone and is never moved."
    ),
    ("skipped", "recently_unloaded"): _bundle_stays("it was unloaded within the grace period"),
    ("refused", "excluded_namespace"): _bundle_stays("its namespace is excluded from shedding"),
    ("refused", "no_other_broker_allowed"): _bundle_stays("isolation policies allow it no other broker"),
    ("refused", "anti_affinity_even"): _bundle_stays(
        "its anti-affinity group is spread evenly over all brokers it may have"
    ),
}


# Placement


def _placed(how: str) -> Template:
    def text(row: Considered) -> str:
        start = f"{row.subject} goes from {row.broker}" if row.broker else f"{row.subject} goes"
        return f"{start} to {destination_of(row)}: {how.format(**_placement_words(row))}."

    return text


def _placement_words(row: Considered) -> dict[str, str]:
    score = row.numbers.get("score")
    removed = int(row.numbers.get("removed", 0))
    others = _plural(row.numbers.get("candidates", 1), "candidate")
    filters = f", {_plural(removed, 'broker')} filtered out" if removed else ""
    ties = row.numbers.get("best", 1)
    tie = f" (first by name of {amount(ties, 'count')} equal ones)" if ties > 1 else ""
    rate = "is overloaded like all others" if score is None else _rate_words(score)
    usage = f"its average usage of {amount(score, 'fraction')}"
    mean = f"the candidates' mean of {amount(row.numbers.get('mean_usage'), 'fraction')}"
    return {"rate": rate, "usage": usage, "mean": mean, "others": others, "filters": filters, "tie": tie}


def _rate_words(rate: float) -> str:
    return f"has the least long-term message rate, {amount(rate, 'msg/s')}"


def _planned_templates() -> dict[tuple[str, str], Template]:
    """Of AvgShedder's placement, also for the second look without filters."""
    texts = {
        "planned_destination": "the shedder has planned it so",
        "no_plan": "nothing is planned for it, and of {others}{filters} it is the first by name",
        "planned_is_no_candidate": "the planned broker is no candidate, and of the others it is the first by name",
        "planned_is_overloaded": "the planned broker is overloaded, and of the healthy ones it is the first by name",
    }
    first = {("placed", rule): _placed(text) for rule, text in texts.items()}
    again = "all candidates left by the filters are overloaded; without filters "
    return first | {("placed", f"{rule}_of_all_allowed"): _placed(again + text) for rule, text in texts.items()}


_UNFILTERED = "all candidates left by the filters are overloaded, and of {others} without filters "

_PLACEMENT: dict[tuple[str, str], Template] = {
    ("placed", "least_long_term_rate"): _placed("of {others}{filters}, it {rate}{tie}"),
    ("placed", "least_long_term_rate_of_all_allowed"): _placed(f"{_UNFILTERED}it {{rate}}{{tie}}"),
    ("placed", "below_mean_usage"): _placed("of {others}{filters}, {usage} is well below {mean}{tie}"),
    ("placed", "below_mean_usage_of_all_allowed"): _placed(f"{_UNFILTERED}{{usage}} is well below {{mean}}{{tie}}"),
    ("placed", "near_mean_usage"): _placed("of {others}{filters}, none is well below {mean}{tie}"),
    ("placed", "near_mean_usage_of_all_allowed"): _placed(f"{_UNFILTERED}none is well below {{mean}}{{tie}}"),
    **_planned_templates(),
    ("placed", "in_turns"): _placed("it is its turn among {others}{filters}"),
    ("placed", "in_turns_of_all_allowed"): _placed(f"{_UNFILTERED}it is its turn"),
    ("placed", "preallocated"): _placed("it was given to that broker before"),
    ("placed", "brokers_own_namespace"): _placed("it is that broker's own"),
    ("kept", "already_best"): lambda row: (
        f"{row.subject} stays on {row.broker}: placement would choose the same broker again."
    ),
    ("refused", "no_candidate"): lambda row: (
        f"{row.subject} {f'stays on {row.broker}' if row.broker else 'gets no broker'}: "
        f"none of {_plural(len(row.alternatives), 'broker')} may have it."
    ),
}


# Transfers and placement of the extensible manager


def _cause(row: Considered, least: str | None, most: str | None) -> str:
    """What called for a transfer, in words."""
    mean = _number(row, "mean_load", "fraction")
    if row.rule == "std_over_target":
        return f"loads deviate by {_measured(row)} from their mean of {mean}, and the target is {_threshold(row)}"
    if row.rule == "throughput_under_highest":
        return f"{least} carries {_measured(row)}, less than {_threshold(row)}, a share of what the busiest carries"
    if row.rule == "load_under_mean":
        return f"{least} at {_measured(row)} is below {_threshold(row)}, a share of the mean load of {mean}"
    return f"{most} at {_measured(row)} is above {_threshold(row)}, far over the mean load of {mean}"


def _transfers(row: Considered) -> str:
    if row.subject_kind == "cluster":
        pairs = _plural(row.numbers["pairs"], "pair")
        return f"Load is evened out between {pairs} of brokers: {_cause(row, row.broker, row.broker)}."
    receiver = destination_of(row)
    wanted = f" of {_number(row, 'to_offload', 'byte/s')}" if "to_offload" in row.numbers else ""
    amounts = f"{_plural(row.numbers['selected'], 'bundle')} with {_number(row, 'offloaded', 'byte/s')}{wanted}"
    at = _number(row, "load", "fraction")
    return f"{row.subject} at {at} gives {amounts} for {receiver}: {_cause(row, receiver, row.subject)}."


def _should_give(but: str) -> Template:
    return lambda row: (
        f"{row.subject} at {_number(row, 'load', 'fraction')} should give load to {destination_of(row)} at "
        f"{_number(row, 'receiver_load', 'fraction')}, but {but}."
    )


def _not_paired(row: Considered) -> str:
    load, mean = row.measured, row.numbers.get("mean_load")
    if load is None or mean is None:
        return f"{row.subject} at {_measured(row)} cannot be compared with the mean load: nothing moves from or to it."
    side = "over" if load >= mean else "under"
    return (
        f"{row.subject} at {_measured(row)} is {abs(load - mean) * 100:.1f} points {side} the mean load of "
        f"{amount(mean, 'fraction')}: nothing moves from or to it."
    )


def _receives(row: Considered) -> str:
    back = row.numbers.get("swapped_back", 0)
    swap = f" and gives {_plural(back, 'bundle')} in exchange" if back else ""
    return f"{row.subject} at {_measured(row)}, the least loaded, takes {_number(row, 'offloaded', 'byte/s')}{swap}."


def _transferred(row: Considered) -> str:
    destination = destination_of(row)
    goes = (
        f"goes from {row.broker} to {destination}" if destination else f"leaves {row.broker} for whom a look-up finds"
    )
    start = f"{row.subject} ({_number(row, 'bundle_throughput', 'byte/s')}) {goes}"
    if row.rule == "swapped_back":
        return f"{start}: it makes room for heavier bundles."
    with_it = f"with it {_measured(row)} leave"
    if row.threshold is None:
        return f"{start}: {with_it}."
    if row.rule == "with_swap":
        return f"{start}: {with_it} where {_threshold(row)} are wanted, and lighter bundles come back for it."
    return f"{start}: {with_it} of the {_threshold(row)} wanted."


def _cannot_have_it(why: str) -> Template:
    return lambda row: (
        f"{row.subject} stays on {row.broker}: "
        f"{next((a.name for a in row.alternatives if a.verdict == 'removed'), 'the other broker')} {why}."
    )


def _by_load(row: Considered) -> str:
    words = _placement_words(row)
    start = f"{row.subject} goes from {row.broker}" if row.broker else f"{row.subject} goes"
    start = f"{start} to {destination_of(row)}: of {words['others']}{words['filters']}"
    if "mean_load" not in row.numbers:
        return f"{start} none has load data{words['tie']}."
    mean = f"their mean load of {_number(row, 'mean_load', 'fraction')}"
    if row.rule == "well_below_mean_load":
        return f"{start} it is well below {mean}, at {_number(row, 'load', 'fraction')}{words['tie']}."
    return f"{start} none is well below {mean}{words['tie']}."


_TRANSFERS: dict[tuple[str, str], Template] = {
    ("skipped", "cool_down"): lambda row: (
        f"Nothing is transferred: {row.broker} gave bundles away, and its load data is from {_measured(row)} after "
        f"that; it takes {_threshold(row)}."
    ),
    ("skipped", "all_outdated"): lambda row: (
        f"Nothing is transferred: the youngest load data is {_measured(row)} old and may be {_threshold(row)} old."
    ),
    ("skipped", "load_data_missing"): lambda row: (
        f"Nothing is transferred: {_plural(row.measured, 'available broker')} without load data, first {row.broker}."
    ),
    ("skipped", "no_load_data_at_all"): lambda row: "Nothing is transferred: no broker has published load data.",
    ("kept", "evenly_loaded"): lambda row: (
        f"Nothing is transferred: loads deviate by {_measured(row)} from their mean of "
        f"{_number(row, 'mean_load', 'fraction')}, within the target of {_threshold(row)}, and no broker stands out."
    ),
    ("refused", "hit_count"): lambda row: (
        f"Loads have been uneven for {_plural(row.measured, 'round')} in a row; it takes more than {_threshold(row)}."
    ),
    ("refused", "nothing_to_transfer"): lambda row: (
        f"Loads call for a transfer ({_measured(row)} against {_threshold(row)}), but no bundle can be moved."
    ),
    ("unload", "std_over_target"): _transfers,
    ("unload", "load_under_mean"): _transfers,
    ("unload", "throughput_under_highest"): _transfers,
    ("unload", "load_over_mean"): _transfers,
    ("refused", "no_top_bundles"): _should_give("nothing is known of bundles that it could give"),
    ("refused", "sole_top_bundle"): _should_give("it has a single bundle to give, and that would move the trouble"),
    ("refused", "no_movable_bundle"): _should_give("none of its bundles can go there"),
    ("kept", "receives"): _receives,
    ("kept", "least_loaded"): lambda row: (
        f"{row.subject} at {_measured(row)} is the least loaded: {_number(row, 'offloaded', 'byte/s')} are freed "
        "elsewhere and go to whom look-ups find."
    ),
    ("kept", "not_paired"): _not_paired,
    ("kept", "not_compared"): lambda row: (
        f"{row.subject} is at {_measured(row)}; loads are not compared in this round."
    ),
    ("skipped", "outdated"): lambda row: (
        f"{row.subject}'s load data is {_measured(row)} old and may be {_threshold(row)} old: it is not in the mean."
    ),
    ("skipped", "no_load_data"): lambda row: f"{row.subject} is available and has published no load data.",
    ("unload", "lightest_first"): _transferred,
    ("unload", "with_swap"): _transferred,
    ("unload", "swapped_back"): _transferred,
    ("kept", "too_heavy"): lambda row: (
        f"{row.subject} stays on {row.broker}: with it {_measured(row)} would leave, and "
        f"{'less' if row.threshold is None else _threshold(row)} is wanted."
    ),
    ("kept", "not_reached"): _bundle_stays("lighter bundles were looked at before it, and nothing more may go"),
    ("kept", "last_of_top_bundles"): _bundle_stays("it is the last one left of its broker's busiest bundles"),
    ("skipped", "not_owned"): _bundle_stays("that broker owns it no longer, or is about to split it"),
    ("skipped", "excluded_namespace"): _bundle_stays("its namespace is excluded from shedding"),
    ("skipped", "isolation_policy"): _bundle_stays("bundles under an isolation policy are not transferred"),
    ("skipped", "anti_affinity_group"): _bundle_stays("bundles of an anti-affinity group are not transferred"),
    ("skipped", "unreadable_version"): _bundle_stays(
        "a broker's version cannot be read, so none is known as the newest"
    ),
    ("skipped", "not_available"): _cannot_have_it("is not available"),
    ("skipped", "draining"): _cannot_have_it("is being emptied"),
    ("skipped", "other_load_manager"): _cannot_have_it("runs another load manager"),
    ("skipped", "topics_over_limit"): _cannot_have_it("has as many topics as a broker may have"),
    ("skipped", "older_version"): _cannot_have_it("runs an older version than others"),
    ("skipped", "anti_affinity_domain"): _cannot_have_it("is in a failure domain with more of its anti-affinity group"),
    ("skipped", "anti_affinity"): _cannot_have_it("has more of its anti-affinity group than others"),
    ("skipped", "unreadable_name"): _cannot_have_it("has a name that no policy can be applied to"),
    ("skipped", "outside_policy"): _cannot_have_it("is not among the brokers of its isolation policy"),
    ("skipped", "secondary"): _cannot_have_it(
        "is a secondary broker of its isolation policy, and enough primaries are there"
    ),
    ("skipped", "reserved_by_policy"): _cannot_have_it("is reserved for other namespaces by an isolation policy"),
    ("skipped", "topic_domain_not_served"): _cannot_have_it("does not take topics of its kind"),
    ("placed", "transferred"): _placed("that is the broker that load is moved to"),
    ("placed", "well_below_mean_load"): _by_load,
    ("placed", "none_well_below_mean_load"): _by_load,
}


# Wishes


def _wish_refused(why: str) -> Template:
    """The HTTP status is the one that Pulsar itself would answer with."""
    return lambda row: (
        f"{row.subject}: the wish is not carried out, for {why} (Pulsar's answer: HTTP {_number(row, 'http_status')})."
    )


def _wished_split(row: Considered) -> str:
    text = f"{row.subject} is split into {_number(row, 'children')} bundles, as wished"
    if row.numbers.get("unowned"):
        text += "; nobody owns it, so a broker takes it first"
    if row.numbers.get("over_maximum"):
        text += (
            f"; its namespace then has {_measured(row)} bundles, more than the {_threshold(row)} that automatic splits "
            "keep to"
        )
    if row.numbers.get("unload_ignored"):
        text += "; the children stay where they are, since the extensible manager does not unload them"
    elif row.numbers.get("unload_children"):
        text += "; the children are unloaded at once"
    return f"{text}."


def _wished_unload(row: Considered) -> str:
    if row.rule == "wish":
        return f"{row.subject} is unloaded from {row.broker}, as wished; placement says where it goes."
    back = ", where it is now: it is unloaded and comes back" if row.numbers.get("returns") else ""
    return f"{row.subject} is unloaded from {row.broker}, as wished, and goes to {destination_of(row)}{back}."


def _no_such_broker(row: Considered) -> str:
    alike = " or ".join(a.name for a in row.alternatives)
    hint = f"; perhaps {alike} was meant" if alike else ""
    why = f"its destination is none of the {_plural(row.numbers.get('brokers'), 'broker id')} available{hint}"
    return _wish_refused(why)(row)


_WISHES: dict[tuple[str, str], Template] = {
    ("split", "wish"): _wished_split,
    ("unload", "wish"): _wished_unload,
    ("unload", "wish_with_destination"): _wished_unload,
    ("placed", "wish"): _placed("as wished it is unloaded, and placement expects it there"),
    ("placed", "wish_with_destination"): _placed("as wished"),
    ("skipped", "wished"): lambda row: f"{row.subject} is left to the wish that was made for it.",
    ("refused", "wish_no_namespace"): _wish_refused("there is no such namespace"),
    ("refused", "wish_no_range"): _wish_refused("that is no range of a bundle; write it like 0x00000000_0x40000000"),
    ("refused", "wish_no_bundle"): _wish_refused("its namespace has no bundle of that range"),
    ("refused", "wish_nothing_hot"): _wish_refused("nothing is known of the traffic of its namespace's bundles"),
    ("refused", "wish_nothing_large"): _wish_refused("its namespace has no persistent topic"),
    ("refused", "wish_split_already"): _wish_refused("the bundle is split in this cycle already"),
    ("refused", "wish_unloaded_already"): _wish_refused("an earlier wish unloads the bundle in this cycle already"),
    ("refused", "wish_algorithm_unsupported"): _wish_refused(
        "its split algorithm is not one of supportedNamespaceBundleSplitAlgorithms"
    ),
    ("refused", "wish_no_positions"): _wish_refused("specified_positions_divide needs positions, and none are given"),
    ("refused", "wish_too_narrow"): _wish_refused("the bundle's range cannot be divided any further"),
    ("refused", "wish_flow_is_not_default"): _wish_refused(
        "brokers before 5.0 cut by flow_or_qps_equally_divide only where defaultNamespaceBundleSplitAlgorithm names it"
    ),
    ("refused", "wish_more_than_one_cut"): _wish_refused(
        "the extensible manager makes exactly one cut at a time, and this split takes more"
    ),
    ("refused", "wish_cut_twice"): _wish_refused("one position is given twice, and a bundle cannot be empty"),
    ("refused", "wish_cut_outside_bundle"): _wish_refused("the cut would leave one side without any range"),
    ("refused", "wish_too_few_topics"): _wish_refused("the bundle has fewer than two topics to cut between"),
    ("refused", "wish_no_position_inside"): _wish_refused("none of the positions lies inside the bundle"),
    ("refused", "wish_too_few_busy_topics"): _wish_refused("fewer than two of the bundle's topics have traffic"),
    ("refused", "wish_traffic_below_gate"): _wish_refused(
        "the traffic of the bundle's loaded topics is not far enough over the limits of rate and throughput"
    ),
    ("refused", "wish_one_piece"): _wish_refused("the traffic of the bundle's loaded topics fits into one bundle"),
    ("refused", "wish_no_such_broker"): _no_such_broker,
    ("refused", "wish_broker_silent"): _wish_refused(
        "its destination is listed but gave no report; Pulsar itself would send clients there until it is found gone"
    ),
    ("refused", "wish_unowned"): _wish_refused("nobody owns the bundle, so there is nothing to unload"),
    ("refused", "wish_brokers_own_namespace"): _wish_refused("the bundle belongs to one broker alone"),
    ("refused", "wish_there_already"): _wish_refused("the destination has the bundle already"),
}


_FRAME: dict[tuple[str, str], Template] = {
    ("skipped", "switched_off"): lambda row: f"Nothing is decided here: {row.setting} is off.",
    ("skipped", "too_few_brokers"): lambda row: (
        f"Nothing is decided here: it takes {_threshold(row)} brokers, and {_measured(row)} "
        f"{'is' if row.measured == 1 else 'are'} known."
    ),
    ("skipped", "no_report"): lambda row: (
        f"{row.subject} told nothing of its load: it is neither idle nor part of the average, and gets no bundle."
    ),
    ("skipped", "never_owned"): lambda row: (
        f"{row.subject} has had no owner as far as is known: Pulsar assigns it when a client first asks for it."
    ),
    ("skipped", "not_due"): lambda row: (
        f"Shedding is not due: the last round was {_measured(row)} ago, and the interval is {_threshold(row)}."
    ),
}

TEMPLATES: Mapping[tuple[str, str], Template] = {
    **_SPLITTING,
    **_BROKERS,
    **_DIFFERENCES,
    **_PAIRS,
    **_BUNDLES,
    **_PLACEMENT,
    **_TRANSFERS,
    **_SPLITTING_EXTENSIBLE,
    **_WISHES,
    **_FRAME,
}
"""Every (outcome, rule) that decisions give, with its sentence."""
