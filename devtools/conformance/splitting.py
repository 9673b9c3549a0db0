"""Operations about splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devtools.conformance.reading import Json, report_of, rounds_of, settings_of, stats_of
from devtools.conformance.reading import history_of as read_history
from evenkeel.errors import BadInput, BadRange
from evenkeel.model.bundles import parse_range, range_of, topic_hash
from evenkeel.model.load import BrokerReport
from evenkeel.model.split_algorithms import algorithm_named, cut_by_broker, option_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, TopicLoads
from evenkeel.plan_splits.rules import default_namespace_bundle_split_strategy as extensible
from evenkeel.plan_splits.rules.bundle_splitter_task import find_bundles_to_split

REASONS = {
    "topics_over_limit": "Topics",
    "sessions_over_limit": "Sessions",
    "rate_over_limit": "MsgRate",
    "throughput_over_limit": "Bandwidth",
    extensible.NO_CONDITION: "Unknown",
}
"""Pulsar's words for the reason of a split."""

# Cases name no broker: one broker decides about all bundles.
_BROKER = "self:8080"


def split_decide(case: dict[str, Any]) -> dict[str, Any]:
    """`split_decide`"""
    plan = find_bundles_to_split(
        brokers={name: report_of(name, body) for name, body in case["brokers"].items()},
        histories={name: read_history(body) for name, body in (case.get("bundles") or {}).items()},
        bundle_counts=case.get("bundleCounts") or {},
        settings=settings_of(case.get("config")),
    )
    return {"split": dict(plan.splits)}


def split_algo(case: dict[str, Any]) -> dict[str, Any]:
    """`split_algo`; no topics known counts as no topics. No split is null as in Pulsar, but [] past the traffic gate.

    With `viaService` the broker chooses algorithm and option; `generation` is that of the broker, "4" if not given.
    """
    settings = settings_of(case.get("config"))
    topics = _topics(case.get("topics") or (), case.get("stats") or {})
    option = option_of(parse_range(case["bundle"]), settings, topics, case.get("positions"))
    asked = case["algorithm"]
    if case.get("viaService"):
        cut = cut_by_broker(asked, option, settings, case.get("generation", "4"))
    else:
        cut = algorithm_named(asked)(option)
    return {"cuts": _cuts(cut)}


def _cuts(cut: Cut) -> list[int] | None:
    if cut.failed:
        raise BadInput(f"Pulsar fails to cut here: {cut.rule}")
    return list(cut.positions) if cut.positions or cut.rule == "one_piece" else None


def _topics(names: Sequence[str], stats: Json) -> BundleTopics:
    """Return the topics. Names are hashed as written: at this point Pulsar has full names and does not parse them."""
    hashes = {name: topic_hash(name) for name in names}
    loads = [(hashes[name], *_load(stats[name])) for name in names if name in stats]
    return BundleTopics(sorted(hashes[name] for name in names), TopicLoads.of(loads))


def _load(body: Json) -> tuple[float, float]:
    stats = stats_of(body)
    return stats.msg_rate_in + stats.msg_rate_out, stats.msg_throughput_in + stats.msg_throughput_out


def split_decide_ext(case: dict[str, Any]) -> dict[str, Any]:
    """`split_decide_ext`"""
    state: extensible.State = {}
    rounds = []
    counts = {namespace: len(texts) - 1 for namespace, texts in (case.get("boundaries") or {}).items()}
    for given in rounds_of(case["rounds"], "stats"):
        stats = {bundle: stats_of(body) for bundle, body in (given.get("stats") or {}).items()}
        loads = given.get("topicStats", case.get("topicStats")) or {}
        listed = given.get("topics", case.get("topics")) or {}
        view = extensible.View(
            bundle_counts=counts,
            topics={bundle: _topics(names, loads) for bundle, names in listed.items()},
            splitting=given.get("splitting") or (),
            not_owned=frozenset(given.get("notOwned") or ()),
        )
        settings = settings_of(case.get("config"), given.get("config"))
        decided = extensible.decide_splits({_BROKER: BrokerReport(_BROKER, stats=stats)}, state, view, settings)
        state = decided.state
        rounds.append(_answer(decided))
    return {"rounds": rounds}


def _answer(decided: extensible.ExtensibleSplits) -> dict[str, Any]:
    outside = [row.subject for row in decided.considered if row.rule == "cut_outside_bundle"]
    if outside:
        raise BadRange(f"{outside[0]} would have an empty child; Pulsar breaks off the whole round here")
    split = {
        decided_split.bundle: {
            "reason": REASONS[decided_split.reason.rule],
            "children": sorted(str(range_of(c)) for c in decided_split.children),
        }
        for decided_split in decided.splits
    }
    return {
        "split": split,
        "failures": decided.failures,
        "state": {"hits": dict(decided.state.get(extensible.HITS, {}))},
    }


OPERATIONS = {"split_decide": split_decide, "split_decide_ext": split_decide_ext, "split_algo": split_algo}
