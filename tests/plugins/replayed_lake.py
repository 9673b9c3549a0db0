"""A lake with replays in it, without a JVM: their rows are those of real simulations of generated traffic."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.replay.closed_loop import CLUSTER, ModelSteering, Size, scenario, simulate
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.fold import CYCLES
from evenkeel.replay.history import CLOSED_LOOP, OPEN_LOOP
from evenkeel.replay.simulation import default_settings
from evenkeel.replay.variants import RECORDED, Variant, settings_of
from tests.lakes.plausible import broker_load, settings
from tests.lakes.small_lake import Row, SmallLake

EU, US = "eu-1", "us-1"
OFF = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
UNIFORM = {
    "loadBalancerLoadSheddingStrategy": "UniformLoadShedder", "loadBalancerMsgRateDifferenceShedderThreshold": 20.0,
    "maxUnloadPercentage": 0.5, "loadBalancerDistributeBundlesEvenlyEnabled": False,
}  # fmt: skip
AVG = {"loadBalancerLoadSheddingStrategy": "AvgShedder"}
IN_FORCE = {"loadBalancerBrokerThresholdShedderPercentage": 15}
BEGIN = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


class ReplayedLake(SmallLake):
    """Adds cycles of a cluster, and replays of it."""

    def cluster(self, name: str, cycles: int = 3) -> None:
        """So many decided cycles, a minute apart, with `IN_FORCE` over the defaults."""
        rows = settings(IN_FORCE)
        for n in range(cycles):
            self.add(
                name, BEGIN + timedelta(minutes=n), {"settings": rows, "broker_load": [broker_load("b1:8080", 0.5)]},
                plan_id=f"{n:02x}" + "9f1c" * 15, settings_digest=rows[0]["settings_digest"], manager="modular",
                splits=0, unloads=0, refusals=0,
            )  # fmt: skip

    def replay(
        self, replay_id: str, cluster: str, variants: Mapping[str, Mapping[str, Any]], *, kind: str = OPEN_LOOP,
        cycles: int = 30, minutes: int = 0, kept: int | None = None, error: Mapping[str, Any] | None = None,
    ) -> VariantComparison:  # fmt: skip
        """A replay, made so many minutes after the first; `kept`: rows that are still there, None for all."""
        made = scenario("zipf", Size(bundles=24, cycles=cycles), 7)
        words = {name: Variant(name, dict(values)).described() for name, values in variants.items() if name != RECORDED}
        comparison = VariantComparison(replay_id, cluster, words, 0.85)
        stamp = {"write_id": f"{replay_id:0<32}"[:32], "replay_id": replay_id}
        rows: list[Row] = []
        base = default_settings()
        for name, values in variants.items():
            own = settings_of(Variant(name, dict(values)), base, "modular", cluster)
            for table, row in simulate(made, ModelSteering(name, (own,), 0.85, cluster)):
                if table == CYCLES:
                    comparison.add(row)
                    rows.append({**row, **stamp, "cycle_date": row["cycle_at"].date()})
        self.append(CYCLES, rows[:kept])
        is_model = kind == CLOSED_LOOP
        scenario_row = {"name": "zipf", "seed": None if error else 7, "error": error}
        write = {"table": CYCLES, "write_id": stamp["write_id"], "version": 1, "rows": len(rows), "commit": "d"}
        run = {
            "cluster": cluster, "replay_id": replay_id, "kind": kind, "since": made.moments[0],
            "until": made.moments[-1], "cycles": cycles, "variants": json.dumps(words), "limit": 0.85,
            "scenario": json.dumps(scenario_row) if is_model else None,
            "summary": json.dumps(comparison.rows()), "writes": [write], "code_version": "1.0.0",
            "code_digest": "c0de", "made_at": BEGIN + timedelta(minutes=minutes),
        }  # fmt: skip
        self.append("replay_runs", [run])
        return comparison


def replayed_lake(root: Path, names: tuple[str, ...] = ()) -> Path:
    """Two clusters; of one two replays, of the other one, and a simulation. `names`: of further variants."""
    lake = ReplayedLake(root)
    lake.cluster(EU)
    lake.cluster(US)
    hostile = {name: {**AVG, "loadBalancerAvgShedderLowThreshold": 5 + n} for n, name in enumerate(names)}
    lake.replay("first", EU, {RECORDED: OFF, "UniformLoadShedder": UNIFORM, "AvgShedder": AVG, **hostile})
    lake.replay("second", EU, {"UniformLoadShedder": UNIFORM}, minutes=1)
    lake.replay("elsewhere", US, {"again": {}}, minutes=2)
    lake.replay("model", CLUSTER, {"untouched": OFF, "eager": UNIFORM}, kind=CLOSED_LOOP, minutes=3)
    return root
