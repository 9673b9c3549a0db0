"""The demo's backfill: the snapshots of an afternoon, decided as one window after the scheduled cycles."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_window
from evenkeel.spark.server import Engine
from evenkeel.spark.session import close, connect

RECORDING = Path("generated") / "thrash"
"""The afternoon, beside the demo's configuration: twelve snapshots of a cluster that thrashes."""


@dataclass(frozen=True, slots=True)
class Backfilled:
    """Result of the afternoon: number of cycles, cluster, first and last moment (ISO-8601), duration."""

    cluster: str
    cycles: int
    first: str
    last: str
    seconds: float

    def text(self) -> str:
        """Return the result in a sentence for people."""
        rate = self.cycles / max(self.seconds, 0.001)
        span = f"{self.first[:10]} from {self.first[11:16]} to {self.last[11:16]}"
        return f"{self.cycles} cycles of {self.cluster}, {span}: {self.seconds:.1f} s ({rate:.1f} cycles/s)"


def backfill(lake: str, recording: Path, engine: Engine) -> Backfilled:
    """Decide all snapshots of the recording as a backfill, and report the duration."""
    request = CycleRequest(
        lake, source=f"recording:{recording}", every=True, kind="backfill", dag_id="demo", run_id="demo__afternoon"
    )
    began = time.monotonic()
    spark = connect(engine.url, "evenkeel demo")
    try:
        cycles = [cycle for run in run_window(spark, request, lambda course: None) for cycle in run.cycles]
    finally:
        close(spark)
    return Backfilled(cycles[0].cluster, len(cycles), cycles[0].cycle_at, cycles[-1].cycle_at, time.monotonic() - began)
