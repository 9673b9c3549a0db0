"""Input as it should not be: figures that are not finite numbers, clusters of nobody, of one, of a thousand equal ones.

What is decided then is Pulsar's own (`tests/golden/bad_input.jsonl.gz`); here it is held that every rule copes, that
no row carries a figure that is none, and that what cannot be decided on is refused by name.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from evenkeel.errors import BadName, BadRange, SettingsError
from evenkeel.model.averages import broker_averages, updated
from evenkeel.model.bundles import BundleRange, bundle_name, initial_boundaries, ranges_of
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import (
    BrokerLoadData,
    BrokerReport,
    BundleStats,
    ExtensibleLoad,
    LoadData,
    Policies,
    ResourceUsage,
    TopBundle,
)
from evenkeel.model.split_algorithms.split_option import BundleTopics, TopicLoads
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.strategies import MODULAR as PLACEMENTS
from evenkeel.plan_splits.rules import default_namespace_bundle_split_strategy as extensible_splits
from evenkeel.plan_splits.rules.apply_splits import SplitRound, carry_out
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan, decide_splits
from evenkeel.settings import Settings
from evenkeel.shed.schedule import TransferRound, run_transfers
from evenkeel.shed.shedder import Shed
from evenkeel.shed.strategies import MODULAR as SHEDDERS
from evenkeel.shed.strategies import shedder_named
from evenkeel.shed.strategies.transfer_shedder import TransferState

NOW = 1_700_000_000_000
MIB = 1_048_576.0
NAN = math.nan
MANAGER = "ExtensibleLoadManagerImpl"
BAD = pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf, 1e308, -1.0], ids=str)
# Every shedder acts at once here, whatever there is to gain.
EAGER = Settings().with_values(
    {
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.0,
        "lowerBoundarySheddingEnabled": True,
        "minUnloadMessage": 0,
        "maxUnloadPercentage": 1.0,
    }
)
EAGER_EXTENSIBLE = Settings().with_values(
    {
        "loadManagerClassName": MANAGER,
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0,
    }
)
WHOLE = ("0x00000000_0xffffffff",)
QUARTERS = tuple(map(str, ranges_of(initial_boundaries(4))))


def of_broker(number: int) -> str:
    return f"b{number:04}.eu:8080"


def bundles_of(number: int, ranges: Iterable[str] = QUARTERS) -> list[str]:
    return [bundle_name(f"t/n{number:04}", found) for found in ranges]


def figures(rate: float, throughput: float, topics: int = 4) -> BundleStats:
    return BundleStats(topics=topics, msg_rate_in=rate, msg_throughput_in=throughput)


BUSY = figures(9_000.0, 40 * MIB)


def report_of(number: int, cpu: ResourceUsage, stats: Mapping[str, BundleStats]) -> BrokerReport:
    return BrokerReport(
        of_broker(number),
        cpu=cpu,
        msg_rate_in=sum(one.msg_rate_in for one in stats.values()),
        msg_throughput_in=sum(one.msg_throughput_in for one in stats.values()),
        bundles=frozenset(stats),
        stats=stats,
    )


def load_of(*reports: BrokerReport) -> LoadData:
    stats = {bundle: one for report in reports for bundle, one in report.stats.items()}
    histories = {bundle: updated(None, one) for bundle, one in stats.items()}
    averages = {report.broker: broker_averages(report.bundles, histories) for report in reports}
    return LoadData({report.broker: report for report in reports}, histories, averages=averages)


def uneven() -> LoadData:
    """Three brokers; the first one has all the traffic and is nearly full."""
    idle = figures(1.0, 1.0)
    return load_of(
        report_of(1, ResourceUsage(95.0, 100.0), dict.fromkeys(bundles_of(1), BUSY)),
        report_of(2, ResourceUsage(30.0, 100.0), dict.fromkeys(bundles_of(2), idle)),
        report_of(3, ResourceUsage(5.0, 100.0), dict.fromkeys(bundles_of(3), idle)),
    )


def with_report(load: LoadData, number: int, **changes: object) -> LoadData:
    name = of_broker(number)
    return replace(load, brokers={**load.brokers, name: replace(load.brokers[name], **changes)})


def spoilt(bad: float) -> dict[str, LoadData]:
    """The uneven cluster with the bad figure in one place after the other, and everywhere."""
    load, busy = uneven(), bundles_of(1)
    history = updated(None, figures(bad, bad))
    everywhere = load_of(
        *(report_of(n, ResourceUsage(bad, bad), dict.fromkeys(bundles_of(n), figures(bad, bad))) for n in range(1, 4))
    )
    return {
        "usage": with_report(load, 1, cpu=ResourceUsage(bad, 100.0)),
        "limit": with_report(load, 2, cpu=ResourceUsage(30.0, bad)),
        "rate": with_report(load, 1, msg_rate_in=bad),
        "throughput": with_report(load, 2, msg_throughput_in=bad),
        "bundle": replace(load, histories={**load.histories, busy[1]: history}),
        "stats": with_report(load, 1, stats={**load.brokers[of_broker(1)].stats, busy[2]: figures(bad, bad)}),
        "everywhere": everywhere,
    }


def extensible_of(load: LoadData) -> ExtensibleLoad:
    """The same cluster under the extensible manager, with its figures as they are."""
    reports = load.brokers.items()
    return ExtensibleLoad(
        brokers={name: BrokerReport(name, version="4.2.4", load_manager=MANAGER) for name in load.brokers},
        loads={
            name: BrokerLoadData(
                weighted_max_ema=one.cpu.usage / 100.0 if one.cpu.limit else 0.0,
                msg_throughput_ema=one.throughput,
                msg_throughput_in=one.msg_throughput_in,
                msg_throughput_out=one.msg_throughput_out,
                updated_at=NOW,
            )
            for name, one in reports
        },
        top_bundles={name: tuple(TopBundle(b, s) for b, s in sorted(one.stats.items())) for name, one in reports},
    )


def transfers(load: ExtensibleLoad, settings: Settings = EAGER_EXTENSIBLE) -> TransferRound:
    return run_transfers(load, TransferState(), Policies(), {}, settings, now=NOW, last_shed_at=None)


def shed(name: str, load: LoadData) -> Shed:
    return shedder_named(name).shed(load, {}, EAGER)


def placing(load: LoadData, strategy: str, settings: Settings = EAGER) -> PlacementRound:
    shedder = "AvgShedder" if strategy == "AvgShedder" else "ThresholdShedder"
    keys = {"loadBalancerLoadPlacementStrategy": strategy, "loadBalancerLoadSheddingStrategy": shedder}
    return PlacementRound(load, Policies(), settings.with_values(keys))


def extensible_placing(load: ExtensibleLoad) -> ExtensiblePlacementRound:
    return ExtensiblePlacementRound(load, Policies(), {}, EAGER_EXTENSIBLE)


def modular_splits(load: LoadData, settings: Settings = EAGER) -> SplitPlan:
    return decide_splits(load.brokers, load.histories, {}, settings)


def splits_by_brokers(load: LoadData) -> extensible_splits.ExtensibleSplits:
    return extensible_splits.decide_splits(load.brokers, {}, extensible_splits.View(), EAGER_EXTENSIBLE)


def are_fit_to_be_read(rows: Iterable[Considered]) -> None:
    """No figure of any row is not-a-number or infinite, and its sentence can be said."""
    for row in rows:
        told = [row.measured, row.threshold, row.margin, *row.numbers.values()]
        told += [other.measured for other in row.alternatives]
        assert all(figure is None or math.isfinite(figure) for figure in told), row
        assert not {"nan", "inf", "-inf"} & set(row.sentence().replace(",", " ").split())


@BAD
@pytest.mark.parametrize("name", SHEDDERS)
def test_a_shedder_takes_any_figure_and_shows_none_that_is_no_number(name: str, bad: float) -> None:
    for load in spoilt(bad).values():
        found = shed(name, load)
        assert {row.subject for row in found.considered} >= {bundle for bundle, _ in found.unloads}
        are_fit_to_be_read(found.considered)


@pytest.mark.parametrize("name", SHEDDERS)
def test_with_figures_that_are_none_the_order_of_the_input_still_changes_nothing(name: str) -> None:
    for load in spoilt(NAN).values():
        backwards = replace(
            load, brokers=dict(reversed(load.brokers.items())), histories=dict(reversed(load.histories.items()))
        )
        there, back = shed(name, load), shed(name, backwards)
        assert (there.unloads, there.considered) == (back.unloads, back.considered)


def test_a_bundle_whose_traffic_is_not_a_number_counts_as_the_heaviest() -> None:
    assert shed("OverloadShedder", spoilt(NAN)["bundle"]).unloads == ((bundles_of(1)[1], of_broker(1)),)


def test_a_rate_that_is_not_a_number_leaves_throughput_to_be_compared() -> None:
    load = uneven()
    for number in (1, 2, 3):
        load = with_report(load, number, msg_rate_in=NAN)
    assert shed("UniformLoadShedder", load).unloads
    nothing = with_report(with_report(with_report(load, 1, msg_throughput_in=NAN), 2, msg_throughput_in=NAN), 3,
                          msg_throughput_in=NAN)  # fmt: skip
    assert [row.rule for row in shed("UniformLoadShedder", nothing).considered] == ["no_traffic_at_all"]


@BAD
def test_transfers_take_any_figure_and_show_none_that_is_no_number(bad: float) -> None:
    for load in spoilt(bad).values():
        for debug in (False, True):
            settings = EAGER_EXTENSIBLE.with_values({"loadBalancerDebugModeEnabled": debug})
            are_fit_to_be_read(transfers(extensible_of(load), settings).considered)


@BAD
@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_a_bundle_finds_a_broker_whatever_the_figures(strategy: str, bad: float) -> None:
    for load in spoilt(bad).values():
        placed = placing(load, strategy).place_ownerless(bundles_of(9))
        assert all(one.destination in load.brokers for one in placed)
        are_fit_to_be_read(one.considered for one in placed)


@BAD
def test_a_bundle_finds_a_broker_under_the_extensible_manager_whatever_the_figures(bad: float) -> None:
    for load in spoilt(bad).values():
        placed = extensible_placing(extensible_of(load)).place(bundles_of(9))
        assert all(one.destination in load.brokers for one in placed)
        are_fit_to_be_read(one.considered for one in placed)


def test_a_score_that_is_not_a_number_is_never_the_least() -> None:
    load = uneven()
    unknown = {of_broker(3): replace(load.averages[of_broker(3)], long_term_rate_in=NAN)}
    (placed,) = placing(
        replace(load, averages={**load.averages, **unknown}), "LeastLongTermMessageRate"
    ).place_ownerless(bundles_of(9, WHOLE))
    assert placed.destination == of_broker(2)


@BAD
def test_both_split_rules_take_any_figure(bad: float) -> None:
    for load in spoilt(bad).values():
        are_fit_to_be_read(modular_splits(load).considered)
        are_fit_to_be_read(splits_by_brokers(load).considered)


@pytest.mark.parametrize("name", SHEDDERS)
def test_usage_of_a_resource_without_limit_counts_as_none(name: str) -> None:
    full = ResourceUsage(95.0, 0.0)
    load = load_of(*(report_of(n, full, dict.fromkeys(bundles_of(n), BUSY)) for n in (1, 2, 3)))
    found = shed(name, load)
    assert found.unloads == ()
    are_fit_to_be_read(found.considered)


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_a_broker_without_a_report_of_anything_is_a_place_to_go(strategy: str) -> None:
    load = uneven()
    silent = replace(load, brokers={**load.brokers, of_broker(0): BrokerReport(of_broker(0))})
    placed = placing(silent, strategy).assign(bundle_name("t/new", WHOLE[0]))
    assert placed.destination == of_broker(0)
    are_fit_to_be_read([placed.considered])


def test_a_broker_without_a_report_receives_from_the_busiest_one_by_every_shedder() -> None:
    load = load_of(report_of(1, ResourceUsage(95.0, 100.0), dict.fromkeys(bundles_of(1), BUSY)))
    silent = replace(load, brokers={**load.brokers, of_broker(2): BrokerReport(of_broker(2))})
    for name in SHEDDERS:
        found = shed(name, silent)
        assert {broker for _, broker in found.unloads} == {of_broker(1)}, name
        are_fit_to_be_read(found.considered)


@pytest.mark.parametrize(
    ("name", "unloaded"),
    [("OverloadShedder", 4), ("ThresholdShedder", 4), ("UniformLoadShedder", 4), ("AvgShedder", 0)],
)
def test_bundles_without_topics_and_traffic_are_shed_by_those_who_count_only_up_to_an_amount(
    name: str, unloaded: int
) -> None:
    load, empty = uneven(), updated(None, BundleStats())
    found = shed(name, replace(load, histories=dict.fromkeys(load.histories, empty)))
    assert len(found.unloads) == unloaded
    are_fit_to_be_read(found.considered)


def test_bundles_without_topics_and_traffic_are_neither_split_nor_transferred() -> None:
    bundles = [dict.fromkeys(bundles_of(n), BundleStats()) for n in (1, 2)]
    load = load_of(*(report_of(n, ResourceUsage(90.0, 100.0), bundles[n - 1]) for n in (1, 2)))
    assert {row.rule for row in modular_splits(load).considered} == {"too_few_topics"}
    assert {row.rule for row in splits_by_brokers(load).considered} == {"too_few_topics"}
    found = extensible_of(with_report(load, 2, cpu=ResourceUsage(0.0, 100.0)))
    made = transfers(found)
    assert (made.transfers, made.notes) == ((), ("Skip:NoBundles",))
    are_fit_to_be_read(made.considered)


def test_without_brokers_there_is_nothing_to_decide() -> None:
    nobody = LoadData({})
    for name in SHEDDERS:
        assert shed(name, nobody).unloads == ()
        are_fit_to_be_read(shed(name, nobody).considered)
    for strategy in PLACEMENTS:
        (placed,) = placing(nobody, strategy).place_ownerless(bundles_of(1, WHOLE))
        assert (placed.destination, placed.considered.rule) == (None, "no_candidate")
    (placed,) = extensible_placing(extensible_of(nobody)).place(bundles_of(1, WHOLE))
    assert (placed.destination, placed.considered.rule) == (None, "no_candidate")
    assert transfers(extensible_of(nobody)).status == "too_few_brokers"
    assert [row.rule for row in modular_splits(nobody).considered] == ["too_few_brokers"]
    assert splits_by_brokers(nobody).considered == ()


def test_a_single_broker_gets_every_bundle_and_gives_none_but_where_overload_alone_counts() -> None:
    load = load_of(report_of(1, ResourceUsage(95.0, 100.0), dict.fromkeys(bundles_of(1), BUSY)))
    assert {name for name in SHEDDERS if shed(name, load).unloads} == {"OverloadShedder"}
    for strategy in PLACEMENTS:
        assert placing(load, strategy).assign(bundles_of(9)[0]).destination == of_broker(1)
    assert extensible_placing(extensible_of(load)).assign(bundles_of(9)[0]).destination == of_broker(1)


def a_thousand(cpu: float = 95.0) -> LoadData:
    stats = [dict.fromkeys(bundles_of(n), BUSY) for n in range(1_000)]
    return load_of(*(report_of(n, ResourceUsage(cpu, 100.0), one) for n, one in enumerate(stats)))


def test_among_a_thousand_equal_brokers_nobody_gives_but_for_overload_and_then_by_name() -> None:
    load = a_thousand()
    found = {name: shed(name, load).unloads for name in SHEDDERS}
    moved = transfers(extensible_of(load))
    assert found.pop("OverloadShedder") == tuple((bundles_of(n)[0], of_broker(n)) for n in range(1_000))
    assert set(found.values()) == {()}
    assert (moved.transfers, moved.notes) == ((), ("Skip:HitCount",))
    are_fit_to_be_read(moved.considered)


@pytest.mark.parametrize("strategy", [*PLACEMENTS, "extensible"])
def test_a_thousand_equal_brokers_are_told_apart_by_name(strategy: str) -> None:
    load = a_thousand(50.0)
    extensible = extensible_of(load)
    asked = [bundles_of(n, WHOLE)[0] for n in (7_001, 7_002, 7_003)]
    if strategy == "extensible":
        placed = [one.destination for one in extensible_placing(extensible).place(asked)]
    else:
        placed = [one.destination for one in placing(load, strategy).place_ownerless(asked)]
    one_by_one = strategy in ("RoundRobinBrokerSelector", "LeastLongTermMessageRate")
    assert placed == [of_broker(n if one_by_one else 0) for n in range(3)]


def test_a_thousand_equal_brokers_split_the_same_bundle_each() -> None:
    busy = figures(99_000.0, 40 * MIB)
    stats = [dict(zip(bundles_of(n), (busy, BUSY, BUSY, BUSY), strict=True)) for n in range(1_000)]
    load = load_of(*(report_of(n, ResourceUsage(95.0, 100.0), one) for n, one in enumerate(stats)))
    plan, made = modular_splits(load), splits_by_brokers(load)
    first = [bundles_of(n)[0] for n in range(1_000)]
    assert list(plan.splits) == [one.bundle for one in made.splits] == first


def test_a_bundle_of_a_namespace_that_nobody_knows_is_shed_and_placed_and_has_no_split_to_carry_out() -> None:
    load = uneven()
    assert shed("OverloadShedder", load).unloads[0][0] == bundles_of(1)[0]
    busy = dict.fromkeys(bundles_of(1), figures(99_000.0, 40 * MIB))
    plan = modular_splits(load_of(report_of(1, ResourceUsage(9.0, 100.0), busy), BrokerReport(of_broker(2))))
    assert sorted(plan.splits) == sorted(busy)
    made = carried_out(plan)
    assert made.splits == ()
    assert {row.rule for row in made.considered} == {"bundle_gone"}


def test_a_name_that_is_no_bundles_is_refused_and_named() -> None:
    load = load_of(report_of(1, ResourceUsage(95.0, 100.0), dict.fromkeys(["nonsense", "more"], BUSY)))
    for name in ("OverloadShedder", "AvgShedder"):
        with pytest.raises(BadName, match="'more' is not a bundle's name: expected tenant/namespace/0x"):
            shed(name, with_report_of_nobody(load))
    for strategy in PLACEMENTS:
        with pytest.raises(BadName, match="'nonsense' is not a bundle's name"):
            placing(uneven(), strategy).assign("nonsense")
    with pytest.raises(BadName, match="'nonsense' is not a bundle's name"):
        extensible_placing(extensible_of(uneven())).assign("nonsense")
    with pytest.raises(BadRange, match="'wide' is not a bundle range"):
        splits_by_brokers(load_of(report_of(1, ResourceUsage(), {"t/n/wide": figures(99_000.0, 1.0)})))


def with_report_of_nobody(load: LoadData) -> LoadData:
    return replace(load, brokers={**load.brokers, of_broker(2): BrokerReport(of_broker(2))})


def carried_out(plan: SplitPlan, topics: BundleTopics | None = None, algorithm: str | None = None) -> SplitRound:
    keys = {} if algorithm is None else {"defaultNamespaceBundleSplitAlgorithm": algorithm}
    gates = unload_gates(uneven(), Policies(), Settings())
    by_bundle = {} if topics is None else dict.fromkeys(plan.splits, topics)
    return carry_out(plan, {}, by_bundle, gates, Settings().with_values(keys))


@pytest.mark.parametrize(
    ("algorithm", "hashes"),
    [
        ("topic_count_equally_divide", (0, 0, 0)),  # the middle is the lower edge
        ("flow_or_qps_equally_divide", (7, 7, 7, 9)),  # two cuts right of topics that share a hash
        ("flow_or_qps_equally_divide", (0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFE)),  # a cut at the upper edge
    ],
)
def test_a_split_that_would_leave_a_child_empty_is_refused(algorithm: str, hashes: tuple[int, ...]) -> None:
    busy = {bundles_of(1, WHOLE)[0]: figures(99_000.0, 1.0)}
    plan = modular_splits(load_of(report_of(1, ResourceUsage(), busy), BrokerReport(of_broker(2))))
    loads = TopicLoads(hashes, [40_000.0] * len(hashes), [1.0] * len(hashes))
    made = carried_out(plan, BundleTopics(hashes, loads), algorithm)
    assert (made.splits, [row.rule for row in made.considered]) == ((), ["cut_outside_bundle"])
    are_fit_to_be_read(made.considered)


def test_a_bundle_of_width_1_is_left_alone_by_the_extensible_rule() -> None:
    busy = {bundle_name("t/n", BundleRange(7, 8)): figures(99_000.0, 1.0)}
    made = splits_by_brokers(load_of(report_of(1, ResourceUsage(), busy)))
    assert (made.splits, [row.rule for row in made.considered]) == ((), ["too_narrow"])


def test_a_shedder_of_the_other_manager_says_which_there_are() -> None:
    with pytest.raises(SettingsError, match=r"TransferShedder.*set it to OverloadShedder"):
        shedder_named("TransferShedder")
