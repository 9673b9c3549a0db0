"""A snapshot of brokers that answer, that answer badly, and that do not answer: what it holds, and that it is whole."""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import LandingError, Unreachable
from evenkeel.pulsar.admin import AdminClient, AdminConnection, client
from evenkeel.pulsar.admin.authentication import Authentication, token
from evenkeel.pulsar.answers import Answer as Told
from evenkeel.pulsar.answers import Answers
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.snapshot import SnapshotView
from evenkeel.secret import Secret
from evenkeel.sources import collecting
from evenkeel.sources.collecting import TakenSnapshot, WantedSnapshot, take_snapshot
from evenkeel.sources.landing import FolderStore
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.sources.snapshot_files import read_header
from tests.pulsar.admin.books import Size, brokers_in, renamed, replayed, requests_in, silent_brokers, sized
from tests.pulsar.admin.simulated import Answer, SimulatedCluster
from tests.snapshot_lines import requests_of

pytestmark = pytest.mark.slow

RECORDINGS = Path(__file__).parent.parent / "recordings"
# A snapshot, and the one that holds the configuration and the topic lists where it does not.
RECORDED = [
    ("lost-modular", "0000", "0000"),
    ("lost-modular", "0006", "0000"),
    ("lost-extensible", "0016", "0016"),
    ("by-hand-4.0.8", "0016", "0016"),
    ("by-hand-4.0.8", "0020", "0016"),
    ("own-transfer", "0000", "0000"),
    ("own-transfer", "0010", "0000"),
]
TIMES = ("asked_at", "snapshot", "snapshot_started_at", "snapshot_finished_at")
AGES = ("configuration_age_seconds", "topic_lists_age_seconds")


def collect(
    cluster: SimulatedCluster, folder: Path, wanted: WantedSnapshot | None = None, **more: Any
) -> TakenSnapshot:
    connection = AdminConnection((cluster.url,), authentication=more.pop("authentication", Authentication()))
    wanted = wanted or WantedSnapshot()
    with AdminClient(connection) as client:
        return take_snapshot(client, FolderStore(folder).begin(f"{wanted.n:04d}"), wanted, **more)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer costs a second or two, and not the time in which its cluster counts as silent."""
    monkeypatch.setattr(collecting, "METADATA_SECONDS", 1.0)
    monkeypatch.setattr(client, "READ_SECONDS", 1.5)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(topics=200, namespaces=5, bundles=4))) as running:
        yield running


def observed(
    requests: Iterable[dict[str, Any]], lent: Iterable[dict[str, Any]] = (), cluster: str = "lab"
) -> ObservedRows:
    now = datetime.now(UTC)
    return observe(SnapshotView(cluster, "x", now, now, answers(requests), answers(lent), None))


def answers(requests: Iterable[dict[str, Any]]) -> Answers:
    return Answers(
        Told(n, r["broker"], r["path"], r["status"], r["body"], None, r["location"], r["method"], len(r["body"] or ""))
        for n, r in enumerate(requests)
    )


def paths(folder: Path, name: str = "0000.jsonl.gz") -> list[str]:
    return [request["path"] for request in requests_of(folder / name)]


def comparable(found: ObservedRows) -> Any:
    """The rows without times."""
    rows = {
        table: [{key: value for key, value in row.items() if key not in (*TIMES, *AGES)} for row in rows]
        for table, rows in found.rows.items()
    }
    # Each client has its own words for the same failure.
    return json.loads(re.sub(r"no HTTP answer \([^\"]*", "no HTTP answer", json.dumps(rows, default=str)))


@pytest.mark.parametrize(("folder", "name", "lender"), RECORDED)
def test_collecting_from_brokers_that_replay_a_recording_gives_the_same_rows(
    folder: str, name: str, lender: str, tmp_path: Path
) -> None:
    own, lent = (RECORDINGS / folder / f"{each}.json.gz" for each in (name, lender))
    recorded = requests_in(own, lent) if own != lent else requests_in(own)
    with SimulatedCluster(replayed(recorded), len(brokers_in(recorded))) as cluster:
        names = dict(zip(cluster.ids, brokers_in(recorded), strict=True))
        silent = silent_brokers(list(requests_of(own)))
        for broker in [simulated for simulated, recorded_as in names.items() if recorded_as in silent]:
            cluster.kill(broker)
        collect(cluster, tmp_path)
        collected = json.loads(renamed(json.dumps(list(requests_of(tmp_path / "0000.jsonl.gz"))), names))
    earlier = () if own == lent else tuple(requests_of(lent))
    # A modular broker is not asked for what it owns: its report tells that, as of the last stats period.
    asks = any(one["path"].endswith("/ownedNamespaces") for one in collected)
    told = [one for one in requests_of(own) if asks or not one["path"].endswith("/ownedNamespaces")]
    assert asks == (folder in ("lost-extensible", "own-transfer"))
    mine, theirs = observed(collected, earlier), observed(told, earlier)
    assert comparable(mine) == comparable(theirs)
    assert mine.left_out is None
    assert len(mine.topic_figures) == len(theirs.topic_figures)
    assert len(mine.topic_lists) == len(theirs.topic_lists)


def test_a_snapshot_is_a_recording(cluster: SimulatedCluster, tmp_path: Path) -> None:
    taken = collect(cluster, tmp_path, WantedSnapshot(n=7, note="ü"))
    (snapshot,) = Recording(tmp_path).snapshots
    header = read_header(Path(snapshot.path))
    assert (header.n, header.note, header.has_configuration) == (7, "ü", True)
    assert header.started_at <= header.finished_at
    assert cluster_name(snapshot) == "sim"
    requests = list(requests_of(Path(snapshot.path)))
    assert sorted(request["n"] for request in requests) == list(range(taken.tally.requests))
    assert (taken.brokers, taken.tally.not_answered, taken.committed) == (3, 0, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "0007.jsonl.gz"]


def test_what_is_not_needed_is_not_asked(cluster: SimulatedCluster, tmp_path: Path) -> None:
    collect(cluster, tmp_path)
    seen = " ".join(paths(tmp_path))
    assert "/broker-stats/metrics" not in seen, "the modular manager's figures stand in the load report"
    assert "/bundles" not in seen, "the policies hold them"
    assert seen.count("/admin/v2/namespaces/acme/ns0000") == 2
    assert seen.count("/admin/v2/persistent/acme/") == 5
    assert seen.count("/brokers/configuration/runtime") == 3


def test_an_extensible_broker_is_not_asked_for_a_report_that_it_would_refuse(tmp_path: Path) -> None:
    with SimulatedCluster(sized(Size(10, 1, 4), manager="Extensible")) as cluster:
        collect(cluster, tmp_path)
    assert "/admin/v2/broker-stats/load-report" not in paths(tmp_path)
    assert paths(tmp_path).count("/admin/v2/broker-stats/metrics") == 3
    assert sum(path.endswith("/ownedNamespaces") for path in paths(tmp_path)) == 3


def test_a_broker_that_may_be_modular_is_never_asked_for_what_it_owns(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    cluster.fault("/configuration/runtime", Answer(500, "{}"), broker=cluster.ids[1])
    collect(cluster, tmp_path)
    assert [path for path in paths(tmp_path) if path.endswith("/ownedNamespaces")] == [], "it can hang for good by that"
    found = observed(requests_of(tmp_path / "0000.jsonl.gz")).rows
    assert {row["owned_bundles"] for row in found["broker_reports"]} != {None}
    assert {row["is_owned"] for row in found["bundle_ownership"]} == {True}, "as the load reports name them"


@pytest.mark.parametrize(
    ("manager", "silent", "has_version", "state"),
    [
        ("Modular", "/partitions", True, "hung"),
        ("Modular", "/load-report", True, "hung"),
        ("Modular", "/load-report", False, "no_answer"),
        ("Extensible", "/partitions", True, "hung"),
        ("Extensible", "/ownedNamespaces", True, "hung"),
        ("Extensible", "/ownedNamespaces", False, "reported"),
    ],
)
def test_a_broker_that_answers_and_whose_metadata_store_or_load_manager_does_not_is_hung(
    impatient: None, tmp_path: Path, manager: str, silent: str, has_version: bool, state: str
) -> None:
    with SimulatedCluster(sized(Size(10, 1, 4), manager=manager)) as cluster:
        hung = cluster.ids[1]
        cluster.fault(silent, Answer(200, "{}", delay_s=3.0), broker=hung)
        if not has_version:
            cluster.fault("/brokers/version", Answer(503, "{}"), broker=hung)
        collect(cluster, tmp_path)
    asked = list(requests_of(tmp_path / "0000.jsonl.gz"))
    rows = {row["broker"]: row for row in observed(asked, cluster="sim").rows["broker_reports"]}
    assert {broker: row["state"] for broker, row in rows.items()} == dict.fromkeys(rows, "reported") | {hung: state}
    assert rows[hung]["owned_bundles"] is None
    assert (rows[hung].get("cpu_usage") is None) == (state != "reported")
    assert ("SIGKILL" in (rows[hung]["state_reason"] or "")) == (state == "hung")
    if silent == "/partitions":
        sent = [one["path"] for one in asked if one["broker"] == hung and not one["body"].startswith("not sent")]
        assert not [path for path in sent if path.endswith(("/load-report", "/ownedNamespaces"))], "it keeps a thread"


def test_where_no_broker_reads_the_metadata_store_it_is_at_fault_and_no_broker_is_to_be_ended(
    impatient: None, tmp_path: Path
) -> None:
    with SimulatedCluster(sized(Size(10, 1, 4))) as cluster:
        cluster.fault("/partitions", Answer(200, "{}", delay_s=3.0))
        collect(cluster, tmp_path)
    rows = observed(requests_of(tmp_path / "0000.jsonl.gz"), cluster="sim").rows["broker_reports"]
    assert {row["state"] for row in rows} == {"no_answer"}
    assert all("look at the store, and end no broker" in row["state_reason"] for row in rows)


def test_both_are_asked_where_the_manager_is_not_known(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault("/configuration/runtime", Answer(500, "{}"), broker=cluster.ids[1])
    collect(cluster, tmp_path)
    assert paths(tmp_path).count("/admin/v2/broker-stats/metrics") == 1
    assert paths(tmp_path).count("/admin/v2/broker-stats/load-report") == 3


def test_boundaries_are_asked_for_where_the_policies_hold_none(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault(r"/namespaces/acme/ns0003$", Answer(401, '{"reason":"no"}'))
    cluster.fault(r"/namespaces/acme/ns0004$", Answer(404, '{"reason":"Namespace not found"}'))
    collect(cluster, tmp_path)
    seen = paths(tmp_path)
    assert "/admin/v2/namespaces/acme/ns0003/bundles" in seen
    assert "/admin/v2/namespaces/acme/ns0004/antiAffinity" not in seen, "it was deleted meanwhile"


def test_a_snapshot_that_is_not_full_has_no_topic_lists_and_lends_nothing(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    collect(cluster, tmp_path)
    collect(cluster, tmp_path, WantedSnapshot(n=1, full=False))
    first, second = Recording(tmp_path).snapshots
    assert not any("/persistent/acme/" in path for path in paths(tmp_path, "0001.jsonl.gz"))
    assert (first.configuration_path, second.configuration_path) == (first.path, first.path)
    both = observed(requests_of(Path(second.path)), requests_of(Path(first.path)))
    assert both.lists_are_lent
    assert both.policies["configuration_age_seconds"] == 0, "the configuration is its own: every snapshot has it"


def test_a_dead_broker_is_rows_that_say_so_and_is_not_waited_for_twice(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    dead = cluster.ids[1]
    cluster.kill(dead)
    taken = collect(cluster, tmp_path)
    rows = [request for request in requests_of(tmp_path / "0000.jsonl.gz") if request["broker"] == dead]
    assert {row["status"] for row in rows} == {0}
    sent = [row for row in rows if not row["body"].startswith("not sent")]
    assert [row["path"] for row in sent] == ["/admin/v2/brokers/configuration/runtime"] * 3
    assert taken.tally.not_answered == len(rows) == 3 + 5
    states = {
        row["broker"]: row["state"] for row in observed(requests_of(tmp_path / "0000.jsonl.gz")).rows["broker_reports"]
    }
    assert states == {broker: "no_answer" if broker == dead else "reported" for broker in cluster.ids}


def test_a_broker_that_hangs_costs_one_wait(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault("/version", Answer(drop=True), broker=cluster.ids[2])
    taken = collect(cluster, tmp_path)
    rows = [r for r in requests_of(tmp_path / "0000.jsonl.gz") if r["broker"] == cluster.ids[2] and r["status"] == 0]
    assert "the broker gave no answer to /admin/v2/brokers/version" in rows[-1]["body"]
    assert taken.committed


def test_what_all_know_is_asked_of_all_in_turn_and_not_of_the_silent(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.kill(cluster.ids[1])
    collect(cluster, tmp_path)
    asked = {request["broker"] for request in requests_of(tmp_path / "0000.jsonl.gz") if "/acme/ns" in request["path"]}
    assert asked == {cluster.ids[0], cluster.ids[2]}


def test_a_snapshot_ends_in_time(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault("/broker-stats/topics", Answer(delay_s=0.3))
    collect(cluster, tmp_path, most_seconds=0.25)
    late = [request for request in requests_of(tmp_path / "0000.jsonl.gz") if "took too long" in request["body"]]
    assert late
    assert all(request["status"] == 0 for request in late)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401, "<html>no</html>"), r"the token \(or password\) is missing, wrong or expired"),
        (Answer(200, "<html>login</html>"), "a proxy or a login page"),
        (Answer(200, '{"a": 1}'), "gives no list of brokers"),
        (Answer(500, '{"reason":"x"}'), "look at the broker's log"),
    ],
)
def test_a_cluster_that_tells_no_brokers_cannot_be_observed_and_leaves_nothing(
    cluster: SimulatedCluster, tmp_path: Path, answer: Answer, words: str
) -> None:
    cluster.fault("/brokers$", answer)
    with pytest.raises(Unreachable, match=words):
        collect(cluster, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_dead_is_named_with_the_others(tmp_path: Path) -> None:
    with SimulatedCluster(sized(Size(1, 1, 1)), 2) as cluster:
        urls = tuple(cluster.url_of(broker) for broker in cluster.ids)
    with AdminClient(AdminConnection(urls)) as client, pytest.raises(Unreachable) as refused:
        take_snapshot(client, FolderStore(tmp_path).begin("0000"), WantedSnapshot())
    assert all(url.removeprefix("http://") in str(refused.value) for url in urls)


def test_the_token_is_in_no_snapshot(tmp_path: Path) -> None:
    with SimulatedCluster(sized(Size(10, 1, 1)), token="t0k3n-t0k3n") as cluster:
        cluster.fault("/version", Answer(200, "4.2 t0k3n-t0k3n"))
        collect(cluster, tmp_path, authentication=token(Secret("t0k3n-t0k3n")))
    written = [gzip.decompress(part.read_bytes()) for part in tmp_path.rglob("*.gz")]
    assert not any(b"t0k3n-t0k3n" in text for text in written)


@pytest.mark.parametrize("names", [["it's", 'say "hi"', "日本語", "50%", "a%2Fb", "a b", "x?y#z&=+"]])
def test_odd_names_are_asked_for_and_come_back_whole(names: Sequence[str], tmp_path: Path) -> None:
    with SimulatedCluster(sized(Size(1, 1, 1)), 1) as cluster:
        cluster.fault(r"/tenants$", Answer(200, '["acme"]'))
        cluster.fault(r"/namespaces/acme$", Answer(200, json.dumps([f"acme/{name}" for name in names])))
        bundles = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
        cluster.fault(r"/namespaces/acme/[^/]+$", Answer(200, json.dumps({"bundles": bundles})))
        cluster.fault(r"/antiAffinity$", Answer(204))
        collect(cluster, tmp_path)
    rows = observed(requests_of(tmp_path / "0000.jsonl.gz")).rows["namespace_bundles"]
    assert [row["namespace"] for row in rows] == sorted(f"acme/{name}" for name in names)


def test_the_head_says_how_many_requests_follow_and_each_has_its_position(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    taken = collect(cluster, tmp_path)
    place = tmp_path / "0000.jsonl.gz"
    positions = [request["n"] for request in requests_of(place)]
    assert positions == list(range(taken.tally.requests))
    assert read_header(place).requests == taken.tally.requests
    lines = gzip.decompress(place.read_bytes()).splitlines()
    assert all(line.endswith(b'"}') and list(json.loads(line))[-1] == "body" for line in lines[1:])


def test_of_two_snapshots_of_one_name_the_first_stays(cluster: SimulatedCluster, tmp_path: Path) -> None:
    assert collect(cluster, tmp_path, WantedSnapshot(note="first")).committed
    assert not collect(cluster, tmp_path, WantedSnapshot(note="second")).committed
    assert read_header(tmp_path / "0000.jsonl.gz").note == "first"
    assert list(tmp_path.iterdir()) == [tmp_path / "0000.jsonl.gz"]


def test_a_snapshot_under_way_is_not_seen(cluster: SimulatedCluster, tmp_path: Path) -> None:
    collect(cluster, tmp_path)
    writer = FolderStore(tmp_path).begin("0001")
    writer.write(AdminClient(AdminConnection((cluster.url,))).ask("/admin/v2/brokers")[0])
    assert len(list(tmp_path.iterdir())) == 2
    recording = Recording(tmp_path)
    assert (len(recording.snapshots), recording.problems) == (1, ())
    assert FolderStore(tmp_path).next_number() == 1


def test_a_place_that_cannot_be_written_is_an_error_that_says_so(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LandingError, match=r"cannot be written to .*file"):
        collect(cluster, tmp_path / "file")
