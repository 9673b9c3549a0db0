"""A simulation of recorded traffic stands beside the record, and begins where the record began.

A hot bundle goes to and fro between two brokers for an hour and a half, by settings that are mended afterwards.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.replay.simulation import SimulationRequest, asked_simulation, play
from tests.lakes.plausible import broker_load, bundle_load, remembered, settings
from tests.lakes.small_lake import SmallLake

BEGIN = datetime(2026, 11, 17, 12, tzinfo=UTC)
A, B = "a.example:8080", "b.example:8080"
HOT = "shop/checkout/0x00000000_0x40000000"
COLD = {"shop/checkout/0x40000000_0x80000000": A, "shop/checkout/0x80000000_0xc0000000": B}
THRASHING = {
    "loadBalancerBrokerThresholdShedderPercentage": 5, "loadBalancerHistoryResourcePercentage": 0.0,
    "loadBalancerSheddingGracePeriodMinutes": 0, "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
    "loadBalancerSheddingIntervalMinutes": 1, "evenkeelGuardsEnabled": False,
}  # fmt: skip
MENDED = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
CYCLES, MENDED_FROM = 16, 10


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = SmallLake(tmp_path_factory.mktemp("thrashed") / "lake")
    before = made.add("shop", BEGIN - timedelta(minutes=10), {"strategy_state": remembered({A: 0.7, B: 0.2})})
    state = {"table": "strategy_state", "write_id": f"{1:032x}", "version": 1, "rows": 2, "commit": "c"}
    with made.one_commit():
        for n in range(CYCLES):
            hot = A if n % 2 == 0 or n >= MENDED_FROM else B
            flows = {HOT: (hot, 9e6), **{bundle: (owner, 1e6) for bundle, owner in COLD.items()}}
            usage = {broker: 0.1 + sum(f for o, f in flows.values() if o == broker) / 2e7 for broker in (A, B)}
            made.add(
                "shop", BEGIN + timedelta(minutes=10 * n),
                {
                    "bundle_load": [
                        bundle_load(name, owner, flow, **long_averages(flow)) for name, (owner, flow) in flows.items()
                    ],
                    "broker_load": [
                        broker_load(
                            broker, value, msg_throughput_in=(value - 0.1) * 1e7, msg_throughput_out=(value - 0.1) * 1e7
                        )
                        for broker, value in usage.items()
                    ],
                    "settings": settings(MENDED if n >= MENDED_FROM else THRASHING),
                },
                plan_id=f"{n:02x}" + "9f1c" * 15, manager="modular", splits=0, unloads=1, refusals=0, held=2,
                settings_digest=settings(MENDED if n >= MENDED_FROM else THRASHING)[0]["settings_digest"],
                predecessor_cycle_at=BEGIN + timedelta(minutes=10 * (n - 1)), predecessor_attempt_id=before,
                reads=[state] if n == 0 else [],
            )  # fmt: skip
    return made.root


def long_averages(throughput: float) -> dict[str, float]:
    figures = {"msg_throughput": throughput / 2, "msg_rate": throughput / 1880}
    return {f"long_{name}_{way}": value for name, value in figures.items() for way in ("in", "out")}


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
