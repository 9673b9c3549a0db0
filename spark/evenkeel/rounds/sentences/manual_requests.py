"""Sentences about splits and unloads that an operator asked for."""

from __future__ import annotations

from evenkeel.model.considered import Considered
from evenkeel.rounds.sentences.placement import placed
from evenkeel.rounds.sentences.words import Template, Templates, destination_of, measured, number, plural, threshold


def _wish_refused(why: str) -> Template:
    """The HTTP status is the one that Pulsar itself would answer with."""
    return lambda row: (
        f"{row.subject}: the wish is not carried out, for {why} (Pulsar's answer: HTTP {number(row, 'http_status')})."
    )


def _wished_split(row: Considered) -> str:
    text = f"{row.subject} is split into {number(row, 'children')} bundles, as wished"
    if row.numbers.get("unowned"):
        text += "; nobody owns it, so a broker takes it first"
    if row.numbers.get("over_maximum"):
        text += (
            f"; its namespace then has {measured(row)} bundles, more than the {threshold(row)} that automatic splits "
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
    why = f"its destination is none of the {plural(row.numbers.get('brokers'), 'broker id')} available{hint}"
    return _wish_refused(why)(row)


WISHES: Templates = {
    ("split", "wish"): _wished_split,
    ("unload", "wish"): _wished_unload,
    ("unload", "wish_with_destination"): _wished_unload,
    ("placed", "wish"): placed("as wished it is unloaded, and placement expects it there"),
    ("placed", "wish_with_destination"): placed("as wished"),
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
