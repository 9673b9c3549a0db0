"""Plans carried out by the real publish task over real tables, on brokers that answer over HTTP and count effects."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event, Timer
from typing import Any

import pytest

from evenkeel.handover import Snapshot
from evenkeel.lake.controls import PAUSE, answer_row, control_row, give_back, take_leases
from evenkeel.lake.controls import paused as paused_clusters
from evenkeel.lake.manifest import append_manifests
from evenkeel.lake.record import read_cycles
from evenkeel.lake.store import Lake, append_row
from evenkeel.publish import dispatch as sending
from evenkeel.publish import gate as outgoing
from evenkeel.publish.manifests import manifest_row
from evenkeel.publish.task import run as publish
from tests.publish.acting import QUICK, SHORT_LEASE_S, Case, in_mode, with_settings
from tests.steering.simulated import Fault

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_plan_is_carried_out_once_and_a_re_run_finds_it_done(case: Case) -> None:
    case.publish()
    asked = case.commands()
    assert [row["kind"] for row in asked] == ["split", *["unload"] * (len(asked) - 1)]
    assert len(asked) >= 4
    assert case.outcomes() == Counter(done=len(asked))
    owner = case.lab.pulsar.owner
    assert all(owner[row["bundle"]] == row["destination"] for row in asked if row["destination"])
    attempt = case.attempt()
    assert (attempt.status, attempt.mode, attempt.reason) == ("closed", "auto", None)
    before = len(case.sent())
    case.publish()
    assert (len(case.sent()), case.most_effects()) == (before, 1)


class Killed(BaseException):
    """Ends a publisher where a kill would, with nothing tidied up behind it."""


def _killed(*given: Any) -> Any:
    if given[-1]:  # there is something to write
        raise Killed


@pytest.mark.exhaustive
def test_of_two_publishers_at_once_one_sends(case: Case) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(case.publish) for _ in range(2)]
        for one in both:
            one.result()
    assert case.most_effects() == 1
    assert set(case.outcomes()) == {"done"}


@pytest.mark.exhaustive
def test_an_error_that_nobody_foresaw_leaves_the_cycle_open_for_the_next_try(case: Case) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of cheese")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("evenkeel.publish.dispatch.PulsarAdmin.send", broken)
        with pytest.raises(RuntimeError, match="out of cheese"):
            case.publish()
    assert case.attempt().status == "planned"
    assert case.outcomes() == Counter()
    case.publish()
    assert case.attempt().status == "closed"
    assert case.outcomes() == Counter(done=len(case.commands()))


@pytest.mark.exhaustive
def test_a_cluster_that_another_publisher_steers_is_left_to_it(case: Case) -> None:
    lake = Lake(str(case.lake))
    take_leases(case.spark, lake, [case.cluster], "somebody else", timedelta(hours=1))
    impatient = replace(case.lab.sending, timing=replace(QUICK, lease_s=0.1))
    publish(case.spark, case.handover, impatient)
    assert case.attempt().status == "planned"
    assert case.sent() == []


def test_what_changes_while_a_lease_is_waited_for_is_seen_before_anything_is_sent(case: Case) -> None:
    """A rejection comes while another publisher has the lease."""
    lake = Lake(str(case.lake))
    take_leases(case.spark, lake, [case.cluster], "somebody else", timedelta(hours=1))
    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(case.publish)
        until = time.monotonic() + 60
        while not read_cycles(case.lake):
            assert time.monotonic() < until
            time.sleep(0.1)
        row = answer_row(case.cluster, str(case.attempt().plan_id), "rejected", "jo", "not tonight")
        append_row(lake, "approvals", row)
        give_back(case.spark, lake, [case.cluster], "somebody else")
        publishing.result()
    assert case.sent() == []
    assert case.attempt().status == "withheld"
    assert "jo rejected the plan" in (case.attempt().reason or "")
    assert set(case.outcomes()) == {"withheld"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("source", "later", "outcome"),
    [
        pytest.param("recording", timedelta(minutes=5), "done", marks=pytest.mark.exhaustive),
        ("pulsar-admin", timedelta(minutes=5), "withheld"),
        ("pulsar-admin", timedelta(days=365), "done"),
    ],
)
def test_a_recording_and_a_cycle_under_a_clock_a_year_ahead_are_not_the_newest_cycle_of_a_running_cluster(
    case: Case, source: str, later: timedelta, outcome: str
) -> None:
    """The maker of a recording dates its snapshots, and a trigger gives the recording the name of any cluster."""
    case.handover = case.handover.with_cycles(replace(one, source="pulsar-admin") for one in case.handover.cycles)
    (cycle,) = case.handover.cycles
    at = (cycle.at + later).isoformat(timespec="microseconds")
    other = replace(cycle, cycle_at=at, snapshot=Snapshot("", at), source=source, status="skipped", reason="a test")
    rows = [manifest_row(case.handover.run, other, (), {}, datetime.now(UTC))]
    append_manifests(case.spark, Lake(str(case.lake)), rows)
    case.publish()
    assert case.outcomes() == Counter({outcome: len(case.commands())})
    assert bool(case.sent()) == (outcome == "done")


def test_brokers_that_shed_by_themselves_are_sent_nothing(case: Case) -> None:
    pulsar = case.lab.pulsar
    pulsar.configuration[pulsar.brokers[1]]["loadBalancerSheddingEnabled"] = "true"
    case.publish()
    assert case.attempt().status == "withheld"
    assert "update-dynamic-config --config loadBalancerSheddingEnabled --value false" in (case.attempt().reason or "")
    assert case.outcomes() == Counter(withheld=len(case.commands()))
    assert case.sent() == []


@pytest.mark.exhaustive
def test_a_pause_in_the_middle_of_a_publish_stops_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Event()
    real = paused_clusters

    def paused(*given: Any) -> dict[str, str]:
        found = real(*given)
        if found:
            Timer(0.3, heard.set).start()  # the sender is told right after
        return found

    def pausing(_broker: str, method: str, _path: str) -> Fault | None:
        if method == "PUT" and not heard.is_set():
            row = control_row(case.cluster, PAUSE, "jo", None)
            append_row(Lake(str(case.lake)), "controls", row)
            assert heard.wait(60)
        return None

    monkeypatch.setattr(outgoing, "paused", paused)
    case.lab.pulsar.faults = pausing
    case.handover = with_settings(case.handover, evenkeelCommandsInFlight=1)
    case.publish()
    assert case.outcomes() == Counter(done=1, withheld=len(case.commands()) - 1)
    assert case.attempt().status == "closed"
    assert "is paused by jo" in (case.attempt().reason or "")


@pytest.mark.exhaustive
def test_a_rejection_while_paced_commands_go_out_stops_them(case: Case) -> None:
    rejected = Event()

    def rejecting(_broker: str, method: str, _path: str) -> Fault | None:
        if method == "PUT" and not rejected.is_set():
            rejected.set()
            row = answer_row(case.cluster, str(case.attempt().plan_id), "rejected", "jo", "not tonight")
            append_row(Lake(str(case.lake)), "approvals", row)
        return None

    case.lab.pulsar.faults = rejecting
    # A wait between two commands that is long beside the looks at the tables.
    case.handover = with_settings(case.handover, evenkeelCommandsInFlight=1, evenkeelCommandsPerSecond=0.08)
    case.publish()
    assert case.outcomes() == Counter(done=1, withheld=len(case.commands()) - 1)
    assert case.attempt().status == "closed"
    assert "jo rejected the plan" in (case.attempt().reason or "")


@pytest.mark.exhaustive
def test_a_plan_waits_for_its_approval(case: Case) -> None:
    lake = Lake(str(case.lake))
    append_row(lake, "approvals", answer_row(case.cluster, "another", "approved", "jo"))
    case.handover = in_mode(case, "approve")
    plan = case.publish().awaiting[case.cluster]["plan_id"]
    assert (case.attempt().status, case.attempt().plan_id) == ("planned", plan)
    assert case.sent() == []
    append_row(lake, "approvals", answer_row(case.cluster, plan, "approved", "jo"))
    assert case.publish().awaiting == {}
    assert case.outcomes() == Counter(done=len(case.commands()))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "killed",
    [
        *(
            pytest.param(when, marks=pytest.mark.exhaustive)
            for when in ("before it sends", "before it writes what it saw")
        ),
        None,
    ],
)
def test_a_plan_approved_without_its_splits_is_sent_without_them_however_often_its_publisher_dies(
    case: Case, killed: str | None
) -> None:
    case.handover = in_mode(case, "approve")
    waiting = case.publish().awaiting[case.cluster]
    assert waiting["splits"] == "1"
    said = answer_row(case.cluster, waiting["plan_id"], "approved_without_splits", "jo", "not tonight")
    append_row(Lake(str(case.lake)), "approvals", said)
    if killed is not None:
        with pytest.MonkeyPatch.context() as patched:
            if killed == "before it sends":
                patched.setattr(outgoing, "send_all", _killed)
            else:
                patched.setattr(sending.OutcomeRecorder, "write", _killed)
                patched.setattr(sending.OutcomeRecorder, "give_back", lambda *_: None)
            with pytest.raises(Killed):
                case.publish(replace(case.lab.sending, timing=replace(QUICK, lease_s=SHORT_LEASE_S)))
    case.publish()
    asked = case.commands()
    resting = outgoing.on_splits(asked)
    assert {row["plan_id"] for row in asked} == {waiting["plan_id"]}, "the plan stays the one plan"
    assert {row["kind"] for row in asked if row["command_id"] in resting} >= {"split"}
    assert case.outcomes() == Counter(withheld=len(resting), done=len(asked) - len(resting))
    why = f"jo approved the plan without its splits at {said['at'].isoformat()}: not tonight"
    last = case.last()
    assert {last[command_id]["detail"] for command_id in resting} == {f"not sent: {why}"}
    assert case.most_effects() == 1
    assert not any("bundle" in path and path.endswith("split") for path in case.sent())
    assert {one[1] for one in case.lab.pulsar.effects} == {
        row["bundle"] for row in asked if row["command_id"] not in resting
    }
    assert (case.attempt().status, case.attempt().reason) == ("closed", why)
    before = case.sent()
    later = answer_row(case.cluster, waiting["plan_id"], "approved", "jo")
    append_row(Lake(str(case.lake)), "approvals", later)
    case.publish()
    assert (case.sent(), case.outcomes()["withheld"]) == (before, len(resting)), "what is closed stays as it is"


@pytest.mark.exhaustive
def test_a_split_that_went_out_before_the_answer_changed_is_on_record_as_what_it_came_to(case: Case) -> None:
    """Approved, and killed once all was sent; then approved without splits, and run again."""
    case.handover = in_mode(case, "approve")
    plan = case.publish().awaiting[case.cluster]["plan_id"]
    lake = Lake(str(case.lake))
    append_row(lake, "approvals", answer_row(case.cluster, plan, "approved", "jo"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sending.OutcomeRecorder, "write", _killed)
        patched.setattr(sending.OutcomeRecorder, "give_back", lambda *_: None)
        with pytest.raises(Killed):
            case.publish(replace(case.lab.sending, timing=replace(QUICK, lease_s=SHORT_LEASE_S)))
    append_row(lake, "approvals", answer_row(case.cluster, plan, "approved_without_splits", "kim"))
    case.publish()
    assert case.outcomes() == Counter(done=len(case.commands()))
    assert case.most_effects() == 1


@pytest.mark.exhaustive
def test_an_answer_without_splits_that_comes_while_a_lease_is_waited_for_leaves_them_out(case: Case) -> None:
    case.handover = in_mode(case, "approve")
    plan = case.publish().awaiting[case.cluster]["plan_id"]
    lake = Lake(str(case.lake))
    append_row(lake, "approvals", answer_row(case.cluster, plan, "approved", "jo"))
    take_leases(case.spark, lake, [case.cluster], "somebody else", timedelta(hours=1))
    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(case.publish)
        until = time.monotonic() + 60
        while not case.commands():
            assert time.monotonic() < until
            time.sleep(0.1)
        append_row(lake, "approvals", answer_row(case.cluster, plan, "approved_without_splits", "kim"))
        give_back(case.spark, lake, [case.cluster], "somebody else")
        publishing.result()
    resting = outgoing.on_splits(case.commands())
    assert case.outcomes() == Counter(withheld=len(resting), done=len(case.commands()) - len(resting))
    assert "kim approved the plan without its splits" in (case.attempt().reason or "")


@pytest.mark.exhaustive
def test_a_dry_run_of_a_cycle_does_not_stand_in_the_way_of_acting_on_it(case: Case) -> None:
    live = case.handover
    case.handover = in_mode(case, "dry_run")
    case.publish()
    assert set(case.outcomes()) == {"dry_run"}
    case.handover = live
    case.publish()
    assert case.outcomes()["done"] == case.outcomes()["dry_run"] > 0


@pytest.mark.parametrize(
    "why", ["backfill", *(pytest.param(why, marks=pytest.mark.exhaustive) for why in ("old", "not reachable"))]
)
def test_what_must_not_act_is_withheld_and_says_why(case: Case, why: str) -> None:
    words = {"backfill": "a backfill decides anew", "old": "min old", "not reachable": "no admin URL is configured"}
    if why == "backfill":
        case.handover = in_mode(case, "auto", "backfill")
    elif why == "old":
        case.handover = with_settings(case.handover, evenkeelMaxReportAgeSeconds=1200.0)
    else:
        case.handover = case.handover.with_cycles(replace(one, admin=None) for one in case.handover.cycles)
    case.publish()
    assert case.attempt().status == "withheld"
    assert words[why] in (case.attempt().reason or "")
    assert case.sent() == []
    assert set(case.outcomes()) == {"withheld"}
