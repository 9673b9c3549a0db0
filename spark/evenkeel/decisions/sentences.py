"""One plain English sentence, with its numbers, for every verdict.

Templates are grouped by what decided: splitting, shedding, placement, and the frame around all. A rule that has none
(rows of another version) still gets a sentence, from its columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.decisions.considered import Considered

Template = Callable[[Considered], str]
_MIB = 1_048_576


def sentence(row: Considered) -> str:
    """What became of the subject and why, in one sentence that ends with a full stop."""
    template = TEMPLATES.get((row.outcome, row.rule))
    return template(row) if template else _plain(row)


def destination_of(row: Considered) -> str | None:
    """The broker a placed bundle goes to: the first by name of the best ones; None if there is none."""
    return next((a.name for a in row.alternatives if a.verdict == "best"), None)


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit as people write it: 71.0 %, 12.3 MiB/s, 1,500 msg/s, 1,001."""
    if value is None:
        return "an unknown figure"
    if unit == "fraction":
        return f"{value * 100:.1f} %"
    if unit == "percent":
        return f"{value:.1f} %"
    if unit == "byte/s":
        return throughput(value)
    if unit == "ms":
        return f"{value / 1000:,.0f} s"
    text = f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return f"{text} msg/s" if unit == "msg/s" else text


def throughput(bytes_per_s: float) -> str:
    """byte/s in the unit that suits its size."""
    size = abs(bytes_per_s)
    if size >= _MIB:
        return f"{bytes_per_s / _MIB:,.1f} MiB/s"
    return f"{bytes_per_s / 1024:,.1f} KiB/s" if size >= 1024 else f"{bytes_per_s:,.0f} byte/s"


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
    ("skipped", "reported_by_two_brokers"): lambda row: (
        f"{row.subject} is reported by more than one broker; the report of {row.broker} is not the one acted on."
    ),
}


# Shedding, broker by broker


def _has_mean(row: Considered) -> bool:
    return "mean_usage" in row.numbers


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


_UNFILTERED = "all candidates left by the filters are overloaded, and of {others} without filters "

_PLACEMENT: dict[tuple[str, str], Template] = {
    ("placed", "least_long_term_rate"): _placed("of {others}{filters}, it {rate}{tie}"),
    ("placed", "least_long_term_rate_of_all_allowed"): _placed(f"{_UNFILTERED}it {{rate}}{{tie}}"),
    ("placed", "below_mean_usage"): _placed("of {others}{filters}, {usage} is well below {mean}{tie}"),
    ("placed", "below_mean_usage_of_all_allowed"): _placed(f"{_UNFILTERED}{{usage}} is well below {{mean}}{{tie}}"),
    ("placed", "near_mean_usage"): _placed("of {others}{filters}, none is well below {mean}{tie}"),
    ("placed", "near_mean_usage_of_all_allowed"): _placed(f"{_UNFILTERED}none is well below {{mean}}{{tie}}"),
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

TEMPLATES: Mapping[tuple[str, str], Template] = {**_SPLITTING, **_BROKERS, **_BUNDLES, **_PLACEMENT, **_FRAME}
"""Every (outcome, rule) that decisions give, with its sentence."""
