"""Which cycles a window takes, and how it is cut into chunks."""

import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput, NothingLanded
from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.ingest import chunks
from evenkeel.ingest.chunks import in_chunks, landed_bytes, landed_in
from evenkeel.ingest.open_run import CycleRequest

RECORDINGS = Path(__file__).resolve().parents[2] / "demo" / "recordings"
RECORDING = RECORDINGS / "own-threshold"


def over(recording: Path, **more: object) -> CycleRequest:
    return CycleRequest("lake", source=f"recording:{recording}", every=True, **more)  # type: ignore[arg-type]


def test_a_window_without_bounds_takes_every_snapshot_in_the_order_of_time() -> None:
    found = landed_in(over(RECORDING))
    assert [one.cycle_at for one in found] == sorted(one.cycle_at for one in found)
    assert [Path(one.snapshot.path) for one in found] == sorted(RECORDING.glob("0*.gz"))
    assert {one.cluster for one in found} == {"lab"}


def test_where_nothing_was_landed_the_nearest_is_named() -> None:
    (*_, last) = landed_in(over(RECORDING))
    with pytest.raises(NothingLanded, match=rf"no snapshot from 2027.*the nearest is {last.cycle_at[:19]}"):
        landed_in(over(RECORDING, since="2027-01-01T00:00:00+00:00"))


def test_a_cluster_without_snapshots_is_told_and_the_others_are_taken(tmp_path: Path) -> None:
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text(f'[clusters.east]\nrecording = "{RECORDING}"\n[clusters.gone]\nrecording = "gone"\n')
    told: list[str] = []
    found = landed_in(CycleRequest("lake", configuration=str(configuration), every=True), told.append)
    assert {one.cluster for one in found} == {"east"}
    assert len(told) == 1
    assert "the folder does not exist" in told[0]
    late = CycleRequest("lake", configuration=str(configuration), since="2027-01-01T00:00:00+00:00")
    with pytest.raises(BadInput, match="the folder does not exist"):
        landed_in(late, told.append)


@pytest.mark.parametrize("there", [False, True], ids=["no-folder", "empty-folder"])
def test_a_landing_zone_of_which_nothing_was_fetched_yet_has_nothing_landed(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "landing" / "far").mkdir(parents=True)
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text('[clusters.far]\ns3 = "s3://bucket/prefix"\n')
    request = CycleRequest("lake", configuration=str(configuration), every=True)
    with pytest.raises(NothingLanded, match=r"landing/far holds no snapshot yet: `rebalance` fetches .*s3://bucket"):
        landed_in(request)
    shutil.copytree(RECORDING, tmp_path / "east")
    configuration.write_text(configuration.read_text() + '[clusters.east]\nrecording = "east"\n')
    told: list[str] = []
    assert {one.cluster for one in landed_in(request, told.append)} == {"east"}
    assert len(told) == 1
    configuration.write_text(configuration.read_text().replace('"east"', '"gone"'))
    with pytest.raises(BadInput, match="the folder does not exist"):
        landed_in(request)


def test_what_was_fetched_and_cannot_be_read_is_no_absence(tmp_path: Path) -> None:
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text('[clusters.far]\ns3 = "s3://bucket/prefix"\n')
    request = CycleRequest("lake", configuration=str(configuration), every=True)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "far").write_text("no folder")
    with pytest.raises(BadInput, match="the folder does not exist") as refused:
        landed_in(request)
    assert not isinstance(refused.value, NothingLanded)
    (tmp_path / "landing" / "far").unlink()
    (tmp_path / "landing" / "far").mkdir()
    (tmp_path / "landing" / "far" / "1764000000000.json.gz").write_bytes(b"broken")
    with pytest.raises(BadInput, match="no readable snapshot") as refused:
        landed_in(request)
    assert not isinstance(refused.value, NothingLanded)


def test_clusters_of_a_configuration_lie_in_the_window_by_time(tmp_path: Path) -> None:
    for name in ("east", "west"):
        shutil.copytree(RECORDING, tmp_path / name)
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text('[clusters.east]\nrecording = "east"\n[clusters.west]\nrecording = "west"\n')
    found = landed_in(CycleRequest("lake", configuration=str(configuration), every=True))
    assert [one.cluster for one in found] == ["east", "west"] * 4
    assert [one.key for one in found] == sorted((one.key for one in found), key=lambda key: (key[1], key[0]))
    named = landed_in(CycleRequest("lake", configuration=str(configuration), clusters=("west",), every=True))
    assert {one.cluster for one in named} == {"west"}


def cycles(*sizes: float) -> list[ClusterCycle]:
    """A cycle for each size, whose snapshot's path names the size."""
    return [ClusterCycle("c", f"{n:04d}", Snapshot(str(size), f"{n:04d}"), {}) for n, size in enumerate(sizes)]


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "landed_bytes", float)


@pytest.mark.usefixtures("sized")
def test_chunks_hold_all_in_order_and_no_more_than_they_may() -> None:
    @given(st.lists(st.floats(0, 100), max_size=40), st.integers(1, 7), st.floats(1, 250))
    def hold(sizes: list[float], most: int, size: float) -> None:
        found = cycles(*sizes)
        cut = in_chunks(found, most, size)
        assert [one for chunk in cut for one in chunk] == found
        together = [sum(float(one.snapshot.path) for one in chunk) for chunk in cut]
        for number, chunk in enumerate(cut):
            assert 1 <= len(chunk) <= most
            assert len(chunk) == 1 or together[number] <= size
        for (number, before), after in zip(enumerate(cut), cut[1:], strict=False):
            full = together[number] + float(after[0].snapshot.path) > size
            assert len(before) == most or full, "cut too early"

    hold()


@pytest.mark.usefixtures("sized")
def test_a_snapshot_of_unknown_size_is_a_chunk_of_its_own_and_none_takes_no_room() -> None:
    assert [len(chunk) for chunk in in_chunks(cycles(1.0, math.inf, 1.0, 1.0), 10, 100.0)] == [1, 1, 2]
    without = [ClusterCycle("c", f"{n}", Snapshot("", f"{n}"), {}) for n in range(3)]
    assert [len(chunk) for chunk in in_chunks(without, 10, 1.0)] == [3]


def test_sizes() -> None:
    assert landed_bytes("/nowhere/0000.json.gz") == math.inf
    assert landed_bytes(f"file://{RECORDING / '0000.json.gz'}") == (RECORDING / "0000.json.gz").stat().st_size
