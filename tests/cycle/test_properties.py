"""What must hold for any cluster. Not covered: names that Pulsar refuses (see test_bundles) and agreement with Pulsar
itself (the golden cases)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from devtools.conformance.leader_round import histories_after_splits
from evenkeel.model.averages import default_history
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.broker_filters import UnloadGates, unload_gates
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.placement import Placement
from evenkeel.place.strategy import PlacementState
from evenkeel.plan_splits.rules.apply_splits import SplitRound, carry_out
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan, decide_splits
from evenkeel.shed.schedule import SheddingRound, run_shedding
from evenkeel.shed.shedder import Shed
from evenkeel.shed.strategies import avg_shedder, overload_shedder, threshold_shedder, uniform_load_shedder
from tests.cycle.clusters import NOW, Cluster, clusters, holds, owner_of, shuffled
from tests.examples import reached, reaching


def split_plan(cluster: Cluster) -> SplitPlan:
    counts = {namespace: len(bounds) - 1 for namespace, bounds in cluster.boundaries.items()}
    return decide_splits(cluster.load.brokers, cluster.load.histories, counts, cluster.settings)


def placing(cluster: Cluster) -> PlacementRound:
    return PlacementRound(cluster.load, cluster.policies, cluster.settings)


def gates(cluster: Cluster) -> UnloadGates:
    return unload_gates(cluster.load, cluster.policies, cluster.settings)


def split_round(cluster: Cluster) -> SplitRound:
    return carry_out(split_plan(cluster), cluster.boundaries, {}, gates(cluster), cluster.settings)


def shed(cluster: Cluster) -> SheddingRound:
    return run_shedding(cluster.load, {}, gates(cluster), cluster.settings, now=NOW, last_shed_at=NOW - 120_000)


def strategies(cluster: Cluster) -> list[Shed]:
    return [*sparing_sole_bundles(cluster), avg_shedder.shed(cluster.load, {}, cluster.settings)]


def eager(cluster: Cluster, **more: int | float | str) -> Cluster:
    """The same cluster with settings that let AvgShedder and UniformLoadShedder act wherever they can."""
    least = {"minUnloadMessage": 0, "minUnloadMessageThroughput": 0, "maxUnloadPercentage": 1.0}
    hits = {"loadBalancerAvgShedderHitCountHighThreshold": 1, "loadBalancerAvgShedderHitCountLowThreshold": 1}
    return replace(cluster, settings=cluster.settings.with_values({**least, **hits, **more}))


def sparing_sole_bundles(cluster: Cluster) -> list[Shed]:
    shedders = (threshold_shedder.shed, overload_shedder.shed, uniform_load_shedder.shed)
    return [shedder(cluster.load, {}, cluster.settings) for shedder in shedders]


def outcomes_of(cluster: Cluster) -> list[Shed | SheddingRound]:
    return [shed(cluster), *strategies(cluster), *strategies(eager(cluster))]


def placements(cluster: Cluster) -> list[Placement]:
    """Of every owned bundle as if it were shed, and of every bundle without owner."""
    around = placing(cluster)
    owned = [(bundle, report.broker) for report in cluster.load.brokers.values() for bundle in report.bundles]
    moved = [around.place_shed(bundle, broker) for bundle, broker in sorted(owned)]
    return [*moved, *placing(cluster).place_ownerless(cluster.ownerless)]


def all_rows(cluster: Cluster) -> list[Considered]:
    rows = [*split_round(cluster).considered, *shed(cluster).considered]
    rows += [row for found in (*strategies(cluster), *strategies(eager(cluster))) for row in found.considered]
    return rows + [placement.considered for placement in placements(cluster)]


@reaching()
@given(cluster=clusters(lopsided=True), data=st.data())
def test_the_order_of_the_input_changes_nothing(cluster: Cluster, data: st.DataObject) -> None:
    other = shuffled(data, cluster)
    reached(any(found.unloads for found in outcomes_of(cluster)))
    assert split_round(other) == split_round(cluster)
    assert shed(other) == shed(cluster)
    assert strategies(other) == strategies(cluster)
    assert strategies(eager(other)) == strategies(eager(cluster))
    assert placements(other) == placements(cluster)


@reaching()
@given(cluster=clusters(lopsided=True))
def test_a_recently_unloaded_bundle_is_never_shed(cluster: Cluster) -> None:
    recent = cluster.load.recently_unloaded
    rested = replace(cluster, load=replace(cluster.load, recently_unloaded={}))
    reached(any(bundle in recent for found in outcomes_of(rested) for bundle, _ in found.unloads))
    for found in outcomes_of(cluster):
        assert not {bundle for bundle, _ in found.unloads} & cluster.load.recently_unloaded.keys()


@reaching()
@given(cluster=clusters(lopsided=True))
def test_a_sole_bundle_is_never_shed(cluster: Cluster) -> None:
    """Also of the busiest broker, which gives one if it has two."""
    busiest = cluster.load.brokers["b1.eu:8080"]
    one = frozenset(sorted(busiest.bundles)[:1])
    brokers = {**cluster.load.brokers, busiest.broker: replace(busiest, bundles=one)}
    gives = {broker for found in sparing_sole_bundles(eager(cluster)) for _, broker in found.unloads}
    reached(busiest.broker in gives)
    cluster = replace(cluster, load=replace(cluster.load, brokers=brokers))
    for found in (*sparing_sole_bundles(cluster), *sparing_sole_bundles(eager(cluster))):
        assert all(len(cluster.load.brokers[broker].bundles) > 1 for _, broker in found.unloads)


@reaching()
@given(cluster=clusters(lopsided=True))
def test_pairs_move_no_more_than_the_share_of_their_difference_and_from_busy_to_idle(cluster: Cluster) -> None:
    cluster = eager(cluster, maxUnloadPercentage=0.7)
    found, load = avg_shedder.shed(cluster.load, {}, cluster.settings), cluster.load
    reached(bool(found.unloads))
    score = avg_shedder.scores(load, cluster.settings)
    assert found.destinations.keys() == {bundle for bundle, _ in found.unloads}
    moved: dict[tuple[str, str], list[str]] = {}
    for bundle, broker in found.unloads:
        moved.setdefault((broker, found.destinations[bundle]), []).append(bundle)
    assert len({broker for pair in moved for broker in pair}) == 2 * len(moved)
    for (busy, idle), bundles in moved.items():
        assert score[busy] - score[idle] >= cluster.settings.loadBalancerAvgShedderLowThreshold
        (row,) = (row for row in found.considered if row.subject == busy)
        measure = row.rule.removeprefix("lasting_difference_in_")
        traffic = [getattr(load.histories[bundle].short_term, measure) for bundle in bundles]
        difference = getattr(load.brokers[busy], measure) - getattr(load.brokers[idle], measure)
        assert min(traffic) > 0
        assert sum(traffic) <= difference * cluster.settings.maxUnloadPercentage * (1 + 1e-12)


@reaching()
@given(cluster=clusters(lopsided=True))
def test_only_the_busiest_broker_of_all_sheds_uniformly_and_within_its_bounds(cluster: Cluster) -> None:
    cluster = eager(cluster)
    found, settings = uniform_load_shedder.shed(cluster.load, {}, cluster.settings), cluster.settings
    reached(bool(found.unloads))
    assert len({broker for _, broker in found.unloads}) <= 1
    assert settings.maxUnloadBundleNumPerShedding in (-1, len(found.unloads)) or not found.unloads
    for _, broker in found.unloads:
        report, others = cluster.load.brokers[broker], cluster.load.brokers.values()
        assert report.rate == max(r.rate for r in others) or report.throughput == max(r.throughput for r in others)


@reaching()
@given(cluster=clusters(lopsided=True), generation=st.sampled_from(["4.x", "5.0"]))
def test_a_plan_is_kept_while_the_planned_broker_is_a_candidate(cluster: Cluster, generation: str) -> None:
    """With different averages for every bundle, so that no plan stands for two of them, and none placed in turns."""
    names = {"loadBalancerLoadPlacementStrategy": "AvgShedder", "loadBalancerLoadSheddingStrategy": "AvgShedder"}
    limits = {"loadBalancerBrokerOverloadedThresholdPercentage": 100, "evenkeelPulsarVersion": generation}
    settings = eager(cluster, **names, **limits).settings
    settings = settings.with_values({"loadBalancerSheddingExcludedNamespaces": frozenset()})
    bundles = sorted({bundle for report in cluster.load.brokers.values() for bundle in report.bundles})
    known = {bundle: cluster.load.histories.get(bundle, default_history()) for bundle in bundles}
    histories = {bundle: replace(known[bundle], topics=n) for n, bundle in enumerate(bundles, start=1)}
    load = replace(cluster.load, histories=histories)
    found = avg_shedder.shed(load, {}, settings)
    reached(bool(found.unloads))
    placing = PlacementRound(load, cluster.policies, settings)
    placing.plan(found.destinations)
    for bundle, broker in found.unloads:
        placed, planned = placing.place_shed(bundle, broker), found.destinations[bundle]
        removed = {a.name for a in placed.candidates if a.verdict == "removed"}
        assert (placed.destination == planned) == (planned not in removed)


@reaching()
@given(cluster=clusters(lopsided=True))
def test_only_bundles_of_the_broker_they_leave_are_shed_and_each_once(cluster: Cluster) -> None:
    reached(any(found.unloads for found in outcomes_of(cluster)))
    for found in outcomes_of(cluster):
        assert all(owner_of(cluster, bundle) == broker for bundle, broker in found.unloads)
        assert len({bundle for bundle, _ in found.unloads}) == len(found.unloads)


@reaching()
@given(cluster=clusters())
def test_nothing_is_placed_on_a_broker_that_a_filter_removed(cluster: Cluster) -> None:
    found = placements(cluster)
    reached(any(p.destination and any(a.verdict == "removed" for a in p.candidates) for p in found))
    for placement in found:
        removed = {a.name for a in placement.candidates if a.verdict == "removed"}
        assert not removed & set(placement.best)
        assert placement.destination is None or placement.destination in placement.best
        assert placement.destination is None or placement.destination in cluster.load.brokers


@reaching()
@given(cluster=clusters())
def test_every_broker_is_accounted_for_in_a_placement(cluster: Cluster) -> None:
    found = placements(cluster)
    reached(any(a.verdict == "removed" for placement in found for a in placement.candidates))
    for placement in found:
        assert sorted(a.name for a in placement.candidates) == sorted(cluster.load.brokers)


@reaching()
@given(cluster=clusters())
def test_isolation_holds_whatever_other_filters_were_undone(cluster: Cluster) -> None:
    isolated = "p" in cluster.policies.isolation
    found = placements(cluster)
    reached(isolated and any(placement.destination for placement in found))
    for placement in found:
        if placement.destination is None or not isolated:
            continue
        inside = placement.destination.split(".")[0] in ("b1", "b2", "b3")
        assert inside if placement.bundle.startswith("t/n0/") else placement.destination[:2] not in ("b1", "b2")


@reaching()
@given(cluster=clusters())
def test_a_draining_broker_gets_no_bundle_and_is_named_as_draining(cluster: Cluster) -> None:
    draining = cluster.settings.evenkeelDrainingBrokers & cluster.load.brokers.keys()
    found = placements(cluster)
    reached(bool(draining and found))
    for placement in found:
        assert placement.destination not in draining
        assert {a.name for a in placement.candidates if a.rule == "draining"} == draining


@reaching()
@given(cluster=clusters())
def test_what_placement_remembers_can_be_handed_on_at_any_point(cluster: Cluster) -> None:
    whole = placing(cluster)
    bundles = sorted(cluster.ownerless)
    reached(len(bundles) > 1)
    for bundle in bundles:
        whole.place_shed(bundle, "nobody:1")
    state: PlacementState = {}
    for bundle in bundles:
        once = PlacementRound(cluster.load, cluster.policies, cluster.settings, state=state)
        once.place_shed(bundle, "nobody:1")
        state = once.state
    assert {name: dict(values) for name, values in whole.state.items()} == state


@reaching()
@given(cluster=clusters(lopsided=True))
def test_bundles_placed_in_one_round_count_for_those_after_them(cluster: Cluster) -> None:
    settings = cluster.settings.with_values({"loadBalancerDistributeBundlesEvenlyEnabled": True})
    busiest = cluster.load.brokers["b1.eu:8080"]
    brokers = {**cluster.load.brokers, busiest.broker: replace(busiest, bundles=frozenset())}
    load, ownerless = replace(cluster.load, brokers=brokers), tuple(sorted(busiest.bundles))
    plain = Cluster(load, type(cluster.policies)(), cluster.boundaries, ownerless, settings)
    found = PlacementRound(plain.load, plain.policies, settings).place_ownerless(plain.ownerless)
    reached(len(found) > 1)
    again = PlacementRound(plain.load, plain.policies, settings)
    for placement in found:
        assert again.assign(placement.bundle).destination == placement.destination
        assert again.assign(placement.bundle).destination == placement.destination


@reaching()
@given(cluster=clusters(lopsided=True))
def test_measured_against_threshold_reproduces_the_outcome(cluster: Cluster) -> None:
    rows = all_rows(cluster)
    reached(any(row.outcome == "unload" and row.by.holds and row.margin is not None for row in rows))
    for row in rows:
        if row.measured is None or row.threshold is None:
            assert row.margin is None
            continue
        assert row.margin == row.measured - row.threshold
        assert holds(row), row
        if row.rule == "heaviest_first":
            assert row.measured < row.threshold or row.numbers["rank"] == 1, row


@reaching()
@given(cluster=clusters(lopsided=True))
def test_the_rows_say_what_was_decided_no_more_and_no_less(cluster: Cluster) -> None:
    splits = split_round(cluster)
    assert {r.subject for r in splits.considered if r.outcome == "split"} == {s.bundle for s in splits.splits}
    plain: list[Shed | SheddingRound] = [shed(cluster), *strategies(cluster)]
    reached(bool(splits.splits) or any(found.unloads for found in plain))
    for found in plain:
        rows = [(r.subject, r.broker) for r in found.considered if r.subject_kind == "bundle" and r.outcome == "unload"]
        assert sorted(rows) == sorted(found.unloads)


@given(cluster=clusters())
def test_every_subject_is_considered_once(cluster: Cluster) -> None:
    reported = sorted(bundle for report in cluster.load.brokers.values() for bundle in report.stats)
    plan = split_plan(cluster)
    if len(cluster.load.brokers) > 1:
        assert [row.subject for row in sorted(plan.considered, key=lambda row: row.subject)] == reported
    for found in strategies(cluster):
        subjects = [(row.subject_kind, row.subject) for row in found.considered]
        assert len(subjects) == len(set(subjects))
        brokers = {subject for kind, subject in subjects if kind == "broker"}
        assert brokers == cluster.load.brokers.keys() or ("cluster", "cluster") in subjects


@given(cluster=clusters())
def test_every_verdict_has_a_sentence(cluster: Cluster) -> None:
    for row in all_rows(cluster):
        text = row.sentence()
        assert text.endswith(".")
        assert "None" not in text
        assert "unknown figure" not in text


@reaching()
@given(cluster=clusters(lopsided=True))
def test_a_bundle_is_not_split_and_unloaded_in_the_same_cycle(cluster: Cluster) -> None:
    cluster = eager(cluster, loadBalancerNamespaceMaximumBundles=128)
    plan = split_plan(cluster)
    histories = histories_after_splits(cluster.load.histories, plan, cluster.boundaries)
    after = Cluster(
        load=type(cluster.load)(cluster.load.brokers, histories, cluster.load.recently_unloaded),
        policies=cluster.policies,
        boundaries=cluster.boundaries,
        ownerless=cluster.ownerless,
        settings=cluster.settings,
    )
    split = {s.bundle for s in split_round(cluster).splits}
    reached(bool(split & {bundle for found in outcomes_of(cluster) for bundle, _ in found.unloads}))
    assert not split & {bundle for found in outcomes_of(after) for bundle, _ in found.unloads}
