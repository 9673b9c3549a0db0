"""A small recorded history, written as the pipeline does: rows under write ids then manifests.

Every cycle holds one row or a few of each kind of table: topics, loads with averages and maps, state that the next
cycle takes over, decisions that acted and decisions that came to nothing, settings, a command and its outcome.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, Write
from evenkeel.lake.manifest import CYCLES, append_manifests, file_rows, write_rows
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from tests.builders import cluster as built
from tests.builders import frame, frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = ("bundle_load", "strategy_state")
OBSERVED = ("topic_stats", "cluster_policies")
BUNDLES = ("acme/web/0x00000000_0x80000000", "acme/web/0x80000000_0xffffffff")
Row = dict[str, Any]


@dataclass(slots=True)
class Recorded:
    """The lake and what each cycle wrote: (cluster, cycle_at) -> writes."""

    spark: SparkSession
    lake: Lake
    writes: dict[tuple[str, datetime], tuple[Write, ...]] = field(default_factory=dict)
    last: dict[str, datetime] = field(default_factory=dict)

    def cycle(self, at: datetime, cluster: str = "lab", *, kind: str = "live", listed: bool = True, **more: Any) -> str:
        """Writes a cycle and, if `listed`, its manifest; state is taken from the cluster's cycle before."""
        handover = Handover(self.lake.root, Run("tests", "run", kind), (_cycle(cluster, at),))
        body = {name: frame(self.spark, name, rows) for name, rows in rows_of(cluster, at).items()}
        seen = frames(self.spark, _shop(cluster, at))
        writes = self.lake.append(
            self.spark, {**body, **{name: seen[name] for name in OBSERVED}}, handover=handover, task="tests"
        )
        attempt_id = f"{cluster}-{at:%Y%m%d%H%M%S}-{kind}"
        if not listed:
            return attempt_id
        before = self.last.get(cluster)
        reads = [w for w in self.writes.get((cluster, before), ()) if w.table in STATE] if before else []
        row = manifest(cluster, at, attempt_id, kind=kind, writes=write_rows(writes), reads=write_rows(reads))
        row |= {"predecessor_cycle_at": before, "predecessor_status": "used" if before else "none", "plan_id": "p"}
        row |= {"settings_digest": "s", "files": file_rows([*writes, *reads]), "schema_version": SCHEMA_VERSION}
        row |= more
        append_manifests(self.spark, self.lake, [row, {**row, "row_kind": "closed", "status": "closed"}])
        self.writes[(cluster, at)] = writes
        self.last[cluster] = at
        return attempt_id


def manifest(cluster: str, at: datetime, attempt_id: str, **more: Any) -> Row:
    given_by_the_chain = {"sequence", "attempt", "previous_digest", "manifest_digest", "body_digest"}
    row = {c.name: None for c in CYCLES.columns if c.name not in given_by_the_chain | {"cycle_date", "write_id"}}
    row |= {"cluster": cluster, "cycle_at": at, "attempt_id": attempt_id, "row_kind": "planned", "kind": "live"}
    row |= {"status": "planned", "mode": "dry_run", "writes": [], "reads": [], "files": [], "wishes": []}
    row |= {"schema_version": SCHEMA_VERSION}
    return row | {"recorded_at": at + timedelta(seconds=20)} | more


def rows_of(cluster: str, at: datetime) -> dict[str, list[Row]]:
    """The rows of a cycle that are not observed; figures differ from cycle to cycle in their last bits."""
    stamp = {"cluster": cluster, "cycle_at": at}
    odd = math.sin(at.timestamp()) / 3
    load = {"namespace": "acme/web", "lower": 0, "upper": 1, "ownership": "owned", "is_system": False}
    load |= {"has_non_persistent": False, "listed_topics": 2, "used_reason": "measured", "trusted_at": at}
    load |= {"used_msg_rate_in": odd, "short_samples": 3, "long_samples": 7, "long_msg_rate_in": -0.0}
    state = {"strategy": "ThresholdShedder", "name": "usage_average", "value": odd, "at": at}
    command = {"command_id": f"c-{at.isoformat()}", "plan_id": "p", "step": 1, "kind": "unload", "bundle": BUNDLES[0]}
    command |= {"from_broker": "b1:8080", "destination": "b2:8080"}
    command |= {"cuts": [1, 2**32 - 1], "mode": "auto", "request": "PUT /…", "expires_at": at + timedelta(minutes=5)}
    outcome = "overridden" if at == day(30) else "done"
    seen = {"command_id": command["command_id"], "outcome": outcome, "seen_at": at, "detail": "é ✓"}
    rows = {
        "bundle_load": [{"bundle": bundle, **load} for bundle in BUNDLES],
        "strategy_state": [{"subject": broker, **state} for broker in ("b1:8080", "b2:8080")],
        "unload_decisions": [_decision(BUNDLES[0], "unload", odd), _decision(BUNDLES[1], "kept", odd),
                             {**_decision("b2:8080", "skipped", odd), "wish_id": "w"}],
        "settings": [{"settings_digest": "s", "key": "k", "value": "1", "origin": "default"}],
        "commands": [command],
        "outcomes": [seen],
    }  # fmt: skip
    return {name: [{**stamp, **row} for row in table] for name, table in rows.items()}


def _decision(subject: str, outcome: str, figure: float) -> Row:
    numbers = {"zeta": figure, "alpha": 0.1 + 0.2, "": 5e-324}
    alternatives = [{"name": "b3:8080", "verdict": "next", "rule": "room", "measured": None}]
    return {
        "subject": subject, "subject_kind": "bundle", "strategy": "ThresholdShedder", "outcome": outcome,
        "rule": "above", "measured": figure, "alternatives": alternatives, "numbers": numbers, "sentence": "It 'is'.",
    }  # fmt: skip


def _shop(cluster: str, at: datetime) -> Any:
    shop = built(cluster, brokers=2, at=at).namespace("acme/web", bundles=2)
    shop = shop.topic("persistent://acme/web/a", msg_rate_in=math.cos(at.timestamp()))
    groups = {"acme/web": "apart", "acme/app": "apart"}
    return shop.policies(anti_affinity_groups=groups, failure_domains={"east": ["b2:8080"], "west": ["b1:8080"]})


def _cycle(cluster: str, at: datetime) -> ClusterCycle:
    text = at.isoformat(timespec="microseconds")
    return replace(ClusterCycle(cluster, text, Snapshot("s", text), {}), settings_digest="s")


def day(number: int, hour: int = 12) -> datetime:
    """A moment of the history, by days from its first; it lies ahead, so that its files are old when it is kept."""
    return datetime(2040, 9, 1, hour, 0, 0, 123456, tzinfo=UTC) + timedelta(days=number)
