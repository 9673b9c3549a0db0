"""What would have changed an answer is true: the deciding code, asked again with the one figure changed, says so.

For any cluster: with the figure just beyond what is needed the answer is the other one, just short of it the same. Not
covered: statements about rounds and times to come, which are differences of two numbers of the row.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.averages import updated
from evenkeel.model.considered import Considered
from evenkeel.model.load import BrokerAverages, BrokerLoadData, BrokerReport, BundleStats, LoadData
from evenkeel.place.broker_figures import BrokerFigures
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.rows import placement_row
from evenkeel.place.strategies import least_resource_usage_with_weight as least_usage
from evenkeel.plan_splits.rules.bundle_splitter_task import decide_splits
from evenkeel.publish.guards.situation import Situation
from evenkeel.record.explain.changes import Change, Context, changes_of
from evenkeel.record.explain.changes.bundle_splits import SETTINGS
from evenkeel.record.explain.changes.change import Row
from evenkeel.rounds.reasons import reason_row
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import RATE, THROUGHPUT, Eligible, take_until_reached
from evenkeel.shed.shedder import Shed
from evenkeel.shed.strategies import overload_shedder, threshold_shedder, uniform_load_shedder
from evenkeel.shed.strategies.transfer_shedder.load_stats import LoadStats
from tests.cycle.clusters import Cluster, clusters, owner_of
from tests.publish.situations import guarded, rules, situation, split, unload

EPSILON = 1e-9
fractions = st.floats(0.01, 0.99)


def rows_of(considered: tuple[Considered, ...], strategy: str) -> list[Row]:
    return [reason_row(verdict, strategy) for verdict in considered]


def told(table: str, rows: list[Row], settings: dict[str, object] | None = None) -> list[tuple[Row, Change]]:
    """Every statement with the row that it is about."""
    context = Context(rows, settings or {})
    return [(row, change) for row in rows for change in changes_of(table, row, context)]


def row_about(rows: list[Row], like: Row) -> Row:
    (found,) = [r for r in rows if (r["subject"], r["broker"]) == (like["subject"], like["broker"])]
    return found


def beyond(change: Change) -> float:
    return change.needed + (EPSILON if change.is_more else -EPSILON) * max(1.0, abs(change.needed))


def short(change: Change) -> float:
    return change.needed - (EPSILON if change.is_more else -EPSILON) * max(1.0, abs(change.needed))


# Brokers


@given(cluster=clusters(), data=st.data())
def test_a_broker_sheds_or_not_by_the_usage_that_is_named(cluster: Cluster, data: st.DataObject) -> None:
    """With a history of 100 % the usage that ThresholdShedder remembers is what stands in its state."""
    settings = cluster.settings.with_values(
        {"loadBalancerHistoryResourcePercentage": 1.0, "lowerBoundarySheddingEnabled": False}
    )
    usage = {broker: data.draw(fractions) for broker in sorted(cluster.load.brokers)}

    def decided(usage: dict[str, float]) -> list[Row]:
        made = threshold_shedder.shed(cluster.load, {threshold_shedder.USAGE_AVERAGE: usage}, settings)
        return rows_of(made.considered, "ThresholdShedder")

    rows = decided(usage)
    for row, change in told("unload_decisions", rows):
        if row["subject_kind"] != "broker" or change.figure != "usage as remembered":
            continue
        was_below = row["rule"] == "below_threshold"
        after = {where: row_about(decided({**usage, change.subject: value}), row)["rule"] == "below_threshold"
                 for where, value in (("beyond", beyond(change)), ("short", short(change)))}  # fmt: skip
        assert after == {"beyond": not was_below, "short": was_below}, change.sentence


def test_overload_shedder_speaks_of_the_broker_alone() -> None:
    row = {"subject": "b1:8080", "subject_kind": "broker", "outcome": "kept", "rule": "below_threshold", "broker": "b",
           "setting": overload_shedder.THRESHOLD_KEY, "measured": 0.7, "threshold": 0.85, "margin": -0.15,
           "strategy": "OverloadShedder", "numbers": {}, "unit": "fraction"}  # fmt: skip
    (change,) = changes_of("unload_decisions", row, Context([row]))
    assert abs(change.needed - 0.85) < EPSILON
    assert change.sentence == "Had b1:8080 been 15.0 points busier (usage), it would have reached its limit."


@given(cluster=clusters())
def test_the_busiest_broker_sheds_or_not_by_the_traffic_that_is_named(cluster: Cluster) -> None:
    settings = cluster.settings

    def decided(load: LoadData) -> Shed:
        return uniform_load_shedder.shed(load, {}, settings)

    rows = rows_of(decided(cluster.load).considered, "UniformLoadShedder")
    for row, change in told("unload_decisions", rows):
        if row["subject_kind"] != "broker" or change.subject not in cluster.load.brokers:
            continue
        way = "msg_rate" if change.figure == "rate" else "msg_throughput"
        report = cluster.load.brokers[change.subject]
        traffic = {f"{way}_in": beyond(change), f"{way}_out": 0.0}
        brokers = {**cluster.load.brokers, change.subject: replace(report, **traffic)}
        load = replace(cluster.load, brokers=brokers)
        spread = uniform_load_shedder.spread_of(load, RATE if change.figure == "rate" else THROUGHPUT, settings)
        assert spread is not None
        is_it = spread.busiest == change.subject
        if row["rule"] == "not_the_busiest":
            assert is_it, change.sentence
        elif row["rule"].endswith("_within"):
            assert (is_it, spread.is_exceeded) == (True, True), change.sentence
        else:
            assert not (is_it and spread.is_exceeded), change.sentence


@given(loads=st.lists(fractions, min_size=2, max_size=6), target=st.sampled_from([0.02, 0.1, 0.25]))
def test_loads_are_even_or_not_by_the_load_that_is_named(loads: list[float], target: float) -> None:
    settings = Settings().with_values({"loadBalancerBrokerLoadTargetStd": target})

    def stats(loads: dict[str, float]) -> LoadStats:
        found = {broker: BrokerLoadData(weighted_max_ema=load) for broker, load in loads.items()}
        return LoadStats(found, list(loads.values()), settings)

    named = {f"b{n}:8080": load for n, load in enumerate(loads)}
    before = stats(named)
    is_uneven = before.std > target
    rule = ("unload", "std_over_target") if is_uneven else ("kept", "evenly_loaded")
    rows = [
        {"subject": broker, "subject_kind": "broker", "measured": load, "numbers": {"mean_load": before.mean}}
        for broker, load in named.items()
    ]
    row = {"subject": "lab", "subject_kind": "cluster", "outcome": rule[0], "rule": rule[1], "threshold": target,
           "numbers": {"mean_load": before.mean}}  # fmt: skip
    for change in changes_of("unload_decisions", row, Context([row, *rows])):
        assert (stats({**named, change.subject: beyond(change)}).std > target) != is_uneven, change.sentence
        assert (stats({**named, change.subject: short(change)}).std > target) == is_uneven, change.sentence
    assert changes_of("unload_decisions", row, Context([row, *rows[1:]])) == [] or len(set(loads)) == 1


# Bundles


@given(cluster=clusters(), data=st.data())
def test_a_bundle_goes_or_stays_by_the_throughput_that_is_named(cluster: Cluster, data: st.DataObject) -> None:
    settings = cluster.settings.with_values(
        {"loadBalancerHistoryResourcePercentage": 1.0, "lowerBoundarySheddingEnabled": False}
    )
    usage = {broker: data.draw(fractions) for broker in sorted(cluster.load.brokers)}

    def decided(load: LoadData) -> list[Row]:
        made = threshold_shedder.shed(load, {threshold_shedder.USAGE_AVERAGE: usage}, settings)
        return rows_of(made.considered, "ThresholdShedder")

    for row, change in told("unload_decisions", decided(cluster.load)):
        if row["subject_kind"] != "bundle":
            continue
        history = cluster.load.histories[row["subject"]]
        found = {}
        for where, value in (("beyond", beyond(change)), ("short", short(change))):
            short_term = replace(history.short_term, msg_throughput_in=value, msg_throughput_out=0.0)
            histories = {**cluster.load.histories, row["subject"]: replace(history, short_term=short_term)}
            found[where] = row_about(decided(replace(cluster.load, histories=histories)), row)["outcome"]
        other = {"unload": "kept", "kept": "unload"}[row["outcome"]]
        assert found == {"beyond": other, "short": row["outcome"]}, change.sentence


@given(
    throughputs=st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, 20.0]), min_size=2, max_size=7),
    wanted=st.sampled_from([0.5, 3.0, 6.0, 22.0, 100.0]),
)
def test_each_bundle_of_a_broker_goes_or_stays_by_its_own_throughput(throughputs: list[float], wanted: float) -> None:
    names = [f"t/n/0x{n:08x}_0x{n + 1:08x}" for n in range(len(throughputs))]
    report = BrokerReport("b1:8080", bundles=frozenset(names))

    def decided(carried: dict[str, float]) -> list[Row]:
        histories = {name: updated(None, BundleStats(msg_throughput_in=value)) for name, value in carried.items()}
        load = LoadData(brokers={"b1:8080": report}, histories=histories)
        return rows_of(take_until_reached(report, load, Eligible(load), wanted, {}).considered, "ThresholdShedder")

    carried = dict(zip(names, throughputs, strict=True))
    for row, change in told("unload_decisions", decided(carried)):
        other = {"unload": "kept", "kept": "unload"}[row["outcome"]]
        after = row_about(decided({**carried, change.subject: beyond(change)}), row)["outcome"]
        same = row_about(decided({**carried, change.subject: max(0.0, short(change))}), row)["outcome"]
        assert (after, same) == (other, row["outcome"]), change.sentence


# Splits


@given(cluster=clusters())
def test_a_bundle_is_over_a_limit_or_not_by_the_figure_that_is_named(cluster: Cluster) -> None:
    settings = cluster.settings.with_values({"loadBalancerNamespaceBundleMaxSessions": 1_000})
    values = {key: settings.values()[key] for key in SETTINGS}
    counts = {namespace: len(bounds) - 1 for namespace, bounds in cluster.boundaries.items()}

    def decided(load: LoadData) -> list[Row]:
        return rows_of(decide_splits(load.brokers, load.histories, counts, settings).considered, "BundleSplitterTask")

    for row, change in told("split_decisions", decided(cluster.load), values):
        if row["rule"] == "maximum_bundles":
            continue
        whole = change.figure in ("topics", "sessions")
        value = change.needed + (1.0 if whole else 1e-3) * change.is_strict
        after = row_about(decided(with_figure(cluster.load, row, change.figure, value)), row)
        if row["rule"] == "below_limits":
            assert after["outcome"] in ("split", "refused"), change.sentence
            same = row_about(decided(with_figure(cluster.load, row, change.figure, change.needed)), row)
            assert same["rule"] == "below_limits"
        elif row["rule"] == "too_few_topics":
            assert after["rule"] != "too_few_topics"
        elif "no limit" in change.effect:
            assert after["rule"] == "below_limits", change.sentence
        else:
            assert after["rule"] != "below_limits", change.sentence


def with_figure(load: LoadData, row: Row, figure: str, value: float) -> LoadData:
    """The load with one figure of a bundle changed."""
    bundle, report = row["subject"], load.brokers[row["broker"]]
    stats, history = report.stats[bundle], load.histories.get(bundle)
    if figure == "topics":
        stats = stats._replace(topics=int(value))
    elif figure == "sessions":
        stats = stats._replace(consumers=int(value), producers=0)
    else:
        way = "msg_rate" if figure == "rate" else "msg_throughput"
        if history is None:
            history = updated(None, BundleStats())
        long_term = replace(history.long_term, **{f"{way}_in": value, f"{way}_out": 0.0})
        history = replace(history, long_term=long_term)
    report = replace(report, stats={**report.stats, bundle: stats})
    histories = load.histories if history is None else {**load.histories, bundle: history}
    return replace(load, brokers={**load.brokers, row["broker"]: report}, histories=histories)


# Placements


@given(cluster=clusters())
def test_a_bundle_goes_to_another_broker_by_the_rate_that_is_named(cluster: Cluster) -> None:
    settings = cluster.settings.with_values({"loadBalancerLoadPlacementStrategy": "LeastLongTermMessageRate"})
    for bundle in sorted(cluster.load.histories)[:4]:
        owner = owner_of(cluster, bundle)
        if owner is None:
            continue
        placed = PlacementRound(cluster.load, cluster.policies, settings).place_shed(bundle, owner)
        row = placement_row(placed, "shed", "LeastLongTermMessageRate", placed)
        for change in changes_of("placement_decisions", row, Context([row])):
            if change.figure != "long-term rate":
                continue
            for value, is_other in ((beyond(change), True), (short(change), False)):
                if value < 0 or (not is_other and change.by == 0):
                    continue
                averages = {**cluster.load.averages, change.subject: BrokerAverages(long_term_rate_in=value)}
                load = replace(cluster.load, averages=averages)
                again = PlacementRound(load, cluster.policies, settings).place_shed(bundle, owner)
                expected = change.effect.split(" ")[0].replace("it", change.subject)
                assert (again.destination == expected) == is_other, change.sentence


@given(usage=st.lists(fractions, min_size=1, max_size=6), difference=st.sampled_from([1.0, 10.0]))
def test_a_broker_is_well_below_the_mean_by_the_usage_that_is_named(usage: list[float], difference: float) -> None:
    key = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    settings = Settings().with_values({key: difference, "loadBalancerHistoryResourcePercentage": 0.0})

    def chosen(usage: dict[str, float]) -> least_usage.BelowMean:
        standing = {broker: BrokerFigures(value, 0.0, 0) for broker, value in usage.items()}
        return least_usage.select(usage, standing, {}, settings)

    brokers = {f"b{n}:8080": value for n, value in enumerate(usage)}
    best = chosen(brokers)
    scored = zip(best.candidates, best.usage, strict=True)
    row = {
        "outcome": "placed",
        "rule": "below_mean_usage" if best.below_mean else "near_mean_usage",
        "best": list(best.brokers),
        "numbers": {"mean_usage": best.mean, "candidates": len(best.candidates)},
        "candidates": [{"broker": broker, "removed_by": None, "score": figure} for broker, figure in scored],
        "changed_by_anti_affinity": False,
        "without_anti_affinity": None,
    }
    for change in changes_of("placement_decisions", row, Context((), {key: difference})):
        after = chosen({**brokers, change.subject: beyond(change)})
        assert after.below_mean, change.sentence
        assert change.subject in after.brokers, change.sentence
        same = chosen({**brokers, change.subject: short(change)})
        assert not (same.below_mean and change.subject in same.brokers), change.sentence


def test_without_all_rows_nothing_is_said_that_rests_on_them() -> None:
    row = {"subject": "b1:8080", "subject_kind": "broker", "outcome": "kept", "rule": "below_threshold",
           "setting": threshold_shedder.THRESHOLD_KEY, "measured": 0.2, "threshold": 0.3, "margin": -0.1,
           "broker": "b1:8080", "strategy": "ThresholdShedder", "numbers": {"mean_usage": 0.2},
           "unit": "fraction"}  # fmt: skip
    rows = [row, {**row, "subject": "b2:8080"}]
    assert changes_of("unload_decisions", row, Context(rows, is_complete=False)) == []
    (change,) = changes_of("unload_decisions", row, Context(rows))
    assert abs(change.by - 0.2) < EPSILON


# Guards


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (situation(unload(1), unload(2)), {"evenkeelMaxUnloadsPerCycle": 1}),
        (situation(unload(1), unload(2)), {"evenkeelMaxUnloadsFromBroker": 1}),
        (situation(unload(1), unload(2)), {"evenkeelMaxUnloadsToBroker": 1}),
        (situation(unload(1, traffic=90.0), unload(2, traffic=25.0)), {"evenkeelMaxMovedTrafficPercent": 10.0}),
        (situation(unload(1, traffic=300.0)), {"evenkeelMaxBundleTrafficPercent": 20.0}),
        (situation(split(1), split(2)), {"evenkeelMaxSplitsPerCycle": 1}),
        (situation(split(1, cuts=3)), {"loadBalancerNamespaceMaximumBundles": 17}),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_with_the_setting_that_is_named_the_guard_has_no_objection(
    found: Situation, settings: dict[str, float]
) -> None:
    (verdict,) = guarded(found, **settings).verdicts
    objection = verdict.objection
    row = {name: getattr(objection, name) for name in ("rule", "setting", "measured", "threshold", "unit")}
    (change,) = changes_of("guard_decisions", {**row, "outcome": verdict.outcome, "subject": "b"}, Context())
    shown = float(re.search(r" at ([\d.]+), ", change.sentence).group(1))
    assert shown >= change.needed - EPSILON
    value = shown if isinstance(settings[change.subject], float) else int(shown)
    assert (verdict.position, "held", objection.rule) not in rules(found, **{change.subject: value})
    assert (verdict.position, "held", objection.rule) in rules(found, **settings)
