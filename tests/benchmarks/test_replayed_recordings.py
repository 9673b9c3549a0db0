"""The tables that the benchmark prints: the cluster's own moves beside what was decided, and the model's error."""

from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.replayed_recordings import Replayed, error_table, main, reproduced_lines, shedder_table
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.recorded_traffic import Error, Shift
from evenkeel.replay.variants import AGAIN, RECORDED

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def row(variant: str, moves: int, *, reproduced: bool | None = None) -> dict[str, Any]:
    counts = dict.fromkeys(("bounces", "splits", "held", "only_here", "only_recorded"), 0)
    shares = {"after_max_over_mean": 1.25, "before_max_over_mean": 1.5, "after_spread": 0.07, "over_limit": False}
    return {**counts, **shares, "variant": variant, "cycle_at": AT, "moves": moves, "moved_traffic_share": 0.1 * moves,
            "reproduced": reproduced, "only_here": int(variant == "AvgShedder")}  # fmt: skip


@pytest.fixture
def found() -> list[Replayed]:
    comparison = VariantComparison("r", "own-x", {"AvgShedder": "other", AGAIN: "recorded settings"}, 0.85)
    for one in (row(RECORDED, 2), row("AvgShedder", 1), row(AGAIN, 2, reproduced=False)):
        comparison.add(one)
    error = Error(6, 0.09, 0.08, 0.2, 3, Shift(1, 0.02, 0.3))
    return [
        Replayed("own-x", 26, error, "ThresholdShedder", 5, comparison),
        Replayed("by-hand-y", 22, Error(6, 0.1, 0.11, 0.2, 0)),
    ]


def test_own_moves_stand_above_what_was_recorded_and_what_others_would_have_done(found: list[Replayed]) -> None:
    assert list(shedder_table(found))[2:] == [
        "| ThresholdShedder at work | own | 5 |  |  |  |  |  |",
        "|  | recorded | 2 | 0 | 20.0 % | 1.250 | 7.0 % |  |",
        "|  | AvgShedder | 1 | 0 | 10.0 % | 1.250 | 7.0 % | 1 |",
    ]
    assert list(reproduced_lines(found)) == ["own-x, recorded settings: 0 of 1 recorded plans reproduced"]


def test_the_error_of_where_nothing_moved_has_no_figure_about_moves(found: list[Replayed]) -> None:
    assert list(error_table(found))[2:] == [
        "| own-x | 26 | 3 | 9.0 | 8.0 | 2.0 | 30.0 |",
        "| by-hand-y | 22 | 0 | 10.0 | 11.0 |  |  |",
    ]


def test_without_recordings_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "--recordings" in capsys.readouterr().out
