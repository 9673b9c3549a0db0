"""The status of several lakes: all clusters, the most urgent first, and a line per lake that cannot be read."""

import time
from pathlib import Path
from threading import Barrier, Event

import pytest

from evenkeel.lake.record.recent_rows import Recent
from evenkeel.status.lakes import LakesStatus, SideBySideReader, read_lakes_status
from tests.lakes.several_lakes import Installation, several_lakes

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path) -> Installation:
    return several_lakes(tmp_path)


def placed(status: LakesStatus) -> list[tuple[str, str]]:
    return [(lake, line.cluster) for lake, line in status.lines]


def test_clusters_of_all_lakes_stand_together_and_a_moved_one_in_its_own_lake(made: Installation) -> None:
    found = read_lakes_status(made.lakes(), made.now)
    assert placed(found) == [("north", "eu-1"), ("north", "eu-2"), ("south", "uk"), ("south", "us-1")]
    assert [(one.name, one.clusters, one.fault) for one in found.lakes] == [
        ("north", 2, ""),
        ("south", 2, ""),
        ("old", 0, ""),
    ]
    assert [(one.cluster, one.before, one.now) for one in found.moved] == [("uk", "old", "south")]


def test_a_lake_that_is_gone_or_damaged_is_one_line_and_the_others_stand(made: Installation) -> None:
    made.lose("north")
    for file in Path(made.path("old"), "cycles", "_delta_log").glob("*.json"):
        file.write_text("{")
    found = read_lakes_status(made.lakes(), made.now)
    assert placed(found) == [("south", "uk"), ("south", "us-1")]
    assert [one.name for one in found.faulty] == ["north", "old"]
    assert "there is no lake at" in found.faulty[0].fault
    assert "\n" not in found.faulty[1].fault


def test_a_lake_that_nothing_belongs_to_need_not_be_there(made: Installation) -> None:
    made.lose("old")
    assert read_lakes_status(made.lakes(), made.now).faulty == ()


def test_a_cluster_that_has_no_cycle_in_its_new_lake_yet_is_named_among_the_moved(made: Installation) -> None:
    text = made.file.read_text().replace("['us-*', 'uk']", "['us-*', 'uk', 'eu-2']")
    made.file.write_text(text)
    found = read_lakes_status(made.lakes(), made.now)
    assert ("north", "eu-2") not in placed(found)
    assert [(one.cluster, one.before, one.now) for one in found.moved] == [
        ("eu-2", "north", "south"),
        ("uk", "old", "south"),
    ]


def test_what_was_read_before_serves_the_next_look(made: Installation) -> None:
    known: dict[str, Recent] = {}

    def recent(path: str) -> Recent:
        return known.setdefault(path, Recent(path))

    reader = SideBySideReader(recent)
    first = read_lakes_status(made.lakes(), made.now, reader)
    assert len(known) == 3
    assert read_lakes_status(made.lakes(), made.now, reader) == first


def test_lakes_are_read_at_the_same_time(made: Installation) -> None:
    together = Barrier(3)

    def recent(path: str) -> Recent:
        together.wait(60)  # raises where the others do not come, so that the lake would be faulty
        return Recent(path)

    assert read_lakes_status(made.lakes(), made.now, SideBySideReader(recent)).faulty == ()


def test_a_lake_that_does_not_answer_holds_no_other_up_and_is_shown_once_it_does(made: Installation) -> None:
    answers, asked, known = Event(), list[str](), dict[str, Recent]()
    north = made.path("north")

    def recent(path: str) -> Recent:
        asked.append(path)
        assert path != north or answers.wait(120)
        return known.setdefault(path, Recent(path))

    SideBySideReader(recent).read([made.path("south"), made.path("old")])  # from here on they take some milliseconds
    reader = SideBySideReader(recent, longest_seconds=5.0)
    for _ in range(2):
        found = read_lakes_status(made.lakes(), made.now, reader)
        assert placed(found) == [("south", "uk"), ("south", "us-1")]
        (slow,) = found.faulty
        assert slow.fault == "it was not read within 5 s; it is read on, and shown once that is done"
    assert reader.is_under_way(north)
    assert asked.count(north) == 1, "one thread waits for it, however often it is looked at"
    answers.set()
    ends = time.monotonic() + 60
    while reader.is_under_way(north):
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert read_lakes_status(made.lakes(), made.now, reader).faulty == ()
