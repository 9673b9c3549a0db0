"""What the runs on a real cluster have in common: its configuration, a cycle that acts, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devtools.lab.cluster import Cluster
from devtools.lab.settings import LabSettings
from evenkeel.cli import main
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, find_cycles, read_rows, read_table
from evenkeel.pipeline import run_cycle
from evenkeel.publish.dispatch import Sending, reach_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Small brokers on one machine: rates tell them apart and their CPU does not, which is the machine's, so it counts for
# nothing here; and their load is far below any default.
MODULAR: Mapping[str, Any] = {
    "loadBalancerLoadSheddingStrategy": "UniformLoadShedder",
    "loadBalancerMsgRateDifferenceShedderThreshold": 20.0,
    "maxUnloadPercentage": 0.45,
    "minUnloadMessage": 10,
    "minUnloadMessageThroughput": 1000,
    "maxUnloadBundleNumPerShedding": -1,
    "loadBalancerDistributeBundlesEvenlyEnabled": False,
    "loadBalancerSheddingIntervalMinutes": 1,
    "loadBalancerNamespaceBundleMaxMsgRate": 300,
    "loadBalancerCPUResourceWeight": 0.0,
    "loadBalancerBandwidthInResourceWeight": 0.0,
    "loadBalancerBandwidthOutResourceWeight": 0.0,
    "loadBalancerDirectMemoryResourceWeight": 0.0,
}
# Its shedder goes by CPU: each broker has its own share of the machine. A good part of it is spent without traffic.
EXTENSIBLE: Mapping[str, Any] = {
    "loadBalancerSheddingConditionHitCountThreshold": 0,
    "loadBalancerBrokerLoadTargetStd": 0.01,
    "loadBalanceSheddingDelayInSeconds": 60,
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0,
    "loadBalancerNamespaceBundleMaxMsgRate": 2300,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "modular": {**MODULAR, "maxUnloadPercentage": 0.3},
    "extensible": EXTENSIBLE,
}
"""By load manager, for a run from a skewed load to an even one."""
# What the senders do. UniformLoadShedder moves a third of the difference, the largest bundle that fits first: here a
# part of the hot bundle fits in the second cycle, whichever brokers the others came to. TransferShedder moves a
# broker's lightest bundles first, by half of the difference in CPU, and half of the hot bundle once light ones of the
# other broker come back for it. So many messages, none in a batch, cost a broker about as much CPU as its mere running
# does, on a fast machine too; a sketch of the loop comes to 1.16 or less in two or three cycles, whether messages are a
# third of the CPU or nine tenths.
LOADS: Mapping[str, Mapping[str, Any]] = {
    "modular": {"hot_bundle_share": 0.18},
    "extensible": {
        "rate": 3500.0,
        "hot_broker_share": 0.65,
        "hot_bundle_share": 0.5,
        "hot_topics": 32,
        "namespaces": 3,
        "bundles": 8,
        "is_batched": False,
    },
}
# Nobody else's traffic is at stake, and four cycles are to be enough.
BOLD: Mapping[str, Any] = {
    "evenkeelMaxMovedTrafficPercent": 100.0,
    "evenkeelMaxBundleTrafficPercent": 100.0,
    "evenkeelMaxUnloadsFromBroker": -1,
    "evenkeelMaxUnloadsToBroker": -1,
    "evenkeelCommandsPerSecond": 5.0,
}
TENANT = "acme"
EVEN = 1.25
SKEWED = 0.6
# Two measurements of CPU and memory, which come once a minute: until then what a move did to a broker is not known.
SETTLING_SECONDS = 125.0
# Brokers that are busier than this are given bundles, whatever groups say. Here the machine is busy, and no broker.
NEVER_OVERLOADED = {"loadBalancerBrokerOverloadedThresholdPercentage": "100"}
# Pulsar may forget a destination when two look-ups come at once: then another broker has the bundle, or the same one
# has it again. And where the machine is slow a broker may not answer in time to be sent a bundle.
SEEN = frozenset({"done", "overridden", "timed_out", "stale"})


@dataclass
class Scene:
    """A cluster under load, a lake, and the settings that it is steered with."""

    spark: SparkSession
    cluster: Cluster
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def configuration(self) -> Path:
        """The operator's file."""
        path = self.folder / "evenkeel.toml"
        path.write_text(configuration(self.cluster, self.settings))
        return path

    def request(self, mode: str) -> CycleRequest:
        """A cycle of this very second."""
        at = datetime.now(UTC).replace(microsecond=0).isoformat()
        lake, file = str(self.lake), str(self.configuration())
        return CycleRequest(lake=lake, configuration=file, at=at, mode=mode, run_id="e2e")

    def cycle(self, mode: str = "auto") -> Attempt:
        """One cycle as the cluster is now; the cycle's moment is a second of its own."""
        request = self.request(mode)
        at = datetime.fromisoformat(str(request.at))
        run_cycle(self.spark, request, lambda *_: None, Sending(reach_with()))
        (attempt,) = find_cycles(self.lake, cluster="lab", cycle=at)
        time.sleep(max(0.0, 1.0 - (datetime.now(UTC) - at).total_seconds()))
        return attempt

    def wish(self, *words: str) -> None:
        """`evenkeel wish` with these words; the next cycle, which begins on a whole second, takes it."""
        assert main(["wish", *words, "--lake", str(self.lake), "--cluster", "lab"]) == 0
        time.sleep(1.0)

    def commands(self, attempt: Attempt | None = None) -> list[dict[str, Any]]:
        """The commands of a cycle, or of all; in their order."""
        rows = {row["command_id"]: row for row in read_table(self.lake, "commands")}
        own = [row for row in rows.values() if attempt is None or row["cycle_at"] == attempt.cycle_at]
        return sorted(own, key=lambda row: (row["cycle_at"], row["step"]))

    def outcomes(self) -> dict[str, str]:
        """The last word on each command."""
        rows = sorted(read_table(self.lake, "outcomes"), key=lambda row: row["seen_at"])
        return {row["command_id"]: row["outcome"] for row in rows}

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return read_table(self.lake, table)

    def tally(self, attempt: Attempt) -> Counter[str]:
        """How many commands of a cycle ended in what."""
        last = self.outcomes()
        return Counter(last.get(row["command_id"], "open") for row in self.commands(attempt))

    def rows(self, attempt: Attempt, table: str) -> list[dict[str, Any]]:
        return read_rows(self.lake, attempt, table)


def lab_settings(manager: str) -> LabSettings:
    """Three brokers for a run from a skewed load to an even one."""
    limits = 60 if manager == "extensible" else None  # its shedder goes by CPU, so brokers need their own
    return LabSettings(manager=manager, cpu_percent=limits, broker=NEVER_OVERLOADED)


def configuration(cluster: Cluster, settings: Mapping[str, Any]) -> str:
    """The configuration file of a pipeline that watches and steers this cluster."""
    urls = ", ".join(f'"{url}"' for url in cluster.urls)
    lines = ["[clusters.lab]", f"admin = [{urls}]", 'landing = "landing/lab"', "[clusters.lab.settings]"]
    return "\n".join([*lines, *(f"{key} = {_toml(value)}" for key, value in {**BOLD, **settings}.items())]) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
