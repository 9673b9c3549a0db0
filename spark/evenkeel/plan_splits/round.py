"""Splits of one cluster in one cycle, by either load manager (Pulsar: checkNamespaceBundleSplit, SplitScheduler), by
manual requests, and for Evenkeel's own planner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import PLANNER, REMEMBERED, STATE, Round, fold, read_back, state_row
from evenkeel.cycle.loads import looked_at
from evenkeel.cycle.memo import SharedRows, acts_only, once, once_for
from evenkeel.cycle.reading import Decided, Histories, Row, Rows
from evenkeel.cycle.reasons import named, reason_row, telling
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.manual_requests.round import (
    BY_REQUEST,
    bundles_to_look_into,
    granted_splits,
    left_to_wishes,
    looks_at_topics,
)
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import BrokerReport, BundleStats, LoadData
from evenkeel.model.split_algorithms.split_option import BundleTopics, PlannedSplit, TopicLoads
from evenkeel.plan_splits import planner_wishes
from evenkeel.plan_splits.rules.apply_splits import carry_out
from evenkeel.plan_splits.rules.bundle_splitter_task import (
    Figures,
    SplitPlan,
    busy_for_long,
    decide_splits_by,
    most_figures,
    over_a_limit,
)
from evenkeel.plan_splits.rules.default_namespace_bundle_split_strategy import (
    FAILURES,
    HITS,
    ExtensibleSplits,
    View,
    decide_splits,
    without_gone,
)
from evenkeel.planner import round as planner_round
from evenkeel.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


STRATEGY = "BundleSplitterTask"
BY_RANGE = "range_equally_divide"
_LAST = 0xFFFFFFFF
_UNCUT = {"algorithm": None, "cuts": None, "children": None, "unload_children": None}


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions` and, under the extensible manager, of `strategy_state`."""
    return {"strategy_state": [], **reading.by_manager(rows, decide_modular, decide_extensible)(key, rows)}


def choose(key: Row, rows: Rows) -> Decided:
    """Rows of `chosen`: the bundles whose topics have to be looked at."""
    return reading.by_manager(rows, choose_modular, choose_extensible)(key, rows)


def decide_cycles(key: Row, rows: Rows) -> Decided:
    """Decide on splits in every cycle of a cluster (`fold`)."""
    return fold((SPLITS,), key, rows)


def decide_and_plan(key: Row, rows: Rows) -> Decided:
    """Rows of `split_decisions`, of the planner's tables, and of `strategy_state` for both.

    The planner is given the splits as shedding is: those that it looks at, as they are read from the lake. A cycle with
    evenkeelPlanner off has the rows of the splits alone.
    """
    decided = decide(key, rows)
    shared = rows if isinstance(rows, SharedRows) else SharedRows(rows)
    splits = read_back("split_decisions", filter(looked_at, decided["split_decisions"]))
    planned = planner_round.decide(key, shared.having({"split_decisions": splits}))
    return {**decided, **planned, REMEMBERED: [*decided[REMEMBERED], *planned[REMEMBERED]]}


def decide_and_plan_cycles(key: Row, rows: Rows) -> Decided:
    """Decide on splits and plan in every cycle of a cluster (`fold`)."""
    return fold((Round(decide_and_plan),), key, rows)


def choose_cycles(key: Row, rows: Rows) -> Decided:
    """Choose the bundles for every cycle of a cluster; without the cycle before, all that may be looked into."""
    return fold((Round(choose if len(rows["cycle"]) == 1 else choose_any),), key, rows)


def choose_any(key: Row, rows: Rows) -> Decided:
    """Return the bundles that the extensible manager or the planner may look into, whatever the state is.

    Which ones they look into depends on the cuts of earlier cycles, and those on topics.
    """
    if reading.the_cycle(rows)["manager"] == reading.EXTENSIBLE:
        settings, reports = reading.settings_of(rows), reading.broker_reports(rows)
        chosen: dict[str, str | None] = {}
        if settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE:
            if settings.loadBalancerNamespaceBundleSplitConditionHitCountThreshold >= 0:
                reports = _by_latest(rows, reports, settings, ())
            chosen = {bundle: broker for broker, report in reports.items() for bundle in report.stats}
        chosen |= dict(bundles_to_look_into(rows, settings))
        return {"chosen": chosen_rows(chosen | planner_wishes.bundles_of_any_wish(rows))}
    return {"chosen": chosen_rows({**_chosen_modular(rows), **planner_wishes.bundles_of_any_wish(rows)})}


def decide_for_loads(key: Row, rows: Rows) -> Decided:
    """Return what the next cycle's loads need of `decide` (`forgets_history`): splits, but not the planner's."""
    kept = [row for row in rows.get(STATE, ()) if row["strategy"] != PLANNER]
    return decide(key, SharedRows({**rows, STATE: kept}, acts_only=True))


SPLITS = Round(decide, ("split_decisions",))


def decide_modular(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `split_decisions`: all considered bundles, the chosen ones with cuts, and all manual requests."""
    settings, topics = reading.settings_of(rows), topics_of(rows)
    planned = plan(rows)
    if not planned.splits:
        return {"split_decisions": decision_rows(rows, planned.considered, {}, topics, STRATEGY)}
    gates = unload_gates(_load(rows), reading.policies(rows), settings)
    stay = planner_wishes.places_children(rows)
    executed = carry_out(planned, reading.boundaries(rows), topics, gates, settings, children_stay=stay)
    splits = {split.bundle: split for split in executed.splits}
    return {"split_decisions": decision_rows(rows, executed.considered, splits, topics, STRATEGY)}


def decision_rows(
    rows: Rows,
    verdicts: Sequence[Considered],
    splits: Mapping[str, PlannedSplit],
    topics: dict[str, BundleTopics],
    strategy: str,
) -> list[dict[str, Any]]:
    """Return the rows of the rule's verdicts, of manual requests, and of the planner's requests.

    A bundle whose manual request is granted is left to that request.
    """
    cycle = reading.the_cycle(rows)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    wished = granted_splits(rows, topics)
    taken = {request.verdict.subject for _, request in wished if request.accepted}
    requested = [request.split for _, request in wished if request.split is not None]
    triggered = {bundle: split for bundle, split in splits.items() if bundle not in taken}
    placed = planner_wishes.cut_for_planner(rows, topics, triggered, requested)
    verdicts = [
        placed[row.subject].reason if row.outcome == "split" and row.subject in placed else row for row in verdicts
    ]
    splits = {**splits, **placed}
    kept = [named(row, cycle["cluster"]) for row in telling(left_to_wishes([*verdicts], taken), rows)]
    decided = [_row(row, strategy, splits.get(row.subject) if row.outcome == "split" else None, stamp) for row in kept]
    decided += [_row(request.verdict, BY_REQUEST, request.split, stamp, wish["wish_id"]) for wish, request in wished]
    answers = planner_wishes.answers(rows, topics, {**triggered, **placed}.values(), requested)
    decided += [_row(verdict, PLANNER, split, stamp) for verdict, split in answers if telling([verdict], rows)]
    return decided


def _row(
    verdict: Considered, strategy: str, split: PlannedSplit | None, stamp: Row, wish_id: str | None = None
) -> dict[str, Any]:
    row = reason_row(verdict, strategy, wish_id)
    row.update(
        _UNCUT
        if split is None
        else {
            "algorithm": split.algorithm,
            "cuts": list(split.cuts),
            "children": list(split.children),
            "unload_children": split.unload,
        }
    )
    row.update(stamp)
    return row


def choose_modular(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return the bundles over a limit or with a manual request, with their ranges, whose topics are needed."""
    return {"chosen": chosen_rows({**_chosen_modular(rows), **planner_wishes.bundles_to_look_into(rows)})}


def _chosen_modular(rows: Rows) -> dict[str, str | None]:
    """Return the bundles over a limit, and those of manual requests."""
    settings = reading.settings_of(rows)
    over = plan(rows).splits if settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE else {}
    return {**over, **dict(bundles_to_look_into(rows, settings))}


def chosen_rows(chosen: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Rows of `chosen_type`, of bundles with their owners."""
    return [_range_row(bundle, owner) for bundle, owner in sorted(chosen.items())]


def chosen_type() -> StructType:
    """Return the schema of the result of `choose`."""
    from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

    texts = [StructField(name, StringType()) for name in ("cluster", "namespace", "bundle", "owner")]
    return StructType(
        [
            *texts,
            StructField("cycle_at", TimestampType()),
            StructField("lower", LongType()),
            StructField("upper", LongType()),
            StructField("is_last", BooleanType()),
        ]
    )


def looks_at_topics_of_bundles(settings: Settings, wished: Iterable[Row]) -> bool:
    """Return True if a cycle's splits may look at the topics of bundles: by an algorithm, or for the planner."""
    return cuts_by_topics(settings, wished) or planner_wishes.looks_at_topics(settings)


def cuts_by_topics(settings: Settings, wished: Iterable[Row]) -> bool:
    """Return True if the split algorithm in force, or that of a manual request, needs a bundle's topics."""
    return settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE or wishes_cut_by_topics(settings, wished)


def wishes_cut_by_topics(settings: Settings, wished: Iterable[Row]) -> bool:
    """Return True if the split algorithm of a manual request of the cycle needs a bundle's topics."""
    return any(wish["kind"] == SPLIT and looks_at_topics(wish, settings) for wish in wished)


def topics_of(rows: Rows) -> dict[str, BundleTopics]:
    """Bundle to its topics, of those bundles whose topics were asked for."""
    return {
        row["bundle"]: BundleTopics(
            row["hashes"], TopicLoads(row["loaded_hashes"], row["loaded_rates"], row["loaded_throughputs"])
        )
        for row in rows["topic_hashes"]
    }


def plan(rows: Rows) -> SplitPlan:
    """Return the bundles over a limit."""
    settings, known = reading.settings_of(rows), reading.histories(rows)
    brokers = reading.broker_reports(rows)
    if acts_only(rows):
        brokers = _by_history(rows, brokers, known, settings)
        known = known.only(bundle for report in brokers.values() for bundle in report.stats)
    return decide_splits_by(brokers, known, reading.bundle_counts(rows), settings)


def _load(rows: Rows) -> LoadData:
    return LoadData(brokers=reading.broker_reports(rows), histories=reading.histories(rows))


def _range_row(bundle: str, owner: str | None) -> dict[str, Any]:
    bundle_range = range_of(bundle)
    return {
        "namespace": namespace_of(bundle),
        "bundle": bundle,
        "owner": owner,
        "lower": bundle_range.lower,
        "upper": bundle_range.upper,
        "is_last": bundle_range.upper == _LAST,
    }


# Splits of one extensible cluster in one cycle (Pulsar: SplitScheduler, DefaultNamespaceBundleSplitStrategyImpl). Each
# broker counts how often in a row its bundles were over a limit. Its counts end when the broker is gone. A cycle is one
# round of every broker.

EXTENSIBLE_STRATEGY = "DefaultNamespaceBundleSplitStrategyImpl"
Hits = dict[tuple[str, str], float]
"""(bundle, the broker that counts) -> rounds in a row."""


def decide_extensible(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `split_decisions`, for every considered bundle and manual request, and of `strategy_state`.

    `state` holds the predecessor's rows. The counts of a broker that is silent in this cycle are handed on.
    """
    cycle, topics = reading.the_cycle(rows), topics_of(rows)
    decided = without_gone(_plan(rows, topics), reading.boundaries(rows))
    splits = {split.bundle: split for split in decided.splits}
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {
        "split_decisions": decision_rows(rows, decided.considered, splits, topics, EXTENSIBLE_STRATEGY),
        "strategy_state": [{**row, **stamp} for row in _state_rows(rows, decided)],
    }


def choose_extensible(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return the bundles to be cut, by the rule or a manual request, with their ranges, whose topics are needed."""
    settings = reading.settings_of(rows)
    chosen: dict[str, str | None] = {}
    if settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE:
        due = (row for row in _plan(rows, {}).considered if row.outcome == "split" or row.rule in FAILURES)
        chosen = {row.subject: row.broker for row in due}
    chosen |= dict(bundles_to_look_into(rows, settings))
    return {"chosen": chosen_rows(chosen | planner_wishes.bundles_to_look_into(rows))}


def _plan(rows: Rows, topics: Mapping[str, BundleTopics]) -> ExtensibleSplits:
    reports = reading.broker_reports(rows)
    owners = _owners(rows)
    counted = {bundle: hits for (bundle, broker), hits in _hits(rows).items() if owners.get(bundle) == broker}
    view = View(bundle_counts=reading.bundle_counts(rows), topics=topics)
    settings = reading.settings_of(rows)
    if acts_only(rows) and settings.loadBalancerNamespaceBundleSplitConditionHitCountThreshold >= 0:
        reports = _by_latest(rows, reports, settings, counted)
    return decide_splits(reports, {HITS: counted}, view, settings)


@once
def _owners(rows: Rows) -> dict[str, str]:
    reports = reading.broker_reports(rows)
    return {bundle: broker for broker, report in reports.items() for bundle in report.stats}


def _hits(rows: Rows) -> Hits:
    """Return the counts up to the previous cycle; the name of a figure contains the broker that counted."""
    named = [(row, row["name"].partition(" of ")) for row in rows["state"] if row["strategy"] == EXTENSIBLE_STRATEGY]
    return {(row["subject"], broker): row["value"] for row, (name, _, broker) in named if name == HITS}


def _state_rows(rows: Rows, decided: ExtensibleSplits) -> list[dict[str, Any]]:
    reports = reading.broker_reports(rows)
    owners = _owners(rows)
    silent = {row["broker"] for row in rows["broker_load"]} - reports.keys()
    kept: Hits = {(bundle, broker): hits for (bundle, broker), hits in _hits(rows).items() if broker in silent}
    kept |= {(bundle, owners[bundle]): hits for bundle, hits in decided.state.get(HITS, {}).items()}
    return [
        dict(state_row(EXTENSIBLE_STRATEGY, bundle, f"{HITS} of {broker}", value=hits))
        for (bundle, broker), hits in sorted(kept.items())
    ]


def _by_history(
    rows: Rows, brokers: Mapping[str, BrokerReport], known: Histories, settings: Settings
) -> dict[str, BrokerReport]:
    """The reports with those bundles only whose long-term averages, topics or sessions exceed a limit."""
    most = most_figures(settings)

    def over() -> dict[str, list[str]]:
        busy = busy_for_long(brokers, known, most)
        return {broker: over_a_limit(report.stats, busy, most) for broker, report in brokers.items()}

    return _restricted(brokers, once_for(rows, ("over by history", most), over), ())


def _by_latest(
    rows: Rows, brokers: Mapping[str, BrokerReport], settings: Settings, also: Collection[str]
) -> dict[str, BrokerReport]:
    """Bundles that are over a limit by the latest figures; `also` are looked at whatever their figures."""
    most = most_figures(settings)

    def over() -> dict[str, list[str]]:
        return {
            broker: over_a_limit(report.stats, _busy_by_latest(report.stats, most), most)
            for broker, report in brokers.items()
        }

    return _restricted(brokers, once_for(rows, ("over by latest", most), over), also)


def _busy_by_latest(reported: Mapping[str, BundleStats], most: Figures) -> Collection[str]:
    """The bundles whose latest rate or throughput is above the `most`."""
    _, _, most_rate, most_throughput = most
    return {
        bundle
        for bundle, stats in reported.items()
        if stats.msg_rate_in + stats.msg_rate_out > most_rate
        or stats.msg_throughput_in + stats.msg_throughput_out > most_throughput
    }


def _restricted(
    brokers: Mapping[str, BrokerReport], kept: Mapping[str, Collection[str]], also: Collection[str]
) -> dict[str, BrokerReport]:
    return {
        broker: replace(
            report,
            stats={
                bundle: report.stats[bundle]
                for bundle in sorted({*kept[broker], *(name for name in also if name in report.stats)})
            },
        )
        for broker, report in brokers.items()
    }
