"""What a soak says of its figures, and a short one under a real Airflow, ended and gone on with."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from devtools.soak.__main__ import main
from devtools.soak.figures import WARM_UP, Cycle, add_cycle, faults, growth, read_cycles, summary
from evenkeel.lake.record import read_attempts


def cycles(count: int, *, parts: int = 1, per_hundred: float = 0.0, noise: float = 0.2) -> list[Cycle]:
    """Cycles of 5 s with that much noise (s), that grow by so many seconds in a hundred."""
    chance = random.Random(7)
    found = []
    for number in range(1, count + 1):
        part = 1 + (number - 1) * parts // count
        seconds = 5.0 + part + per_hundred * number / 100 + chance.gauss(0.0, noise)
        found.append(Cycle(number, part, "2026-11-27T10:00:00+00:00", seconds, "success", "", "", 900.0, 700.0, 0))
    return found


def test_level_figures_are_level_whatever_the_height_of_their_parts() -> None:
    grown = growth(cycles(300, parts=3), lambda cycle: cycle.seconds)
    assert grown is not None
    assert abs(grown.percent) < grown.off < 2.0
    assert grown.cycles == 300 - 3 * WARM_UP
    assert faults(cycles(300, parts=3)) == []


def test_what_an_upkeep_takes_is_no_growth() -> None:
    seen = cycles(300)
    for place, cycle in enumerate(seen):
        if place >= 150:
            seen[place] = replace(cycle, upkeep="success" if place == 150 else "", server_mb=1_800.0 + place % 3)
        else:
            seen[place] = replace(cycle, server_mb=900.0 + place % 3)
    grown = growth(seen, lambda cycle: cycle.server_mb)
    assert grown is not None
    assert grown.cycles == 300 - 2 * WARM_UP
    assert abs(grown.percent) <= grown.off < 0.1
    assert faults(seen) == []


def test_figures_that_grow_are_told_with_how_much() -> None:
    grown = growth(cycles(300, per_hundred=0.4), lambda cycle: cycle.seconds)
    assert grown is not None
    mean = 6.0 + 0.4 * (WARM_UP + 301) / 200
    assert grown.percent == pytest.approx(100 * 0.4 / mean, abs=grown.off)
    (fault,) = faults(cycles(300, per_hundred=0.4))
    assert fault.startswith("seconds of a cycle grow: ")


def test_cycles_that_failed_and_upkeeps_that_failed_are_told() -> None:
    seen = cycles(40)
    seen[3] = replace(seen[3], state="failed")
    seen[7] = replace(seen[7], state="failed", killed="shed")
    seen[9] = replace(seen[9], upkeep="failed")
    assert faults(seen) == [
        "cycle 4 ended as failed",
        "cycle 8 ended as failed (shed was killed in it)",
        "the upkeep after cycle 10 ended as failed",
    ]
    first, *_, airflow = summary(seen)
    assert first == "40 cycles, 1 with a task killed, 1 starts of the Spark server, 1 upkeeps"
    assert airflow == "MB of Airflow: too few cycles to say, at most 700.0"


def test_too_few_cycles_say_nothing() -> None:
    assert growth(cycles(WARM_UP + 5), lambda cycle: cycle.seconds) is None
    assert growth([], lambda cycle: cycle.seconds) is None


def test_lines_come_back_and_one_that_was_cut_is_left_out(tmp_path: Path) -> None:
    file, (first, second) = tmp_path / "cycles.jsonl", cycles(2)
    assert read_cycles(file) == []
    add_cycle(file, first)
    with file.open("a") as out:
        out.write('{"number": 2, "par')
    add_cycle(file, second)
    assert read_cycles(file) == [first, second]


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.exhaustive
def test_a_short_soak_goes_on_with_what_it_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--every", "4", "--folder", str(tmp_path)]
    assert main([*words, "--cycles", "3"]) == 0
    assert main([*words, "--cycles", "2"]) == 0
    seen = read_cycles(tmp_path / "cycles.jsonl")
    assert [cycle.number for cycle in seen] == [1, 2, 3, 4, 5]
    assert [cycle.part for cycle in seen] == [1, 2, 2, 3, 3]
    assert [bool(cycle.killed) for cycle in seen] == [False, False, True, False, False]
    assert [cycle.upkeep for cycle in seen] == ["", "", "", "success", ""]
    attempts = read_attempts(tmp_path / "lake")
    assert [attempt.status for attempt in attempts] == ["closed"] * 5
    # A run of the soak records one snapshot before Airflow starts, which no cycle decides.
    before = [attempt.planned["predecessor_status"] for attempt in attempts]
    assert before == ["missing", "used", "used", "older", "used"]
    assert "5 cycles, 1 with a task killed, 3 starts of the Spark server, 1 upkeeps" in capsys.readouterr().out
