"""A lake of cycles that the real tasks decided over recordings of both load managers."""

import shutil
from pathlib import Path
from typing import Any

from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle

CHECKOUT = Path(__file__).resolve().parents[2]
MODULAR = CHECKOUT / "demo" / "recordings" / "own-threshold"
EXTENSIBLE = CHECKOUT / "tests" / "recordings" / "own-transfer"
MOST_SNAPSHOTS = 2
ALL = {"evenkeelAssumeUnloadsSucceed": True, "loadBalancerSheddingIntervalMinutes": 1}
# Low enough for three small brokers to shed and split, in all of their cycles or in some.
CLUSTERS: dict[str, tuple[Path, dict[str, Any]]] = {
    "threshold": (
        MODULAR,
        {
            "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
            "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
            "loadBalancerBrokerThresholdShedderPercentage": 5,
            "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
            "loadBalancerNamespaceBundleMaxTopics": 8,
        },
    ),
    "avg": (
        MODULAR,
        {
            "loadBalancerLoadSheddingStrategy": "AvgShedder",
            "loadBalancerLoadPlacementStrategy": "AvgShedder",
            "loadBalancerAvgShedderLowThreshold": 5,
            "loadBalancerAvgShedderHitCountLowThreshold": 2,
            "minUnloadMessage": 10,
            "defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide",
            "loadBalancerNamespaceBundleMaxTopics": 8,
        },
    ),
    "transfer": (
        EXTENSIBLE,
        {
            "loadBalancerSheddingConditionHitCountThreshold": 0,
            "loadBalancerBrokerLoadTargetStd": 0.05,
            "loadBalancerNamespaceBundleMaxTopics": 8,
            "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 1,
        },
    ),
}

# Which bundle these mean follows from topics and averages of their cycle; every cluster has the namespaces.
WISHES = {
    0: ({"kind": "split", "namespace": "acme/ns0", "bundle": "LARGEST"},),
    1: (
        {"kind": "split", "namespace": "acme/ns0", "bundle": "HOT"},
        {"kind": "split", "namespace": "acme/ns1", "bundle": "LARGEST",
         "splitAlgorithmName": "topic_count_equally_divide"},
    ),
}  # fmt: skip


def snapshots_of(name: str) -> list[Path]:
    """The last few snapshots of a cluster's recording: every run over three clusters takes its seconds."""
    return sorted(CLUSTERS[name][0].glob("*.json.gz"))[-MOST_SNAPSHOTS:]


def write_lake(spark: Any, folder: Path) -> Path:
    """Runs as many cycles over each recording as it has snapshots, all clusters in one run; gives the lake."""
    steps = {name: snapshots_of(name) for name in CLUSTERS}
    for step in range(max(map(len, steps.values()))):
        taking_part = [name for name, files in steps.items() if step < len(files)]
        for name in taking_part:
            own = folder / name
            own.mkdir(exist_ok=True)
            shutil.copy(steps[name][step], own)
        (folder / "evenkeel.toml").write_text(_configuration(folder, taking_part))
        request = CycleRequest(
            lake=str(folder / "lake"),
            configuration=str(folder / "evenkeel.toml"),
            run_id=f"run {step}",
            wishes=tuple({**wish, "cluster": name} for name in taking_part for wish in WISHES.get(step, ())),
        )
        run_cycle(spark, request, lambda *_: None)
    return folder / "lake"


def _configuration(folder: Path, names: list[str]) -> str:
    lines: list[str] = []
    for name in names:
        lines += [f"[clusters.{name}]", f'recording = "{folder / name}"', f"[clusters.{name}.settings]"]
        lines += [f"{key} = {_toml(value)}" for key, value in {**ALL, **CLUSTERS[name][1]}.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
