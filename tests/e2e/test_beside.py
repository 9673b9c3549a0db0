"""The comparison's sums, its table and its verdict."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.beside import Played, PlayedCycle, sent_of, shortfalls, table, write

SHEDDER = Played(
    "UniformLoadShedder",
    [PlayedCycle(2.13, 4, 1), PlayedCycle(1.16, 0, 0), PlayedCycle(1.16, 1, 0), PlayedCycle(1.08, 0, 0)],
    1.08, 23, 23, 120_000, 120_000, 0, 0, 12, 1.25,
)  # fmt: skip
PLANNER = replace(
    SHEDDER, variant="planner", cycles=[PlayedCycle(2.13, 3, 1), PlayedCycle(1.06, 0, 0)], max_over_mean=1.06,
    producer_reconnects=17, consumer_reconnects=17,
)  # fmt: skip


def test_cycles_are_summed_up_and_a_quiet_one_does_not_act() -> None:
    assert (SHEDDER.at_first, SHEDDER.acting_cycles, SHEDDER.moves, SHEDDER.splits) == (2.13, 2, 5, 1)
    assert (SHEDDER.reconnects, PLANNER.acting_cycles) == (46, 1)


def test_commands_count_once_they_went_out() -> None:
    commands = [{"kind": kind, "command_id": str(n)} for n, kind in enumerate(["unload"] * 4 + ["split"])]
    outcomes = {"0": "done", "1": "withheld", "2": "dry_run", "4": "timed_out"}  # of one nothing is known yet
    assert sent_of(commands, outcomes, "unload") == 2
    assert sent_of(commands, outcomes, "split") == 1
    assert sent_of(commands, {**outcomes, "4": "withheld"}, "split") == 0


def test_the_table_has_a_column_for_each_variant() -> None:
    lines = table([SHEDDER, PLANNER])
    assert {line.count("|") for line in lines} == {4}
    assert lines[0] == "|  | UniformLoadShedder | planner |"
    assert "| max/mean at the end | 1.08 | 1.06 |" in lines
    assert "| cycles that acted | 2 of 4 | 1 of 2 |" in lines
    assert "| moves, splits | 5, 1 | 3, 1 |" in lines
    assert "| reconnects (producers, consumers) | 46 (23, 23) | 34 (17, 17) |" in lines
    assert "| messages received | 120,000 | 120,000 |" in lines
    assert "| longest pause of a consumer | 1.2 s | 1.2 s |" in lines


@pytest.mark.parametrize(
    ("change", "short"),
    [
        ({}, []),
        ({"max_over_mean": 1.095}, []),
        ({"max_over_mean": 1.11}, ["max/mean 1.11 at the end"]),
        ({"cycles": SHEDDER.cycles[:1] * 3}, ["3 cycles acted"]),
        ({"producer_reconnects": 29}, ["46 reconnects are not fewer than 46"]),
        ({"received": 119_999, "lost": 1}, ["of 120,000 messages 119,999 were received, 1 were lost"]),
        ({"received": 119_999, "failed": 1}, ["0 were lost and 1 failed"]),
    ],
)
def test_where_the_planner_is_not_as_good_it_is_said(change: dict[str, object], short: list[str]) -> None:
    found = shortfalls(SHEDDER, replace(PLANNER, **change))  # type: ignore[arg-type]
    assert len(found) == len(short)
    assert all(words in said for words, said in zip(short, found, strict=True))


def test_results_are_kept_with_their_sums(tmp_path: Path) -> None:
    write(tmp_path / "results.json", "modular", [SHEDDER, PLANNER])
    found = json.loads((tmp_path / "results.json").read_text())
    assert [one["variant"] for one in found["variants"]] == ["UniformLoadShedder", "planner"]
    assert found["variants"][0]["reconnects"] == 46
    assert found["variants"][1]["cycles"][0]["moves"] == 3
