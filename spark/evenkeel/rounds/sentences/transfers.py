"""Sentences about transfers and placement by the extensible manager."""

from __future__ import annotations

from evenkeel.model.amounts import amount
from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.placement import placed, placement_words
from evenkeel.rounds.sentences.shedding import bundle_stays
from evenkeel.rounds.sentences.words import Template, Templates, destination_of, measured, number, plural, threshold


def _cause(row: Considered, least: str | None, most: str | None) -> str:
    """What called for a transfer, in words."""
    mean = number(row, "mean_load", "fraction")
    if row.rule == "std_over_target":
        return f"loads deviate by {measured(row)} from their mean of {mean}, and the target is {threshold(row)}"
    if row.rule == "throughput_under_highest":
        return f"{least} carries {measured(row)}, less than {threshold(row)}, a share of what the busiest carries"
    if row.rule == "load_under_mean":
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


def _should_give(but: str) -> Template:
    return lambda row: (
        f"{row.subject} at {number(row, 'load', 'fraction')} should give load to {destination_of(row)} at "
        f"{number(row, 'receiver_load', 'fraction')}, but {but}."
    )


def _not_paired(row: Considered) -> str:
    load, mean = row.measured, row.numbers.get("mean_load")
    if load is None or mean is None:
        return f"{row.subject} at {measured(row)} cannot be compared with the mean load: nothing moves from or to it."
    side = "over" if load >= mean else "under"
    return (
        f"{row.subject} at {measured(row)} is {abs(load - mean) * 100:.1f} points {side} the mean load of "
        f"{amount(mean, 'fraction')}: nothing moves from or to it."
    )


def _receives(row: Considered) -> str:
    back = row.numbers.get("swapped_back", 0)
    swap = f" and gives {plural(back, 'bundle')} in exchange" if back else ""
    return f"{row.subject} at {measured(row)}, the least loaded, takes {number(row, 'offloaded', 'byte/s')}{swap}."


def _transferred(row: Considered) -> str:
    destination = destination_of(row)
    goes = (
        f"goes from {row.broker} to {destination}" if destination else f"leaves {row.broker} for whom a look-up finds"
    )
    start = f"{row.subject} ({number(row, 'bundle_throughput', 'byte/s')}) {goes}"
    if row.rule == "swapped_back":
        return f"{start}: it makes room for heavier bundles."
    with_it = f"with it {measured(row)} leave"
    if row.threshold is None:
        return f"{start}: {with_it}."
    if row.rule == "with_swap":
        return f"{start}: {with_it} where {threshold(row)} are wanted, and lighter bundles come back for it."
    return f"{start}: {with_it} of the {threshold(row)} wanted."


def _cannot_have_it(why: str) -> Template:
    return lambda row: (
        f"{row.subject} stays on {row.broker}: "
        f"{next((a.name for a in row.alternatives if a.verdict == 'removed'), 'the other broker')} {why}."
    )


def _by_load(row: Considered) -> str:
    words = placement_words(row)
    start = f"{row.subject} goes from {row.broker}" if row.broker else f"{row.subject} goes"
    start = f"{start} to {destination_of(row)}: of {words['others']}{words['filters']}"
    if "mean_load" not in row.numbers:
        return f"{start} none has load data{words['tie']}."
    mean = f"their mean load of {number(row, 'mean_load', 'fraction')}"
    if row.rule == "well_below_mean_load":
        return f"{start} it is well below {mean}, at {number(row, 'load', 'fraction')}{words['tie']}."
    return f"{start} none is well below {mean}{words['tie']}."


TRANSFERS: Templates = {
    ("skipped", "cool_down"): lambda row: (
        f"Nothing is transferred: {row.broker} gave bundles away, and its load data is from {measured(row)} after "
        f"that; it takes {threshold(row)}."
    ),
    ("skipped", "all_outdated"): lambda row: (
        f"Nothing is transferred: the youngest load data is {measured(row)} old and may be {threshold(row)} old."
    ),
    ("skipped", "load_data_missing"): lambda row: (
        f"Nothing is transferred: {plural(row.measured, 'available broker')} without load data, first {row.broker}."
    ),
    ("skipped", "no_load_data_at_all"): lambda row: "Nothing is transferred: no broker has published load data.",
    ("kept", "evenly_loaded"): lambda row: (
        f"Nothing is transferred: loads deviate by {measured(row)} from their mean of "
        f"{number(row, 'mean_load', 'fraction')}, within the target of {threshold(row)}, and no broker stands out."
    ),
    ("refused", "hit_count"): lambda row: (
        f"Loads have been uneven for {plural(row.measured, 'round')} in a row; it takes more than {threshold(row)}."
    ),
    ("refused", "nothing_to_transfer"): lambda row: (
        f"Loads call for a transfer ({measured(row)} against {threshold(row)}), but no bundle can be moved."
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
        f"{row.subject} at {measured(row)} is the least loaded: {number(row, 'offloaded', 'byte/s')} are freed "
        "elsewhere and go to whom look-ups find."
    ),
    ("kept", "not_paired"): _not_paired,
    ("kept", "not_compared"): lambda row: f"{row.subject} is at {measured(row)}; loads are not compared in this round.",
    ("skipped", "outdated"): lambda row: (
        f"{row.subject}'s load data is {measured(row)} old and may be {threshold(row)} old: it is not in the mean."
    ),
    ("skipped", "no_load_data"): lambda row: f"{row.subject} is available and has published no load data.",
    ("unload", "lightest_first"): _transferred,
    ("unload", "with_swap"): _transferred,
    ("unload", "swapped_back"): _transferred,
    ("kept", "too_heavy"): lambda row: (
        f"{row.subject} stays on {row.broker}: with it {measured(row)} would leave, and "
        f"{'less' if row.threshold is None else threshold(row)} is wanted."
    ),
    ("kept", "not_reached"): bundle_stays("lighter bundles were looked at before it, and nothing more may go"),
    ("kept", "last_of_top_bundles"): bundle_stays("it is the last one left of its broker's busiest bundles"),
    ("skipped", "not_owned"): bundle_stays("that broker owns it no longer, or is about to split it"),
    ("skipped", "excluded_namespace"): bundle_stays("its namespace is excluded from shedding"),
    ("skipped", "isolation_policy"): bundle_stays("bundles under an isolation policy are not transferred"),
    ("skipped", "anti_affinity_group"): bundle_stays("bundles of an anti-affinity group are not transferred"),
    ("skipped", "unreadable_version"): bundle_stays(
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
    ("placed", "transferred"): placed("that is the broker that load is moved to"),
    ("placed", "well_below_mean_load"): _by_load,
    ("placed", "none_well_below_mean_load"): _by_load,
}
