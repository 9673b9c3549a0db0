"""A cycle that was decided and that no publisher has seen: decided once in a run, and tests take copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Handover
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.sources.recordings import Recording
from tests.shared import made_once

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

RECORDING = Path(__file__).resolve().parent / "recordings" / "lost-modular"
SNAPSHOTS = Recording(RECORDING).snapshots
# By these the first snapshot holds bundles to split, to shed and to place.
FITTED = {"loadBalancerNamespaceBundleMaxTopics": 8, "loadBalancerLoadSheddingStrategy": "OverloadShedder",
          "loadBalancerBrokerOverloadedThresholdPercentage": 1}  # fmt: skip


def request(lake: Path, snapshot: int, **more: Any) -> CycleRequest:
    """A dry run over one of the recording's snapshots."""
    known = {"overrides": FITTED, "run_id": "test", "at": SNAPSHOTS[snapshot].cycle_at} | more
    return CycleRequest(lake=str(lake), source=f"recording:{RECORDING}", **known)


def planned_once(engine: Engine, empty_lake: Callable[[Path], Path]) -> Callable[[Path], Handover]:
    """Gives a folder, which is made, a lake with the first snapshot's cycle up to the task before publish."""

    def make(folder: Path) -> None:
        from evenkeel.ingest.open_run import open_cycles
        from evenkeel.pipeline import DECIDING
        from evenkeel.spark.session import close, connect

        spark = connect(engine.url, "tests")
        handover = open_cycles(spark, request(empty_lake(folder / "lake"), 0))
        for task in DECIDING:
            handover = task(spark, handover)
        close(spark)
        (folder / "handover.json").write_text(handover.to_json())

    made = made_once("planned-cycle", make)
    handover = Handover.from_json((made / "handover.json").read_text())
    return lambda folder: replace(handover, lake=str(shutil.copytree(made / "lake", folder)))
