"""The frame around shedding: switch, interval, brokers, grace period, gates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.model.consideration import PLANNED, Alternative
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import BrokerReport, IsolationPolicy, LoadData, Policies
from evenkeel.settings import Settings
from evenkeel.shed.round import planned_unloads
from evenkeel.shed.schedule import SheddingRound, due, run_shedding, within_grace
from evenkeel.shed.shedder import ShedderState
from evenkeel.shed.strategies import shedder_named
from evenkeel.shed.try_shedder import broker
from tests.shed.clusters import MIB, cluster

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOT, COLD = "b1:8080", "b2:8080"
BUNDLES = [f"t/{ns}/0x00000000_0xffffffff" for ns in ("heavy", "light", "lighter")]


def load(*, brokers: int = 2, recently_unloaded: dict[str, int] | None = None) -> LoadData:
    hot = broker(HOT, 95.0, dict(zip(BUNDLES, ((0.0, 60 * MIB), (0.0, 20 * MIB), (0.0, 10 * MIB)), strict=True)))
    return cluster(*[hot, broker(COLD, 5.0, {})][:brokers], recently_unloaded=recently_unloaded or {})


def shed(
    found: LoadData,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    policies: Policies = Policies(),  # noqa: B008 (frozen)
    last: datetime | None = None,
    state: ShedderState | None = None,
) -> SheddingRound:
    gates = unload_gates(found, policies, settings)
    return run_shedding(found, state or {}, gates, settings, now=NOON, last_shed_at=last)


def test_the_heaviest_bundle_leaves_a_broker_far_above_the_mean() -> None:
    found = shed(load())
    assert found.unloads == ((BUNDLES[0], HOT),)
    assert found.status == "ran"
    assert found.shed_at == int(NOON.timestamp() * 1000)
    assert found.state.keys() == {"usage_average"}
    assert found.state["usage_average"] == pytest.approx({HOT: 0.95, COLD: 0.05})


def test_a_round_inside_the_interval_is_not_due_and_leaves_the_state() -> None:
    state = {"usage_average": {HOT: 0.5, "gone:8080": 0.7}}
    last = NOON - timedelta(seconds=59)
    found = shed(load(), last=last, state=state)
    assert (found.status, found.unloads) == ("not_due", ())
    assert found.state == state
    assert found.shed_at == int(last.timestamp() * 1000)
    (row,) = found.considered
    assert (row.measured, row.threshold, row.setting) == (59_000, 60_000, "loadBalancerSheddingIntervalMinutes")
    assert row.sentence() == "Shedding is not due: the last round was 59 s ago, and the interval is 60 s."


def test_it_is_due_exactly_at_the_interval_and_the_first_time() -> None:
    settings = Settings()
    assert due(None, NOON, settings)
    assert due(NOON - timedelta(minutes=1), NOON, settings)
    assert not due(NOON - timedelta(milliseconds=59_999), NOON, settings)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(BadInput, match="no time zone"):
        due(datetime(2026, 11, 21), NOON, Settings())


def test_evenkeels_own_switch_stops_shedding_and_the_brokers_one_does_not() -> None:
    off = Settings().with_values({"evenkeelSheddingEnabled": False})
    assert shed(load(), off).status == "switched_off"
    theirs_off = Settings().with_values({"loadBalancerSheddingEnabled": False})
    assert shed(load(), theirs_off).unloads == ((BUNDLES[0], HOT),)


def test_a_single_broker_sheds_nothing() -> None:
    found = shed(load(brokers=1))
    assert (found.status, found.unloads) == ("too_few_brokers", ())


def test_a_bundle_within_the_grace_period_is_left_alone_and_the_next_one_goes() -> None:
    noon = int(NOON.timestamp() * 1000)
    found = shed(load(recently_unloaded={BUNDLES[0]: noon - 30 * 60_000}))
    assert found.unloads == ((BUNDLES[1], HOT), (BUNDLES[2], HOT))
    later = shed(load(recently_unloaded={BUNDLES[0]: noon - 30 * 60_000 - 1}))
    assert later.unloads == ((BUNDLES[0], HOT),)
    assert later.recently_unloaded == {}


def test_the_grace_period_forgets_what_is_older() -> None:
    noon = int(NOON.timestamp() * 1000)
    ages = {"new": noon, "edge": noon - 1_800_000, "old": noon - 1_800_001}
    assert within_grace(ages, NOON, Settings()) == {"new": noon, "edge": noon - 1_800_000}


def test_averages_of_brokers_that_are_gone_are_forgotten() -> None:
    assert set(shed(load(), state={"usage_average": {"gone:8080": 0.9}}).state["usage_average"]) == {HOT, COLD}


def test_avg_shedder_goes_on_counting_for_a_broker_that_is_gone() -> None:
    """Pulsar does not tell it; only a round without any differing pair forgets."""
    settings = Settings().with_values({"loadBalancerLoadSheddingStrategy": "AvgShedder"})
    hits = {"low_hits": {"gone:8080": 3.0}, "high_hits": {}}
    assert shed(load(), settings, state=hits).state["low_hits"] == {HOT: 1.0, COLD: 1.0, "gone:8080": 3.0}
    calm = settings.with_values({"loadBalancerAvgShedderLowThreshold": 91})
    assert shed(load(), calm, state=hits).state == {"low_hits": {}, "high_hits": {}}


def test_a_refused_proposal_keeps_its_numbers_and_is_not_replaced() -> None:
    settings = Settings().with_values({"loadBalancerSheddingExcludedNamespaces": frozenset(["t/heavy"])})
    found = shed(load(), settings)
    assert found.unloads == ()
    row = next(row for row in found.considered if row.subject == BUNDLES[0])
    assert (row.outcome, row.rule) == ("refused", "excluded_namespace")
    assert row.numbers["bundle_throughput"] == 60 * MIB
    proposed = next(row for row in shed(load()).considered if row.subject == BUNDLES[0])
    assert {other.verdict for other in proposed.alternatives} == {"next"}
    assert row.alternatives == ()


def test_a_refused_proposal_keeps_the_destination_that_avg_shedder_planned() -> None:
    settings = Settings().with_values(
        {
            "loadBalancerLoadSheddingStrategy": "AvgShedder",
            "loadBalancerSheddingExcludedNamespaces": frozenset(["t/heavy", "t/light", "t/lighter"]),
        }
    )
    hits = {"low_hits": {}, "high_hits": {HOT: 9.0, COLD: 9.0}}
    refused = [row for row in shed(load(), settings, state=hits).considered if row.outcome == "refused"]
    assert refused
    assert {row.alternatives for row in refused} == {(Alternative(COLD, "best", PLANNED),)}


def test_the_planners_moves_are_unloads_in_the_order_of_its_plan_after_the_cluster() -> None:
    of_targets = {"destination": COLD, "gain": 0.1, "cost": 1.0, "needs_split": False, "basis": "usage"}
    given = [
        {"subject": subject, "subject_kind": kind, "outcome": outcome, "position": position, **of_targets}
        for subject, kind, outcome, position in (
            ("a/late", "bundle", "unload", 2),
            ("b/later", "bundle", "planned", 3),
            ("a/first", "bundle", "unload", 1),
            ("lab", "cluster", "kept", None),
            ("b1", "broker", "kept", None),
        )
    ]
    found = planned_unloads({"planner_targets": given})
    assert [row["subject"] for row in found] == ["lab", "a/first", "a/late"]
    assert {(*row,) for row in found} == {("subject", "subject_kind", "outcome")}


def test_a_bundle_that_may_have_no_other_broker_stays() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/heavy",), ("b1",))})
    found = shed(load(), policies=policies)
    assert found.unloads == ()
    rules = {row.subject: row.rule for row in found.considered if row.outcome == "refused"}
    assert rules == {BUNDLES[0]: "no_other_broker_allowed"}


def test_old_heartbeat_names_are_protected_where_a_broker_is_old() -> None:
    heartbeat = f"pulsar/lab/{HOT}/0x00000000_0xffffffff"
    hot = broker(HOT, 95.0, {heartbeat: (0.0, 50 * MIB), BUNDLES[1]: (0.0, 0.0)})
    for version, expected in (("4.0.8", ((BUNDLES[1], HOT),)), ("4.2.4", ((heartbeat, HOT),))):
        found = cluster(replace(hot, version=version, msg_throughput_in=90 * MIB), BrokerReport(COLD))
        assert shed(found).unloads == expected


def test_a_shedder_of_the_other_manager_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match="OverloadShedder or ThresholdShedder or"):
        shedder_named("TransferShedder")
