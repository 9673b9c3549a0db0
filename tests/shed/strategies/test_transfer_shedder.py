"""TransferShedder: what must hold whatever the cluster, and its limits. Agreement with Pulsar: the golden cases."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import Alternative
from evenkeel.model.load import BrokerLoadData, BrokerReport, BundleStats, ExtensibleLoad, Policies, TopBundle
from evenkeel.settings import Settings
from evenkeel.shed.schedule import TransferRound, run_transfers
from evenkeel.shed.strategies.transfer_shedder import TransferState
from evenkeel.shed.strategies.transfer_shedder.conditions import not_below_zero, quotient, root
from tests.cycle.extensible_clusters import MANAGER, MIB, NOW, ExtensibleCluster, extensible_clusters, shuffled
from tests.examples import reached, reaching

AT_ONCE = Settings().with_values({"loadManagerClassName": MANAGER, "loadBalancerSheddingConditionHitCountThreshold": 0})
ABOVE = {"std_over_target", "load_over_mean", "outdated", "all_outdated"}
BELOW = {"load_under_mean", "throughput_under_highest", "cool_down"}


def cluster(*loads: float, throughput: float = 100 * MIB, age_ms: int = 0, bundles: int = 5) -> ExtensibleLoad:
    """Brokers b1, b2, … with these loads, each with equal bundles that make up its share of the throughput."""
    named = {f"b{n}:8080": load for n, load in enumerate(loads, start=1)}
    tops = {}
    for number, (broker, load) in enumerate(named.items()):
        share = BundleStats(msg_throughput_in=throughput * load / bundles if bundles else 0.0)
        tops[broker] = tuple(TopBundle(f"t/n{number}/0x{n:08x}_0x{n + 1:08x}", share) for n in range(bundles))
    return ExtensibleLoad(
        brokers={broker: BrokerReport(broker, load_manager=MANAGER) for broker in named},
        loads={b: BrokerLoadData(x, throughput * x, throughput * x, updated_at=NOW - age_ms) for b, x in named.items()},
        top_bundles=tops,
    )


def shed(
    load: ExtensibleLoad,
    settings: Settings = AT_ONCE,
    state: TransferState = TransferState(),  # noqa: B008 (frozen)
    last: int | None = None,
) -> TransferRound:
    return run_transfers(load, state, Policies(), {}, settings, now=NOW, last_shed_at=last)


def rule_of(made: TransferRound, subject: str = "cluster") -> str:
    (row,) = [row for row in made.considered if row.subject == subject]
    return row.rule


@reaching()
@given(found=extensible_clusters(lopsided=True), data=st.data())
def test_the_order_of_the_input_changes_nothing(found: ExtensibleCluster, data: st.DataObject) -> None:
    made = found.transfers()
    reached(bool(made.transfers))
    assert shuffled(data, found).transfers() == made


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_a_bundle_leaves_the_broker_that_has_it_for_another_one_and_only_once(found: ExtensibleCluster) -> None:
    made = found.transfers()
    reached(bool(made.transfers))
    for one in made.transfers:
        assert one.bundle in found.owners[one.source]
        assert one.destination != one.source
        assert (one.destination is not None) == found.settings.loadBalancerTransferEnabled
    assert len({one.bundle for one in made.transfers}) == len(made.transfers)


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_bundles_that_may_not_leave_stay(found: ExtensibleCluster) -> None:
    settings, load = found.settings, found.load
    free = found.transfers().transfers
    reached(bool(free))
    gone = frozenset(one.bundle for one in free)
    wished = replace(found, load=replace(load, wished=load.wished | gone))
    assert not gone & {one.bundle for one in wished.transfers().transfers}
    for one in free:
        busiest = max(
            load.loads[one.source].weighted_max_ema, load.loads[one.destination or one.source].weighted_max_ema
        )
        back = load.loads[one.source].weighted_max_ema < busiest
        assert one.bundle not in load.not_owned or back
        assert one.bundle not in load.recently_unloaded or back
        assert one.bundle not in load.wished
        assert namespace_of(one.bundle) not in settings.loadBalancerSheddingExcludedNamespaces
        if not settings.loadBalancerSheddingBundlesWithPoliciesEnabled:
            assert namespace_of(one.bundle) not in found.policies.groups
            assert not (namespace_of(one.bundle) == "t/n0" and found.policies.isolation)
        if one.destination is not None:
            assert load.brokers[one.destination].load_manager == MANAGER
            assert load.loads[one.destination].topics < 50_000


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_every_broker_that_gives_keeps_one_of_its_listed_bundles(found: ExtensibleCluster) -> None:
    made = found.transfers()
    reached(bool(made.transfers))
    gone = {one.bundle for one in made.transfers}
    for broker in {one.source for one in made.transfers}:
        listed = [one.bundle for one in found.load.top_bundles[broker]]
        received = any(one.destination == broker for one in made.transfers)
        assert received or set(listed) - gone


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_hits_count_rounds_in_a_row_and_start_anew_after_a_transfer(found: ExtensibleCluster) -> None:
    made = found.transfers()
    reached(bool(made.transfers))
    if made.transfers:
        assert made.state.hits == 0
        assert not made.notes
        assert found.state.hits >= found.settings.loadBalancerSheddingConditionHitCountThreshold
    else:
        assert made.state.hits in (0, found.state.hits, found.state.hits + 1)
        assert len(made.notes) == 1


@reaching()
@given(found=extensible_clusters(lopsided=True))
def test_rows_say_what_was_decided_and_each_subject_once(found: ExtensibleCluster) -> None:
    made = found.transfers()
    reached(bool(made.transfers))
    rows = [r for r in made.considered if r.subject_kind == "bundle" and r.outcome == "unload"]
    assert sorted((r.subject, r.broker) for r in rows) == sorted((one.bundle, one.source) for one in made.transfers)
    subjects = [(row.subject_kind, row.subject) for row in made.considered]
    assert len(subjects) == len(set(subjects))
    assert {name for kind, name in subjects if kind == "broker"} == found.load.brokers.keys()


@given(found=extensible_clusters())
def test_every_verdict_has_a_sentence_and_finite_figures_that_agree_with_it(found: ExtensibleCluster) -> None:
    for row in found.transfers().considered:
        text = row.sentence()
        assert text.endswith(".")
        assert "None" not in text
        assert "unknown figure" not in text
        assert all(math.isfinite(x) for x in (*row.numbers.values(), row.measured or 0.0, row.threshold or 0.0))
        if row.measured is None or row.threshold is None:
            continue
        if row.rule in ABOVE or row.rule == "too_heavy":
            assert row.measured > row.threshold, row
        elif row.rule in BELOW:
            assert row.measured < row.threshold, row
        elif row.rule in ("evenly_loaded", "hit_count"):
            assert row.measured <= row.threshold, row


def test_it_acts_in_the_fourth_round_in_a_row() -> None:
    settings = AT_ONCE.with_values({"loadBalancerSheddingConditionHitCountThreshold": 3})
    state = TransferState()
    for hits in (1, 2, 3):
        made = shed(cluster(0.9, 0.1), settings, state)
        state = made.state
        assert (made.transfers, made.notes, state.hits) == ((), ("Skip:HitCount",), hits)
        assert rule_of(made) == "hit_count"
    made = shed(cluster(0.9, 0.1), settings, state)
    assert {(one.source, one.destination, one.reason) for one in made.transfers} == {
        ("b1:8080", "b2:8080", "Overloaded")
    }
    assert made.state.hits == 0


def test_even_rounds_forget_the_hits_and_gated_ones_keep_them() -> None:
    assert shed(cluster(0.5, 0.5), state=TransferState(3)).state.hits == 0
    cooling = TransferState(3, {"b1:8080": NOW - 1})
    assert shed(cluster(0.9, 0.1), state=cooling).state == cooling


@pytest.mark.parametrize(("high", "acts"), [(0.75, False), (0.7501, True)])
def test_the_deviation_must_be_above_the_target(high: float, acts: bool) -> None:
    made = shed(cluster(high, 0.25))
    assert bool(made.transfers) is acts
    assert (rule_of(made) == "std_over_target") is acts


@pytest.mark.parametrize(("lowest", "rule"), [(0.01, "load_under_mean"), (0.2, "evenly_loaded")])
def test_a_broker_far_below_the_mean_calls_for_load(lowest: float, rule: str) -> None:
    made = shed(cluster(0.22, 0.20, lowest))
    assert rule_of(made) == rule
    assert {one.reason for one in made.transfers} <= {"Underloaded"}


def test_a_broker_with_little_traffic_calls_for_load_though_its_usage_is_even() -> None:
    load = cluster(0.22, 0.20, 0.19, bundles=20)
    most = load.loads["b1:8080"].msg_throughput_ema
    for share, rule in ((0.125, "evenly_loaded"), (0.1249, "throughput_under_highest")):
        quiet = replace(load.loads["b3:8080"], msg_throughput_ema=most * share)
        assert rule_of(shed(replace(load, loads={**load.loads, "b3:8080": quiet}))) == rule


@pytest.mark.parametrize(("loads", "rule"), [((0.9, 0.6, 0.4), "load_over_mean"), ((0.9, 0.7, 0.5), "evenly_loaded")])
def test_a_broker_must_be_over_the_threshold_and_far_over_the_mean(loads: tuple[float, ...], rule: str) -> None:
    assert rule_of(shed(cluster(*loads))) == rule


@pytest.mark.parametrize(
    ("loads", "carries", "cause"),
    [
        ((0.76, 0.24), 0.24, "loads deviate by 26.0 % from their mean of 50.0 %, and the target is 25.0 %."),
        ((0.22, 0.20, 0.01), 0.01, "b3:8080 at 1.0 % is below 1.8 %, a share of the mean load of 14.3 %."),
        (
            (0.22, 0.20, 0.19),
            0.022,
            "b3:8080 carries 2.2 MiB/s, less than 2.8 MiB/s, a share of what the busiest carries.",
        ),
        ((0.9, 0.6, 0.4), 0.4, "b1:8080 at 90.0 % is above 88.3 %, far over the mean load of 63.3 %."),
    ],
)
def test_the_rows_of_the_cluster_and_of_its_busiest_broker_say_what_called_for_the_transfer(
    loads: tuple[float, ...], carries: float, cause: str
) -> None:
    """`carries`: the traffic of the last broker, of 100 MiB/s."""
    load, last = cluster(*loads, bundles=20), f"b{len(loads)}:8080"
    quiet = replace(load.loads[last], msg_throughput_ema=carries * 100 * MIB)
    made = shed(replace(load, loads={**load.loads, last: quiet}))
    told = {row.subject: row.sentence() for row in made.considered}
    assert told["cluster"] == f"Load is evened out between 1 pair of brokers: {cause}"
    assert told["b1:8080"].startswith(f"b1:8080 at {100 * loads[0]:.1f} % gives ")
    assert told["b1:8080"].endswith(f" for {last}: {cause}")


@pytest.mark.parametrize(("elapsed_ms", "rule"), [(179_999, "cool_down"), (180_000, "std_over_target")])
def test_a_broker_cools_down_until_its_load_data_is_young_enough(elapsed_ms: int, rule: str) -> None:
    made = shed(cluster(0.9, 0.1), state=TransferState(0, {"b2:8080": NOW - elapsed_ms, "gone:8080": 1}))
    assert rule_of(made) == rule
    assert ("b2:8080" in made.state.recently_unloaded) is (rule == "cool_down")
    assert "gone:8080" in made.state.recently_unloaded
    assert (made.notes == ("Skip:CoolDown",)) is (rule == "cool_down")


@pytest.mark.parametrize(("age_ms", "note"), [(1_800_000, ()), (1_800_001, ("Skip:OutDatedData",))])
def test_old_load_data_does_not_count(age_ms: int, note: tuple[str, ...]) -> None:
    made = shed(cluster(0.9, 0.1, age_ms=age_ms))
    assert made.notes == note
    assert (made.mean is None) is bool(note)
    if note:
        assert {(row.rule, row.measured, row.threshold, row.unit) for row in made.considered} == {
            ("all_outdated", age_ms, 1_800_000, "ms"), ("outdated", age_ms, 1_800_000, "ms"),
        }  # fmt: skip


def test_a_receiver_that_a_filter_removed_is_shown_with_the_reason() -> None:
    load = cluster(0.9, 0.1)
    other = {**load.brokers, "b2:8080": replace(load.brokers["b2:8080"], load_manager="ModularLoadManagerImpl")}
    made = shed(replace(load, brokers=other))
    assert made.transfers == ()
    bundles = [row for row in made.considered if row.subject_kind == "bundle"]
    assert bundles
    assert {(row.rule, row.alternatives) for row in bundles} == {
        ("other_load_manager", (Alternative("b2:8080", "removed", "other_load_manager", 0.1),))
    }
    wished = replace(load, wished=frozenset(one.bundle for one in load.top_bundles["b1:8080"]))
    rows = [row for row in shed(wished).considered if row.rule == "wished"]
    assert {row.alternatives for row in rows} == {(Alternative("b2:8080", "removed", "wished", 0.1),)}
    kept = [row for row in shed(load).considered if row.rule == "too_heavy"]
    assert {row.alternatives for row in kept} == {()}


def test_one_available_broker_without_load_data_stops_the_round() -> None:
    load = cluster(0.9, 0.1, 0.5)
    silent = replace(load, loads={b: x for b, x in load.loads.items() if b != "b3:8080"})
    made = shed(silent)
    assert (made.notes, rule_of(made), rule_of(made, "b3:8080")) == (
        ("Skip:NoLoadData",),
        "load_data_missing",
        "no_load_data",
    )
    nobody = shed(replace(load, loads={}))
    assert (nobody.notes, rule_of(nobody)) == (("Skip:NoBrokers",), "no_load_data_at_all")
    gone = replace(silent, brokers={b: x for b, x in load.brokers.items() if b != "b3:8080"})
    assert shed(gone).transfers


def test_the_last_listed_bundle_never_goes_and_a_single_one_is_no_list() -> None:
    heavy = cluster(0.9, 0.1, bundles=2)
    light = heavy.top_bundles["b1:8080"][0]._replace(stats=BundleStats(msg_throughput_in=1.0))
    small = tuple(light._replace(bundle=one.bundle) for one in heavy.top_bundles["b1:8080"])
    made = shed(replace(heavy, top_bundles={"b1:8080": small}))
    assert [one.bundle for one in made.transfers] == [small[0].bundle]
    assert rule_of(made, small[1].bundle) == "last_of_top_bundles"
    sole = shed(cluster(0.9, 0.1, bundles=1))
    assert (sole.notes, rule_of(sole, "b1:8080")) == (("Skip:NoBundles",), "sole_top_bundle")
    none = shed(cluster(0.9, 0.1, bundles=0))
    assert (none.notes, rule_of(none, "b1:8080")) == (("Skip:NoLoadData",), "no_top_bundles")


def test_half_the_difference_goes_and_not_more() -> None:
    """0.8 of load on 10 equal bundles: half of the difference of 0.8 is 4/9 of the throughput."""
    load = cluster(0.9, 0.1, bundles=10)
    made = shed(replace(load, top_bundles={"b1:8080": load.top_bundles["b1:8080"]}))
    assert len(made.transfers) == 4
    first_left = next(row for row in made.considered if row.rule == "too_heavy")
    assert first_left.threshold == pytest.approx(40 * MIB)
    assert first_left.measured == pytest.approx(45 * MIB)


def listed(namespace: str, *weights: float) -> tuple[TopBundle, ...]:
    """Bundles of these MiB/s."""
    stats = [BundleStats(msg_throughput_in=weight * MIB) for weight in weights]
    return tuple(TopBundle(f"t/{namespace}/0x{n:08x}_0x{n + 1:08x}", one) for n, one in enumerate(stats))


def test_a_heavy_bundle_goes_in_exchange_for_lighter_ones() -> None:
    load = cluster(0.9, 0.1)
    load = replace(load, top_bundles={"b1:8080": listed("n0", 45, 45), "b2:8080": listed("n1", 5, 6)})
    made = shed(load)
    assert [(one.bundle[:4], one.source, one.destination) for one in made.transfers] == [
        ("t/n1", "b2:8080", "b1:8080"),
        ("t/n0", "b1:8080", "b2:8080"),
    ]
    assert {row.rule for row in made.considered if row.outcome == "unload"} >= {"with_swap", "swapped_back"}
    freeing = shed(load, AT_ONCE.with_values({"loadBalancerTransferEnabled": False}))
    assert freeing.transfers == ()
    as_much_as_the_giver_had = {"b1:8080": listed("n0", 85, 85), "b2:8080": listed("n1", 5, 40, 10)}
    made = shed(replace(load, top_bundles=as_much_as_the_giver_had))
    assert [one.bundle[-1] for one in made.transfers if one.source == "b2:8080"] == ["2", "3"], (
        "the first brings nothing"
    )


@pytest.mark.parametrize("debug", [True, False])
def test_bundles_that_came_back_count_in_the_next_exchange_in_debug_mode_alone(debug: bool) -> None:
    load = cluster(0.9, 0.1)
    load = replace(load, top_bundles={"b1:8080": listed("n0", 10, 45, 45, 60), "b2:8080": listed("n1", 20, 20, 20)})
    made = shed(load, AT_ONCE.with_values({"loadBalancerDebugModeEnabled": debug}))
    moved = [(one.bundle[2:4], int(one.bundle[-1])) for one in made.transfers]
    first = [("n0", 1), ("n1", 1), ("n0", 2)]
    assert moved == [*first, *([("n1", 2), ("n1", 3), ("n0", 3)] if debug else [])]


def test_a_bundle_that_a_wish_takes_away_is_no_half_of_a_swap() -> None:
    load = cluster(0.9, 0.1)
    given, back = listed("n0", 45, 46, 47), listed("n1", 5, 6)
    load = replace(load, top_bundles={"b1:8080": given, "b2:8080": back})
    assert {one.bundle for one in shed(load).transfers} == {given[0].bundle, back[0].bundle}
    without = shed(replace(load, wished=frozenset({given[0].bundle})))
    assert rule_of(without, given[0].bundle) == "wished"
    assert {one.bundle for one in without.transfers} == {given[1].bundle, *(one.bundle for one in back)}
    assert {one.bundle for one in shed(replace(load, wished=frozenset({back[0].bundle}))).transfers} == {
        given[0].bundle, back[1].bundle,
    }  # fmt: skip


@pytest.mark.parametrize("throughput", [1.0, 100 * MIB])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_pairs_than_allowed_are_evened_out(most: int, throughput: float) -> None:
    settings = AT_ONCE.with_values({"loadBalancerMaxNumberOfBrokerSheddingPerCycle": most})
    made = shed(cluster(0.95, 0.94, 0.93, 0.05, 0.04, 0.03, throughput=throughput), settings)
    assert len({one.source for one in made.transfers}) == most
    assert made.notes == (() if most else ("Skip:HitCount",))


def test_loads_that_are_equal_to_the_last_digit_have_no_deviation_and_move_nothing() -> None:
    """Three brokers at 0.1: Pulsar's deviation is the root of a negative number, and compares as false."""
    made = shed(cluster(0.1, 0.1, 0.1))
    assert made.std is not None
    assert math.isnan(made.std)
    assert made.transfers == ()
    row = made.considered[0]
    assert (row.rule, row.measured) == ("evenly_loaded", 0.0)


def test_the_frame_stops_a_round_like_any_shedding() -> None:
    assert shed(cluster(0.9, 0.1), AT_ONCE.with_values({"evenkeelSheddingEnabled": False})).status == "switched_off"
    assert shed(cluster(0.9)).status == "too_few_brokers"
    assert shed(cluster(0.9, 0.1), last=NOW - 59_999).status == "not_due"
    assert shed(cluster(0.9, 0.1), last=NOW - 60_000).status == "ran"
    load = cluster(0.9, 0.1)
    listed = [one.bundle for one in load.top_bundles["b1:8080"]]
    for age_ms, moved in ((1_800_000, False), (1_800_001, True)):
        recent = replace(load, recently_unloaded=dict.fromkeys(listed, NOW - age_ms))
        assert bool(shed(recent).transfers) is moved


def test_numbers_divide_and_root_as_in_java() -> None:
    assert quotient(1.0, 0.0) == math.inf
    assert quotient(-1.0, 0.0) == quotient(1.0, -0.0) == -math.inf
    assert math.isnan(quotient(0.0, 0.0))
    assert math.isnan(root(-1e-18))
    assert math.isnan(not_below_zero(math.nan))
    assert (quotient(1.0, 4.0), root(4.0), not_below_zero(-1.0), not_below_zero(2.0)) == (0.25, 2.0, 0.0, 2.0)
