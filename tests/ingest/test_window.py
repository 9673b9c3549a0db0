"""Which landed snapshots a window takes, and how it is cut into chunks."""

from __future__ import annotations

import math
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.ingest.window import Landed, in_chunks, landed_bytes, landed_in, undecided

RECORDINGS = Path(__file__).resolve().parents[2] / "demo" / "recordings"
RECORDING = RECORDINGS / "own-threshold"


def over(recording: Path, **more: object) -> CycleRequest:
    return CycleRequest("lake", source=f"recording:{recording}", every=True, **more)  # type: ignore[arg-type]


def test_a_window_without_bounds_takes_every_snapshot_in_the_order_of_time() -> None:
    found = landed_in(over(RECORDING))
    assert [one.cycle_at for one in found] == sorted(one.cycle_at for one in found)
    assert len(found) == 4
    assert {one.cluster for one in found} == {"lab"}
    assert [one.size for one in found] == [file.stat().st_size for file in sorted(RECORDING.glob("0*.gz"))]


def test_both_bounds_belong_to_the_window() -> None:
    moments = [one.cycle_at for one in landed_in(over(RECORDING))]
    within = landed_in(over(RECORDING, since=moments[1], until=moments[2]))
    assert [one.cycle_at for one in within] == moments[1:3]
    assert [one.cycle_at for one in landed_in(over(RECORDING, since=moments[3]))] == moments[3:]
    assert [one.cycle_at for one in landed_in(over(RECORDING, until=moments[0]))] == moments[:1]


def test_a_range_without_a_snapshot_names_the_nearest() -> None:
    moments = [one.cycle_at for one in landed_in(over(RECORDING))]
    with pytest.raises(BadInput, match=rf"no snapshot was landed from .*nearest are of {moments[3][:19]}"):
        landed_in(over(RECORDING, since="2027-01-01T00:00:00+00:00"))
    between = moments[0].replace(".", ":")[:19] + ".999999+00:00"
    with pytest.raises(BadInput, match=rf"nearest are of {moments[0][:19]}.* and {moments[1][:19]}"):
        landed_in(over(RECORDING, since=between, until=between))


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


snapshots = st.lists(st.floats(0, 100), max_size=40).map(
    lambda sizes: [Landed("c", f"{n:04d}", size) for n, size in enumerate(sizes)]
)


@given(snapshots, st.integers(1, 7), st.floats(1, 250))
def test_chunks_hold_all_in_order_and_no_more_than_they_may(found: list[Landed], most: int, size: float) -> None:
    chunks = in_chunks(found, most, size)
    assert [one for chunk in chunks for one in chunk] == found
    for chunk in chunks:
        assert 1 <= len(chunk) <= most
        assert len(chunk) == 1 or sum(one.size for one in chunk) <= size
    for before, after in pairwise(chunks):
        assert len(before) == most or sum(one.size for one in before) + after[0].size > size, "cut too early"


def test_a_snapshot_of_unknown_size_is_a_chunk_of_its_own() -> None:
    found = [Landed("c", f"{n}", math.inf if n == 1 else 1.0) for n in range(4)]
    assert [len(chunk) for chunk in in_chunks(found, 10, 100.0)] == [1, 1, 2]
    assert landed_bytes("/nowhere/0000.json.gz") == math.inf


def test_what_is_decided_is_left_out_by_cluster_and_moment() -> None:
    found = [Landed("a", "1", 1), Landed("b", "1", 1), Landed("a", "2", 1)]
    assert list(undecided(found, frozenset({("a", "1"), ("c", "2")}))) == found[1:]
