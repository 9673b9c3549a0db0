"""A lake of one cluster whose hot bundle goes to and fro for ten cycles, by settings that are mended afterwards."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

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


def thrashed_lake(root: Path) -> Path:
    """A cycle every ten minutes; the state that the first one starts from is on record."""
    made = SmallLake(root)
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
