"""The rules of TransferShedder's verdicts: the cluster, the brokers, the bundles of its pairs."""

from __future__ import annotations

from evenkeel.model.amounts import amount, plural
from evenkeel.model.consideration import (
    LEFT_TO_REQUEST,
    Considered,
    Rule,
    Sentence,
    bundle_stays,
    by_name,
    destination_of,
    measured,
    number,
    threshold,
)
from evenkeel.shed.bundle_selection import NO_TRAFFIC, RECENTLY_UNLOADED


def _cause(row: Considered, least: str | None, most: str | None) -> str:
    """The comparison that called for a transfer."""
    mean = number(row, "mean_load", "fraction")
    if row.by is STD_OVER_TARGET:
        return f"loads deviate by {measured(row)} from their mean of {mean}, and the target is {threshold(row)}"
    if row.by is THROUGHPUT_UNDER_HIGHEST:
        return f"{least} carries {measured(row)}, less than {threshold(row)}, a share of what the busiest carries"
    if row.by is LOAD_UNDER_MEAN:
        return f"{least} at {measured(row)} is below {threshold(row)}, a share of the mean load of {mean}"
    return f"{most} at {measured(row)} is above {threshold(row)}, far over the mean load of {mean}"


def _transfers(row: Considered) -> str:
    if row.subject_kind == "cluster":
        pairs = plural(row.numbers["pairs"], "pair")
        return f"Load is evened out between {pairs} of brokers: {_cause(row, row.broker, row.broker)}."
    receiver = destination_of(row)
    wanted = f" of {number(row, 'to_offload', 'byte/s')}" if "to_offload" in row.numbers else ""
    amounts = f"{plural(row.numbers['selected'], 'bundle')} with {number(row, 'offloaded', 'byte/s')}{wanted}"
    at = number(row, "load", "fraction")
    return f"{row.subject} at {at} gives {amounts} for {receiver}: {_cause(row, receiver, row.subject)}."


STD_OVER_TARGET = Rule("unload", "std_over_target", _transfers)
LOAD_UNDER_MEAN = Rule("unload", "load_under_mean", _transfers)
THROUGHPUT_UNDER_HIGHEST = Rule("unload", "throughput_under_highest", _transfers)
LOAD_OVER_MEAN = Rule("unload", "load_over_mean", _transfers)


COOL_DOWN = Rule(
    "skipped",
    "cool_down",
    lambda row: (
        f"Nothing is transferred: {row.broker} unloaded bundles, and its load data was published {measured(row)} "
        f"later; the delay is {threshold(row)}."
    ),
)
ALL_OUTDATED = Rule(
    "skipped",
    "all_outdated",
    lambda row: f"Nothing is transferred: the newest load data is {measured(row)} old; the limit is {threshold(row)}.",
)
LOAD_DATA_MISSING = Rule(
    "skipped",
    "load_data_missing",
    lambda row: (
        f"Nothing is transferred: {plural(row.measured, 'available broker')} without load data, first {row.broker}."
    ),
)
NO_LOAD_DATA_AT_ALL = Rule(
    "skipped", "no_load_data_at_all", lambda row: "Nothing is transferred: no broker has published load data."
)
EVENLY_LOADED = Rule(
    "kept",
    "evenly_loaded",
    lambda row: (
        f"Nothing is transferred: loads deviate by {measured(row)} from their mean of "
        f"{number(row, 'mean_load', 'fraction')}, within the target of {threshold(row)}, and no broker stands out."
    ),
)
HIT_COUNT = Rule(
    "refused",
    "hit_count",
    lambda row: (
        f"Loads have been uneven for {plural(row.measured, 'round')} in a row; "
        f"the rule needs more than {threshold(row)}."
    ),
)
NOTHING_TO_TRANSFER = Rule(
    "refused",
    "nothing_to_transfer",
    lambda row: f"Loads call for a transfer ({measured(row)} against {threshold(row)}), but no bundle can be moved.",
)


def _should_give(but: str) -> Sentence:
    return lambda row: (
        f"{row.subject} at {number(row, 'load', 'fraction')} should give load to {destination_of(row)} at "
        f"{number(row, 'receiver_load', 'fraction')}, but {but}."
    )


def _receives(row: Considered) -> str:
    back = row.numbers.get("swapped_back", 0)
    swap = f" and gives {plural(back, 'bundle')} in exchange" if back else ""
    return f"{row.subject} at {measured(row)}, the least loaded, takes {number(row, 'offloaded', 'byte/s')}{swap}."


def _not_paired(row: Considered) -> str:
    load, mean = row.measured, row.numbers.get("mean_load")
    if load is None or mean is None:
        return f"{row.subject} at {measured(row)} cannot be compared with the mean load: nothing moves from or to it."
    side = "over" if load >= mean else "under"
    return (
        f"{row.subject} at {measured(row)} is {abs(load - mean) * 100:.1f} points {side} the mean load of "
        f"{amount(mean, 'fraction')}: nothing moves from or to it."
    )


NO_TOP_BUNDLES = Rule("refused", "no_top_bundles", _should_give("its load data names no bundle that it could give"))
SOLE_TOP_BUNDLE = Rule(
    "refused",
    "sole_top_bundle",
    _should_give("it has only one bundle to give, and moving it would move the overload with it"),
)
NO_MOVABLE_BUNDLE = Rule("refused", "no_movable_bundle", _should_give("none of its bundles can go there"))
RECEIVES = Rule("kept", "receives", _receives)
LEAST_LOADED = Rule(
    "kept",
    "least_loaded",
    lambda row: (
        f"{row.subject} at {measured(row)} is the least loaded: {number(row, 'offloaded', 'byte/s')} leave "
        "other brokers, and client lookups assign them."
    ),
)
NOT_PAIRED = Rule("kept", "not_paired", _not_paired)
NOT_COMPARED = Rule(
    "kept", "not_compared", lambda row: f"{row.subject} is at {measured(row)}; loads are not compared in this round."
)
OUTDATED = Rule(
    "skipped",
    "outdated",
    lambda row: (
        f"{row.subject}'s load data is {measured(row)} old, over the limit of {threshold(row)}: it is not in the mean."
    ),
    "above",
)
NO_LOAD_DATA = Rule(
    "skipped", "no_load_data", lambda row: f"{row.subject} is available and has published no load data."
)


def _transferred(row: Considered) -> str:
    destination = destination_of(row)
    goes = (
        f"goes from {row.broker} to {destination}"
        if destination
        else f"leaves {row.broker}, and a client lookup assigns it"
    )
    start = f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) {goes}"
    if row.by is SWAPPED_BACK:
        return f"{start}: it makes room for heavier bundles."
    with_it = f"with it {measured(row)} leave"
    if row.threshold is None:
        return f"{start}: {with_it}."
    if row.by is WITH_SWAP:
        return f"{start}: {with_it} where {threshold(row)} are wanted, and lighter bundles come back for it."
    return f"{start}: {with_it} of the {threshold(row)} wanted."


LIGHTEST_FIRST = Rule("unload", "lightest_first", _transferred)
WITH_SWAP = Rule("unload", "with_swap", _transferred)
SWAPPED_BACK = Rule("unload", "swapped_back", _transferred)
TOO_HEAVY = Rule(
    "kept",
    "too_heavy",
    lambda row: (
        f"{row.subject} stays on {row.broker}: with it {measured(row)} would leave, and "
        f"{'less' if row.threshold is None else threshold(row)} is wanted."
    ),
)
NOT_REACHED = Rule(
    "kept", "not_reached", bundle_stays("lighter bundles were considered before it, and nothing more may go")
)
LAST_OF_TOP_BUNDLES = Rule(
    "kept", "last_of_top_bundles", bundle_stays("it is the last one left of its broker's busiest bundles")
)
NOT_OWNED = Rule("skipped", "not_owned", bundle_stays("that broker owns it no longer, or is about to split it"))
EXCLUDED_NAMESPACE = Rule("skipped", "excluded_namespace", bundle_stays("its namespace is excluded from shedding"))


def _cannot_have_it(why: str) -> Sentence:
    return lambda row: (
        f"{row.subject} stays on {row.broker}: "
        f"{next((a.name for a in row.alternatives if a.verdict == 'removed'), 'the other broker')} {why}."
    )


POLICIES = by_name(
    "rules",
    Rule("skipped", "isolation_policy", bundle_stays("bundles under an isolation policy are not transferred")),
    Rule("skipped", "anti_affinity_group", bundle_stays("bundles of an anti-affinity group are not transferred")),
)
"""Policies that keep a bundle on its broker, by the names in `TransferPolicies.refusal`."""

UNREADABLE_VERSION = Rule(
    "skipped", "unreadable_version", bundle_stays("a broker's version cannot be read, so none is known as the newest")
)

FILTERS = by_name(
    "rules",
    Rule("skipped", "not_available", _cannot_have_it("is not available")),
    Rule("skipped", "draining", _cannot_have_it("is being emptied")),
    Rule("skipped", "other_load_manager", _cannot_have_it("runs another load manager")),
    Rule("skipped", "topics_over_limit", _cannot_have_it("has as many topics as a broker may have")),
    Rule("skipped", "older_version", _cannot_have_it("runs an older version than others")),
    Rule(
        "skipped",
        "anti_affinity_domain",
        _cannot_have_it("is in a failure domain with more of its anti-affinity group"),
    ),
    Rule("skipped", "anti_affinity", _cannot_have_it("has more of its anti-affinity group than others")),
    Rule("skipped", "unreadable_name", _cannot_have_it("has a name that no policy can be applied to")),
    Rule("skipped", "outside_policy", _cannot_have_it("is not among the brokers of its isolation policy")),
    Rule(
        "skipped",
        "secondary",
        _cannot_have_it("is a secondary broker of its isolation policy, and enough primaries are there"),
    ),
    Rule("skipped", "reserved_by_policy", _cannot_have_it("is reserved for other namespaces by an isolation policy")),
    Rule("skipped", "topic_domain_not_served", _cannot_have_it("does not take topics of its kind")),
)
"""Filters that keep a bundle from the receiving broker, by the names that `BrokerFilters.why_not` gives."""

REFUSALS = {**POLICIES, UNREADABLE_VERSION.name: UNREADABLE_VERSION, **FILTERS}
"""Every rule that `TransferPolicies.refusal` may name."""

RULES = (
    STD_OVER_TARGET,
    LOAD_UNDER_MEAN,
    THROUGHPUT_UNDER_HIGHEST,
    LOAD_OVER_MEAN,
    COOL_DOWN,
    ALL_OUTDATED,
    LOAD_DATA_MISSING,
    NO_LOAD_DATA_AT_ALL,
    EVENLY_LOADED,
    HIT_COUNT,
    NOTHING_TO_TRANSFER,
    NO_TOP_BUNDLES,
    SOLE_TOP_BUNDLE,
    NO_MOVABLE_BUNDLE,
    RECEIVES,
    LEAST_LOADED,
    NOT_PAIRED,
    NOT_COMPARED,
    OUTDATED,
    NO_LOAD_DATA,
    LIGHTEST_FIRST,
    WITH_SWAP,
    SWAPPED_BACK,
    TOO_HEAVY,
    NOT_REACHED,
    LAST_OF_TOP_BUNDLES,
    NO_TRAFFIC,
    NOT_OWNED,
    EXCLUDED_NAMESPACE,
    RECENTLY_UNLOADED,
    LEFT_TO_REQUEST,
    *REFUSALS.values(),
)
