"""The status of several lakes: all clusters, the most urgent first, and a line per lake that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.record.read.recent import Recent
from evenkeel.record.status.lakes import LakesStatus, read_lakes_status
from tests.several_lakes import Installation, several_lakes


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

    first = read_lakes_status(made.lakes(), made.now, recent)
    assert len(known) == 3
    assert read_lakes_status(made.lakes(), made.now, recent) == first
