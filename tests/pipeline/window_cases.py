"""Windows beside the same cycles one by one: what is decided, and what has to be equal."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from evenkeel.lake.manifest import writes_of
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.verify import verify
from tests.shed.fitted import FITTED
from tests.written_rows import rows_digest

CHECKOUT = Path(__file__).resolve().parents[2]
CASES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "modular, unloads assumed": (
        "tests/recordings/lost-modular",
        {"loadBalancerNamespaceBundleMaxTopics": 8, "loadBalancerLoadSheddingStrategy": "OverloadShedder",
         "loadBalancerBrokerOverloadedThresholdPercentage": 1, "evenkeelAssumeUnloadsSucceed": True,
         "loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector", "loadBalancerSheddingIntervalMinutes": 0},
    ),
    "modular, averages of usage": (
        "demo/recordings/own-threshold",
        {**FITTED["ThresholdShedder"], "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
         "loadBalancerHistoryResourcePercentage": 0.5, "loadBalancerSheddingIntervalMinutes": 0},
    ),
    "extensible, cut by topics": (
        "tests/recordings/own-transfer",
        {"loadBalancerNamespaceBundleMaxTopics": 2, "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0,
         "loadBalancerSheddingConditionHitCountThreshold": 0, "loadBalancerSheddingIntervalMinutes": 0,
         "defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"},
    ),
}  # fmt: skip
# What differs from run to run, or says where in a lake a write stands.
OF_THE_RUN = {"attempt_id", "run_id", "recorded_at", "predecessor_attempt_id", "write_id", "writes", "files", "reads"}
OF_THE_CHAIN = {"body_digest", "previous_digest", "manifest_digest"}


def content(lake: Path, attempt: Attempt) -> dict[str, list[tuple[int, str]]]:
    """Table -> rows and content of each write."""
    assert attempt.closed is not None
    found: dict[str, list[tuple[int, str]]] = {}
    for write in writes_of(attempt.cluster, attempt.closed["writes"], attempt.closed["files"]):
        found.setdefault(write.table, []).append((write.rows, rows_digest(lake, write)))
    return {table: sorted(own) for table, own in found.items()}


def named(row: Mapping[str, Any] | None) -> dict[str, Any]:
    assert row is not None
    return {name: value for name, value in row.items() if name not in OF_THE_RUN | OF_THE_CHAIN}


def demand_the_same(one_by_one: Path, windows: Path) -> list[Attempt]:
    first, second = read_attempts(one_by_one), read_attempts(windows)
    assert [attempt.cycle_at for attempt in second] == [attempt.cycle_at for attempt in first]
    for alone, own in zip(first, second, strict=True):
        assert own.plan_id == alone.plan_id is not None
        assert content(windows, own) == content(one_by_one, alone), own.cycle_at
        for kind in ("planned", "closed"):
            assert named(getattr(own, kind)) == named(getattr(alone, kind)), (kind, own.cycle_at)
    ids = {alone.attempt_id: own.attempt_id for alone, own in zip(first, second, strict=True)}
    for alone, own in zip(first, second, strict=True):
        before = alone.planned["predecessor_attempt_id"]
        assert own.planned["predecessor_attempt_id"] == (before and ids[before])
        assert [r["commit"] for r in own.planned["reads"] if r["rows"]] or before is None
    return second


def demand_sound(spark: Any, lake: Path) -> None:
    report = verify(str(lake), lambda: nullcontext(spark))
    assert report.is_sound, report.faults
