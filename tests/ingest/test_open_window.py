"""How a run opens a window: every landed snapshot of a range, each as a run of its moment alone would open it."""

import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.handover import OPEN, SKIPPED, ClusterCycle
from evenkeel.ingest.chunks import landed_in
from evenkeel.ingest.open_run import CycleRequest, check, cycles_of
from evenkeel.sources import recordings, snapshot_files
from evenkeel.sources.landing import milliseconds
from evenkeel.sources.recordings import Recording
from evenkeel.times import utc_text
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import SimulatedCluster
from tests.pulsar.small_cluster import FINISHED_AT, SmallCluster

MINUTES = (0, 5, 10, 15, 1_500)
"""When the snapshots were taken; a gap of a day lies before the last."""


def snapshot(folder: Path, minutes: float, name: str, *, full: bool = True) -> Path:
    small = SmallCluster()
    small.started_at += timedelta(minutes=minutes)
    small.finished_at += timedelta(minutes=minutes)
    if not full:
        for broker in small.names:
            small.never_asked("/admin/v2/brokers/configuration/runtime", broker)
    return small.land(folder, name)


def at(minutes: float) -> str:
    return utc_text(FINISHED_AT + timedelta(minutes=minutes))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Names out of the order of time, a broken file, one moment twice, configuration in the first and the last only."""
    folder = tmp_path / "recording"
    snapshot(folder, MINUTES[1], "0000.json", full=False)
    snapshot(folder, MINUTES[0], "0001.json")
    snapshot(folder, MINUTES[2], "0002.json.gz", full=False)
    (folder / "0003.json.gz").write_bytes((folder / "0002.json.gz").read_bytes()[:-200])
    snapshot(folder, MINUTES[2], "0004.json", full=False)
    snapshot(folder, MINUTES[3], "0005.json", full=False)
    snapshot(folder, MINUTES[4], "0006.json")
    (folder / "0007.json").write_text("<html>504</html>")
    return folder


def request_for(recording: Path, **more: Any) -> CycleRequest:
    return CycleRequest(lake="unused", source=f"recording:{recording}", **more)


def test_a_window_is_the_cycles_that_runs_of_one_moment_open(recording: Path) -> None:
    request = request_for(recording, every=True, kind="backfill", overrides={"minUnloadMessage": 5})
    cycles = landed_in(request)
    assert [cycle.cycle_at for cycle in cycles] == [at(minutes) for minutes in MINUTES]
    assert cycles == alone(request, cycles)
    problems = [[(Path(file).name, place) for file, place, _ in cycle.unreadable] for cycle in cycles]
    assert ("0003.json.gz", "snapshot") in problems[3]
    assert ("0004.json", "finished_at") in problems[3]
    assert ("0007.json", "snapshot") in problems[4]
    lent = [Path(str(cycle.snapshot.configuration_path)).name for cycle in cycles]
    assert lent == ["0001.json"] * 4 + ["0006.json"]


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (MINUTES[1], MINUTES[3], MINUTES[1:4]),
        (MINUTES[1] + 0.001, MINUTES[3] - 0.001, MINUTES[2:3]),
        (-10_000, MINUTES[1], MINUTES[:2]),
        (None, MINUTES[2], MINUTES[:3]),
        (MINUTES[3], None, MINUTES[3:]),
        (MINUTES[4], MINUTES[4], MINUTES[4:]),
    ],
    ids=["both-ends", "between", "before-the-first", "no-begin", "no-end", "one-moment"],
)
def test_a_range_includes_both_ends(
    recording: Path, since: float | None, until: float | None, expected: tuple[int, ...]
) -> None:
    request = request_for(
        recording, since=None if since is None else at(since), until=None if until is None else at(until)
    )
    assert [cycle.cycle_at for cycle in landed_in(request)] == [at(minutes) for minutes in expected]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"since": at(16), "until": at(1_000)}, rf"from .*; the nearest is {at(15)[:19]}.* and {at(1_500)[:19]}"),
        ({"since": at(2_000)}, f"no snapshot from .*; the nearest is {at(1_500)[:19]}"),
        ({"until": at(-1)}, f"no snapshot to .*; the nearest is {at(0)[:19]}"),
        ({"since": at(5), "until": at(0)}, "before it begins"),
        ({"every": True, "at": at(0)}, "give one of the two"),
        ({"every": True, "wishes": ({"kind": "split"},)}, "carries no wishes out"),
        ({"every": True, "mode": "auto"}, "nothing is ever sent"),
        ({"since": "yesterday"}, "'yesterday' is not an ISO-8601 time"),
    ],
    ids=["gap", "after-the-last", "before-the-first", "turned-round", "moment-too", "wishes", "mode", "no-time"],
)
def test_what_cannot_be_a_window_is_told_before_anything_starts(
    recording: Path, more: dict[str, Any], words: str
) -> None:
    request = request_for(recording, **more)
    with pytest.raises(BadInput, match=words):
        landed_in(request)


def test_of_several_clusters_one_without_snapshots_in_the_range_is_told_and_has_no_cycle(
    recording: Path, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    snapshot(late, 5_000, "0000.json")
    file = tmp_path / "clusters.toml"
    file.write_text(f'[clusters.a]\nrecording = "{recording}"\n[clusters.b]\nrecording = "{late}"\n')
    told: list[str] = []
    cycles = landed_in(CycleRequest(lake="unused", configuration=str(file), until=at(10)), told.append)
    assert [(cycle.cluster, cycle.status) for cycle in cycles] == [("a", OPEN)] * 3
    assert [f"the nearest is {at(5_000)}" in one for one in told] == [True]


def test_a_folder_is_listed_once_and_a_snapshots_head_read_once_for_all_chunks(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, read = [], []
    names_in, read_header = recordings.names_in, snapshot_files.read_header

    def counting_names(folder: Path) -> Iterator[str]:
        listed.append(folder)
        return names_in(folder)

    def counting_heads(path: Path, *more: Any) -> snapshot_files.Header:
        read.append(path.name)
        return read_header(path, *more)

    monkeypatch.setattr(recordings, "names_in", counting_names)
    monkeypatch.setattr(snapshot_files, "read_header", counting_heads)
    landed_in(request_for(recording, every=True))
    assert len(listed) == 1
    landed_in(request_for(recording, since=at(10)))
    readable = [name for name in read if name not in ("0003.json.gz", "0007.json")]
    assert sorted(readable) == sorted(set(readable))
    snapshot(recording, 20, "0005.json")
    assert at(20) in [one.cycle_at for one in Recording(recording).snapshots], "a file that changed is read anew"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2) as running:
        yield running


def test_a_running_clusters_window_is_what_was_landed_and_asks_nobody(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text(f'[clusters.east]\nadmin = "{cluster.url}"\n')
    request = CycleRequest(lake="unused", configuration=str(file), kind="backfill", every=True)
    with pytest.raises(BadInput, match="a window takes what was landed"):
        landed_in(request)
    landed = tmp_path / "landing" / "east"
    moments = [FINISHED_AT + timedelta(minutes=5 * n) for n in range(4)]
    for n, moment in enumerate(moments):
        snapshot(landed, 5 * n, f"{milliseconds(moment)}.json.gz", full=n == 0)
    (landed / f"{milliseconds(moments[2])}.json.gz").write_bytes(b"broken")
    cycles = landed_in(request)
    assert [(cycle.cycle_at, cycle.status) for cycle in cycles] == [
        (utc_text(moment), SKIPPED if n == 2 else OPEN) for n, moment in enumerate(moments)
    ]
    assert f"the cluster was not observed: the snapshot {landed}/" in str(cycles[2].reason)
    assert cycles == alone(request, cycles)
    assert cluster.seen == []


def test_a_window_over_a_landing_zone_takes_what_was_fetched_and_asks_no_store(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[clusters.far]\ns3 = "s3://bucket/prefix"\n')
    for n in range(3):
        snapshot(tmp_path / "landing" / "far", n, f"{milliseconds(FINISHED_AT + timedelta(minutes=n))}.json.gz")
    request = CycleRequest(lake="unused", configuration=str(file), since=at(1))
    cycles = landed_in(request)
    assert [(cycle.cycle_at, cycle.source) for cycle in cycles] == [(at(1), "s3"), (at(2), "s3")]


def shown(file: Path, *clusters: str) -> None:
    """Lets a snapshot name these clusters; without any, none."""
    document = json.loads(file.read_text())
    others = [one for one in document["requests"] if one["path"] != "/admin/v2/clusters"]
    (asked,) = (one for one in document["requests"] if one["path"] == "/admin/v2/clusters")
    document["requests"] = [*others, {**asked, "body": json.dumps(clusters)}] if clusters else others
    file.write_text(json.dumps(document))


def alone(request: CycleRequest, cycles: Iterable[ClusterCycle]) -> list[ClusterCycle]:
    """The cycles as runs of their moments open them."""
    return [found for one in cycles for found in cycles_of(replace(request, every=False, at=one.cycle_at))]


def test_a_recording_names_its_cluster_by_any_snapshot_that_does(recording: Path) -> None:
    for name in ("0005.json", "0006.json"):
        shown(recording / name)
    request = request_for(recording, every=True)
    cycles = landed_in(request)
    assert {cycle.cluster for cycle in cycles} == {"lab"}
    assert alone(request, cycles) == cycles
    check(replace(request, every=False, at=at(MINUTES[3])))


def test_each_snapshot_of_a_folder_that_holds_several_clusters_is_one_of_its_own(recording: Path) -> None:
    shown(recording / "0005.json", "other")
    shown(recording / "0006.json", "lab", "peer")  # its configuration says which
    shown(recording / "0000.json")
    shown(recording / "0001.json", "a\ud800b")  # no name in Pulsar
    request = request_for(recording, every=True)
    cycles = landed_in(request)
    assert [cycle.cluster for cycle in cycles] == ["lab", "lab", "lab", "other", "lab"]
    assert alone(request, cycles) == cycles
    named = replace(request, clusters=("mine",))
    assert {cycle.cluster for cycle in landed_in(named)} == {"mine"}
    assert alone(named, landed_in(named)) == landed_in(named)


def test_a_folder_in_which_no_snapshot_names_a_cluster_needs_a_name(recording: Path) -> None:
    for file in recording.glob("000[01456].json"):
        shown(file)
    whole = recording / "0002.json.gz"
    whole.write_bytes(gzip.compress(gzip.decompress(whole.read_bytes()).replace(b"/clusters", b"/nothing")))
    request = request_for(recording, every=True)
    for ask in (landed_in, lambda asked: cycles_of(replace(asked, every=False))):
        with pytest.raises(BadInput, match="the cluster's name is unknown"):
            ask(request)
    assert len(landed_in(replace(request, clusters=("mine",)))) == len(MINUTES)


def test_snapshots_packed_or_not_are_the_same_window(recording: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    shutil.copytree(recording, packed)
    for file in packed.glob("*.json"):
        file.with_suffix(".json.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    moments = [[cycle.cycle_at for cycle in landed_in(request_for(one, every=True))] for one in (recording, packed)]
    assert moments[0] == moments[1]


def test_a_window_ends_with_the_moment_and_not_with_the_clock(recording: Path) -> None:
    later = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    assert len(landed_in(request_for(recording, since=at(0), until=later))) == len(MINUTES)
