"""A lake with a cycle that is not over: its plan waits for an answer, its commands go out, their outcomes come in."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.lakes.plausible import broker_load, bundle_load, decision, placement, settings
from tests.lakes.small_lake import Row, SmallLake

CLUSTER = "eu-1"
PLAN = "9f1c" * 16
B1, B2, B3 = (f"pulsar-{n}.prod:8080" for n in (1, 2, 3))
SPLIT = "shop/checkout/0x00000000_0x40000000"
MOVED = ("shop/baskets/0x00000000_0x40000000", "shop/search/0x40000000_0x80000000")
LIMIT = 0.66
THRESHOLD_KEY = "loadBalancerBrokerThresholdShedderPercentage"


class OpenCycle:
    """A cycle in mode `approve` of three brokers, with a split and two unloads; without `splits` the unloads alone."""

    def __init__(
        self, root: Path, at: datetime, *, run_id: str = "", dag_id: str = "rebalance", splits: bool = True
    ) -> None:
        self.root, self.at, self.lake = root, at, SmallLake(root)
        self.run_id = run_id or f"manual__{at.isoformat()}"
        for name in ("approvals", "commands", "outcomes"):
            self.lake.append(name, [])
        more = {"splits": int(splits), "unloads": 2, "placements": 2, "held": 0, "refusals": 0, "mode": "approve"}
        more |= {"before_max_over_mean": 1.58, "after_max_over_mean": 1.12, "moved_traffic_share": 2 / 3}
        self.attempt_id = self.lake.add(
            CLUSTER, at, _tables(splits), plan_id=PLAN, status="planned", dag_id=dag_id, run_id=self.run_id, **more
        )
        self._more = more | {"dag_id": dag_id, "run_id": self.run_id}

    def _stamp(self) -> Row:
        return {"cluster": CLUSTER, "cycle_at": self.at, "cycle_date": self.at.date(), "write_id": "w" * 32}

    def answer(self, answer: str, by: str = "jo", note: str | None = None) -> None:
        """What an operator says of the plan."""
        at = self.at + timedelta(seconds=30)
        row = {"cluster": CLUSTER, "plan_id": PLAN, "answer": answer, "by": by, "at": at, "note": note}
        self.lake.append("approvals", [row])

    def put_out(self) -> None:
        """The commands are on record."""
        acts = [("split", SPLIT, None), *(("unload", bundle, B3) for bundle in MOVED)]
        self.lake.append("commands", [
            {**self._stamp(), "command_id": f"c{step}", "plan_id": PLAN, "step": step, "kind": kind, "bundle": bundle,
             "from_broker": B1, "destination": goal, "mode": "approve", "request": "PUT", "expires_at": self.at}
            for step, (kind, bundle, goal) in enumerate(acts, start=1)
        ])  # fmt: skip

    def see(self, step: int, outcome: str, detail: str) -> None:
        """What was seen of a command."""
        seen = {
            "command_id": f"c{step}",
            "outcome": outcome,
            "detail": detail,
            "seen_at": self.at + timedelta(minutes=1),
        }
        self.lake.append("outcomes", [{**self._stamp(), **seen}])

    def close(self, reason: str | None = None) -> None:
        """The cycle is over."""
        stamp: dict[str, Any] = {"cluster": CLUSTER, "cycle_at": self.at, "cycle_date": self.at.date()}
        self.lake._manifest({
            **stamp, **self._more, "write_id": self.attempt_id, "attempt": 1, "attempt_id": self.attempt_id,
            "row_kind": "closed", "status": "closed", "kind": "live", "plan_id": PLAN, "reason": reason, "writes": [],
            "reads": [], "recorded_at": self.at + timedelta(minutes=2),
        })  # fmt: skip


def _tables(splits: bool) -> dict[str, list[Row]]:
    usages = {B1: 0.82, B2: 0.41, B3: 0.33}
    bundles = (SPLIT, *MOVED)
    return {
        "broker_load": [broker_load(name, usage) for name, usage in usages.items()],
        "bundle_load": [bundle_load(bundle, B1, 4e6) for bundle in bundles],
        "settings": settings({}),
        "split_decisions": [
            decision(
                SPLIT, "bundle", "split", "message_rate_over_limit", f"{SPLIT} carries more than 10,000 msg/s.",
                broker=B1, strategy="BundleSplitterTask",
            ) | {"algorithm": "range_equally_divide", "cuts": [0x20000000], "unload_children": False}
        ] if splits else [],
        "unload_decisions": [
            decision(
                B1, "broker", "unload", "above_threshold", f"{B1} at 82 % is over its limit.", broker=B1, measured=0.82,
                threshold=LIMIT, unit="fraction", setting=THRESHOLD_KEY,
            ),
            *(decision(one, "bundle", "unload", "largest_first", f"{one} is to go.", broker=B1) for one in MOVED),
        ],
        "placement_decisions": [
            placement(bundle, B3, "shed", f"{bundle} goes to {B3}.", [], broker=B1) for bundle in MOVED
        ],
    }  # fmt: skip
