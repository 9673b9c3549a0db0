"""A simulation of recorded traffic stands beside the record, and begins where the record began."""

from pathlib import Path
from typing import Any

import pytest

from evenkeel.replay.simulation import SimulationRequest, asked_simulation, play
from tests.lakes.thrashed_lake import BEGIN, CYCLES, HOT, MENDED_FROM, A, B, thrashed_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return thrashed_lake(tmp_path_factory.mktemp("thrashed") / "lake")


def figures(lake: Path, *variants: str) -> dict[str, dict[str, Any]]:
    asked = asked_simulation(SimulationRequest(lake=str(lake), since=BEGIN.isoformat(), variants=variants))
    return {row["variant"]: row for row in play(asked, None, lambda done, total: None).rows()}


def test_the_record_is_a_row_of_its_own_with_the_moves_that_happened(lake: Path) -> None:
    rows = figures(lake, "guarded:evenkeelGuardsEnabled=true")
    assert [*rows] == ["recorded", "untouched", "guarded"]
    assert rows["recorded"]["settings"] == "as decided then"
    assert {name: rows["recorded"][name] for name in ("cycles", "moves", "bounces", "held")} == {
        "cycles": CYCLES, "moves": MENDED_FROM, "bounces": MENDED_FROM - 1, "held": 2 * CYCLES,
    }  # fmt: skip
    assert rows["recorded"]["moved_traffic"] == pytest.approx(MENDED_FROM * 9 / 11)
    assert rows["recorded"]["worst_max_over_mean"] == pytest.approx(0.6 / 0.375)


def test_a_variant_decides_each_cycle_with_the_settings_of_that_cycle(lake: Path) -> None:
    """The newest settings shed nothing: with them alone nothing would bounce in the model either."""
    again = figures(lake, "as-it-was:loadBalancerBrokerThresholdShedderPercentage=5")["as-it-was"]
    assert again["bounces"] > 0
    assert again["at_rest"] >= CYCLES - MENDED_FROM - 1


def test_it_begins_with_the_averages_and_the_state_of_the_record(lake: Path) -> None:
    asked = asked_simulation(SimulationRequest(lake=str(lake), since=BEGIN.isoformat()))
    begin = asked.stage.scenario
    assert begin.histories[HOT].short_term.samples == 7
    assert begin.histories[HOT].short_term.msg_throughput_in == 4.5e6
    assert {(row["subject"], row["name"]): row["value"] for row in begin.state} == {
        (A, "usage_average"): 0.7, (B, "usage_average"): 0.2,
    }  # fmt: skip
