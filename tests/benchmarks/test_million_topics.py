"""Which goals of a large cycle count as missed."""

import pytest

from benchmarks.machine import Cost
from benchmarks.million_topics import WHOLE, faults_of


@pytest.mark.parametrize(
    ("topics", "seconds", "megabytes", "faults"),
    [
        ((100_000, 1_000_000), 180.0, 6_144.0, []),
        ((100_000, 1_000_000), 181.0, 6_145.0, ["the cycle took 181 s", "6,145 MB were used"]),
        ((1_000_000, 10_000_000), 480.0, 12_288.0, []),
        ((1_000_000, 10_000_000), 481.0, 12_289.0, ["the cycle took 481 s", "12,289 MB were used"]),
        ((10_000_000, 20_000_000), 900.0, 20_000.0, []),
    ],
)
def test_the_goals_are_those_of_the_most_topics(
    topics: tuple[int, int], seconds: float, megabytes: float, faults: list[str]
) -> None:
    few, many = topics
    measured = {
        many: {WHOLE: Cost(seconds, 2 * seconds, megabytes)},
        few: {WHOLE: Cost(seconds / 2, seconds, megabytes)},
    }
    found = faults_of(measured)
    assert len(found) == len(faults)
    assert all(one.startswith(words) for one, words in zip(found, faults, strict=True))


def test_a_task_that_grows_faster_than_the_topics_is_a_fault() -> None:
    measured = {
        100: {"ingest": Cost(1.0, 1.0, 1.0), "shed": Cost(1.0, 1.0, 1.0), WHOLE: Cost(2.0, 2.0, 1.0)},
        1_000: {"ingest": Cost(10.0, 9.0, 1.0), "shed": Cost(10.1, 5.0, 1.0), WHOLE: Cost(20.0, 14.0, 1.0)},
    }
    assert faults_of(measured) == ["shed grew faster than linearly"]
