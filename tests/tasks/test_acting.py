"""Plans carried out by the real publish task over real tables, on brokers that answer over HTTP and count effects."""

from __future__ import annotations

import copy
import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from evenkeel.audit.read import Attempt, read_cycles, read_table
from evenkeel.decisions.bundles import decode_number
from evenkeel.handover import Handover
from evenkeel.lake.approvals import answer_row
from evenkeel.lake.controls import PAUSE, control_row, take_leases
from evenkeel.lake.small_appends import append_row
from evenkeel.lake.store import Lake
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.sinks.conduct import Timing
from evenkeel.tasks import outgoing, sending
from evenkeel.tasks.begin import CycleRequest, open_cycles
from evenkeel.tasks.pipeline import DECIDING, task
from evenkeel.tasks.publish import run as publish
from evenkeel.tasks.sending import Sending
from tests.sinks.simulated import Fault, SimulatedPulsar
from tests.tasks.test_strategies import FITTED

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SNAPSHOT = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold" / "0015.json.gz"
QUICK = Timing(lease_s=4.0, renew_s=1.0, look_s=0.05, write_s=0.2, longest_request_s=1.0)
# The recording is of another day, and nothing but age speaks against it here.
PATIENT = {
    "evenkeelMaxReportAgeSeconds": 10.0**9,
    "evenkeelCommandsPerSecond": 0,
    "evenkeelOutcomeWaitSeconds": 1.0,
    "evenkeelMaxMovedTrafficPercent": 100.0,
    "evenkeelMaxBundleTrafficPercent": 100.0,
}


class Lab:
    """Simulated brokers in the state of a recorded snapshot, and that snapshot with their addresses in it."""

    def __init__(self, folder: Path) -> None:
        self.pulsar = SimulatedPulsar()
        port = self.pulsar.brokers[0].rpartition(":")[2]
        text = re.sub(r"(127\.0\.0\.\d):1\d080", rf"\1:{port}", gzip.decompress(SNAPSHOT.read_bytes()).decode())
        folder.mkdir()
        (folder / "0001.json").write_text(text)
        self.folder, self.at = folder, json.loads(text)["finished_at"]
        for request in json.loads(text)["requests"]:
            if request["status"] == 200 and request["path"].endswith("/bundles"):
                name = "/".join(request["path"].split("/")[4:6])
                self.pulsar.boundaries[name] = [decode_number(x) for x in json.loads(request["body"])["boundaries"]]
            if request["status"] == 200 and request["path"].endswith("/ownedNamespaces"):
                owned = [bundle for bundle in json.loads(request["body"]) if not bundle.startswith("pulsar/")]
                self.pulsar.owner |= dict.fromkeys(owned, request["broker"])

    @property
    def sending(self) -> Sending:
        connection = AdminConnection((self.pulsar.url,))
        return Sending(lambda cycle: AdminClient(connection), timing=QUICK)


@pytest.fixture(scope="module")
def decided(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Handover]]:
    """A cycle up to the task before publish."""
    folder = tmp_path_factory.mktemp("acting")
    lab = Lab(folder / "recording")
    wished = sorted(lab.pulsar.owner)[:3]
    asked = [{"kind": "unload", "namespace": b.rpartition("/")[0], "bundle": b.rpartition("/")[2]} for b in wished]
    asked[0] |= {"kind": "split"}
    request = CycleRequest(
        wishes=tuple(asked),
        lake=str(folder / "lake"), source=f"recording:{lab.folder}", at=lab.at, mode="auto", run_id="test",
        overrides=FITTED["ThresholdShedder"] | PATIENT,
    )  # fmt: skip
    handover = open_cycles(spark, request)
    handover = handover.with_cycles(replace(one, admin={"urls": [lab.pulsar.url]}) for one in handover.cycles)
    for name in DECIDING:
        handover = task(name)(spark, handover)
    yield lab, handover
    lab.pulsar.close()


@dataclass
class Case:
    """A copy of the decided cycle for one test, and the brokers as they were when it was decided."""

    spark: Any
    lab: Lab
    lake: Path
    handover: Handover

    @property
    def cluster(self) -> str:
        return self.handover.cycles[0].cluster

    def publish(self, sending: Sending | None = None) -> Handover:
        return publish(self.spark, self.handover, sending or self.lab.sending)

    def outcomes(self) -> Counter[str]:
        """How many commands ended in what, by the last word on each."""
        last: dict[str, dict[str, Any]] = {}
        for row in sorted(read_table(self.lake, "outcomes"), key=lambda row: row["seen_at"]):
            last[row["command_id"]] = row
        return Counter(row["outcome"] for row in last.values())

    def commands(self) -> list[dict[str, Any]]:
        rows = {row["command_id"]: row for row in read_table(self.lake, "commands")}
        return sorted(rows.values(), key=lambda row: row["step"])

    def attempt(self) -> Attempt:
        (attempt,) = read_cycles(self.lake)
        return attempt

    def sent(self) -> list[str]:
        return [path for _, method, path, _ in self.lab.pulsar.requests if method == "PUT"]

    def most_effects(self) -> int:
        """On any one bundle."""
        return max(Counter(one[1] for one in self.lab.pulsar.effects).values())


@pytest.fixture
def case(spark: Any, decided: tuple[Lab, Handover], tmp_path: Path) -> Iterator[Case]:
    lab, handover = decided
    lake = tmp_path / "lake"
    shutil.copytree(handover.lake, lake)
    pulsar = lab.pulsar
    before = copy.deepcopy((pulsar.boundaries, pulsar.owner, pulsar.configuration))
    pulsar.effects.clear()
    pulsar.requests.clear()
    yield Case(spark, lab, lake, replace(handover, lake=str(lake)))
    pulsar.boundaries, pulsar.owner, pulsar.configuration = before
    pulsar.faults = lambda broker, method, path: None


def in_mode(case: Case, mode: str, kind: str = "live") -> Handover:
    return replace(case.handover, run=replace(case.handover.run, mode=mode, kind=kind))


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


def test_a_publisher_that_dies_is_followed_by_one_that_repeats_nothing(case: Case) -> None:
    """Commands go out, what was seen of them never reaches the table, and the lease is not given back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sending.Records, "write", _killed)
        patched.setattr(sending.Records, "give_back", lambda *_: None)
        with pytest.raises(Killed):
            case.publish()
    assert case.lab.pulsar.effects
    assert case.outcomes() == Counter()
    case.publish()
    assert case.outcomes() == Counter(done=len(case.commands()))
    assert case.most_effects() == 1
    assert case.attempt().status == "closed"


def test_what_a_killed_publisher_had_not_sent_is_sent_by_the_next(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(outgoing, "send_all", _killed)
        with pytest.raises(Killed):
            case.publish()
    assert case.commands()
    assert case.sent() == []
    case.publish()
    assert case.outcomes() == Counter(done=len(case.commands()))
    assert case.most_effects() == 1


class Killed(BaseException):
    """Ends a publisher where a kill would, with nothing tidied up behind it."""


def _killed(*given: Any) -> Any:
    if given[-1]:  # there is something to write
        raise Killed


def test_of_two_publishers_at_once_one_sends(case: Case) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(case.publish) for _ in range(2)]
        for one in both:
            one.result()
    assert case.most_effects() == 1
    assert set(case.outcomes()) == {"done"}


def test_an_error_that_nobody_foresaw_leaves_the_cycle_open_for_the_next_try(case: Case) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of cheese")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sending.PulsarAdmin, "send", broken)
        with pytest.raises(RuntimeError, match="out of cheese"):
            case.publish()
    assert case.attempt().status == "planned"
    assert case.outcomes() == Counter()
    case.publish()
    assert case.attempt().status == "closed"
    assert case.outcomes() == Counter(done=len(case.commands()))


def test_a_cluster_that_another_publisher_steers_is_left_to_it(case: Case) -> None:
    lake = Lake(str(case.lake))
    take_leases(case.spark, lake, [case.cluster], "somebody else", timedelta(hours=1))
    impatient = replace(case.lab.sending, timing=replace(QUICK, lease_s=0.1))
    publish(case.spark, case.handover, impatient)
    assert case.attempt().status == "planned"
    assert case.sent() == []


def test_brokers_that_shed_by_themselves_are_sent_nothing(case: Case) -> None:
    pulsar = case.lab.pulsar
    pulsar.configuration[pulsar.brokers[1]]["loadBalancerSheddingEnabled"] = "true"
    case.publish()
    assert case.attempt().status == "withheld"
    assert "update-dynamic-config --config loadBalancerSheddingEnabled --value false" in (case.attempt().reason or "")
    assert case.outcomes() == Counter(withheld=len(case.commands()))
    assert case.sent() == []


def test_a_pause_holds_everything_back(case: Case) -> None:
    append_row(Lake(str(case.lake)), "controls", control_row(case.cluster, PAUSE, "jo", "release night"), _no_session)
    case.publish()
    assert case.attempt().status == "withheld"
    assert "is paused by jo (release night)" in (case.attempt().reason or "")
    assert case.sent() == []


def test_a_pause_in_the_middle_of_a_publish_stops_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Event()
    real = sending.paused

    def paused(*given: Any) -> dict[str, str]:
        found = real(*given)
        if found:
            Timer(0.3, heard.set).start()  # the sender is told right after
        return found

    def pausing(_broker: str, method: str, _path: str) -> Fault | None:
        if method == "PUT" and not heard.is_set():
            row = control_row(case.cluster, PAUSE, "jo", None)
            append_row(Lake(str(case.lake)), "controls", row, _no_session)
            assert heard.wait(60)
        return None

    monkeypatch.setattr(sending, "paused", paused)
    case.lab.pulsar.faults = pausing
    case.handover = with_settings(case.handover, evenkeelCommandsInFlight=1)
    case.publish()
    assert case.outcomes() == Counter(done=1, withheld=len(case.commands()) - 1)
    assert case.attempt().status == "closed"
    assert "is paused by jo" in (case.attempt().reason or "")


def test_a_plan_waits_for_its_approval(case: Case) -> None:
    case.handover = in_mode(case, "approve")
    plan = case.publish().awaiting[case.cluster]["plan_id"]
    assert (case.attempt().status, case.attempt().plan_id) == ("planned", plan)
    assert case.sent() == []
    lake = Lake(str(case.lake))
    append_row(lake, "approvals", answer_row(case.cluster, "another", "approved", "jo"), _no_session)
    assert case.publish().awaiting[case.cluster]["plan_id"] == plan
    append_row(lake, "approvals", answer_row(case.cluster, plan, "approved", "jo"), _no_session)
    assert case.publish().awaiting == {}
    assert case.outcomes() == Counter(done=len(case.commands()))


def test_a_dry_run_of_a_cycle_does_not_stand_in_the_way_of_acting_on_it(case: Case) -> None:
    live = case.handover
    case.handover = in_mode(case, "dry_run")
    case.publish()
    assert set(case.outcomes()) == {"dry_run"}
    case.handover = live
    case.publish()
    assert case.outcomes()["done"] == case.outcomes()["dry_run"] > 0


@pytest.mark.parametrize("why", ["backfill", "old", "not reachable"])
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


def with_settings(handover: Handover, **values: Any) -> Handover:
    """The decided cycle with other settings of sending, which no decision rests on."""
    changed = []
    for cycle in handover.cycles:
        body = json.loads(cycle.settings or "")
        body["settings"] |= values
        changed.append(replace(cycle, settings=json.dumps(body)))
    return handover.with_cycles(changed)


def _no_session() -> Any:
    raise AssertionError("a lake in a folder needs no Spark for a single row")
