"""The tutorial's recording: the one that its generator writes, and a cluster that does what the tutorial says of it."""

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.observed_rows import observe
from evenkeel.pulsar.snapshot import SnapshotView
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.sources.snapshot_files import utc
from tests.snapshot_lines import requests_of
from tests.tutorial.run import RECORDING
from tests.tutorial.snapshots import write
from tests.tutorial.thrash import AFTER, BEFORE, CHANGED_AT, CLUSTER, HOT, MOMENTS, Moment, course

MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def moments() -> list[Moment]:
    return [*course()]


def test_the_recording_is_what_the_generator_writes(tmp_path: Path) -> None:
    written = {file.name: gzip.decompress(file.read_bytes()) for file in write(tmp_path)}
    assert written == {file.name: gzip.decompress(file.read_bytes()) for file in RECORDING.iterdir()}
    assert sum(file.stat().st_size for file in RECORDING.iterdir()) < MOST_BYTES


def test_another_seed_is_another_course() -> None:
    assert [*course(1)] != [*course(2)]


def test_nothing_moves_before_the_change_and_one_bundle_goes_to_and_fro_after_it(moments: list[Moment]) -> None:
    assert [moment.settings for moment in moments] == [BEFORE] * CHANGED_AT + [AFTER] * (MOMENTS - CHANGED_AT)
    owners = [moment.owners for moment in moments]
    moved = [{bundle for bundle in now if now[bundle] != was[bundle]} for was, now in pairwise(owners)]
    assert moved == [set()] * CHANGED_AT + [{HOT}] * (MOMENTS - 1 - CHANGED_AT)
    assert len({moment.owners[HOT] for moment in moments}) == 2


def test_whoever_has_the_hot_bundle_is_the_busiest(moments: list[Moment]) -> None:
    for before, now in pairwise(moments):
        busiest = max(now.usage, key=lambda broker: now.usage[broker])
        assert busiest == now.owners[HOT], (before.at, now.at)


def test_every_snapshot_is_taken_as_one_of_a_real_cluster() -> None:
    recording = Recording(RECORDING)
    assert (recording.problems, len(recording.snapshots)) == ((), MOMENTS)
    for snapshot, moment in zip(recording.snapshots, course(), strict=True):
        assert cluster_name(snapshot) == CLUSTER
        own = Answers(
            Answer(n, one["broker"], one["path"], one["status"], one["body"], utc(one["at"]), None)
            for n, one in enumerate(requests_of(Path(snapshot.path)))
        )
        observed = observe(SnapshotView(CLUSTER, "0000", moment.at, moment.at, own, Answers(()), None))
        assert observed.rejections == ()
        owned = {row["bundle"]: row["broker"] for row in observed.rows["bundle_ownership"] if row["is_owned"]}
        assert owned == moment.owners
