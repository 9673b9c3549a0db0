"""Chunks of a window, and its cycles that are decided already.

A chunk is what the seven tasks take in one pass. Each ends with its manifests, so an interrupted window leaves whole
chunks, and the window continues where the record ends.

Reads: the listings of recordings and landing folders; `cycles` and `settings` for the cycles decided already.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput, NothingLanded
from evenkeel.handover import ClusterCycle, CycleKey
from evenkeel.ingest.open_run import CycleRequest, window_of
from evenkeel.lake.delta_log import is_as_made
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.store import Lake
from evenkeel.settings import resolve
from evenkeel.spark.code import code_digest
from evenkeel.spark.sql import compile_queries, iso, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

MOST_CYCLES = 864
"""Three days of five-minute cycles. A pass has costs of its own, some ten seconds: day by day a month took half as long
again. A week at a time saves another tenth, but takes 5 GB instead of 3, and leaves more to repeat after a kill."""
MOST_BYTES = 90_000_000
"""Bytes as landed, packed: some one and a half million topic rows. With their bundles, some hundred thousand at ten
topics each, a server of 2 GB can hold that; four times as much ended it. A single larger snapshot is a chunk of its
own."""

Chunk = tuple[ClusterCycle, ...]


def landed_in(request: CycleRequest, absent: Callable[[str], None] = log.warning) -> list[ClusterCycle]:
    """Return the cycles of all snapshots that were landed from `since` to `until`, by time and cluster.

    `absent` gets the reason for each cluster without any. If none has any, raises NothingLanded, or BadInput if a
    recording is broken.
    """
    since, until = request.span()
    landed_cycles: list[ClusterCycle] = []
    errors: list[BadInput] = []
    for source in request.sources():
        try:
            landed_cycles += window_of(source, since, until)
        except BadInput as error:
            errors.append(error)
    if not landed_cycles:
        raise next((error for error in errors if not isinstance(error, NothingLanded)), errors[0])
    for reason in map(str, errors):
        absent(reason)
    return sorted(landed_cycles, key=lambda cycle: (cycle.cycle_at, cycle.cluster))


def landed_bytes(path: str) -> float:
    """Return the size of a landed snapshot as stored, infinite if this process cannot see it."""
    landed = Path(path.removeprefix("file://"))
    try:
        return landed.stat().st_size
    except OSError:  # also if it is removed meanwhile, as landed snapshots are after `landing_days`
        return math.inf


def in_chunks(
    cycles: Iterable[ClusterCycle], most_cycles: int | None = None, most_bytes: float | None = None
) -> list[Chunk]:
    """Return the cycles in their order, cut so that no chunk exceeds the bounds, with one cycle at least.

    The bounds are those of the module if None: cycles, and bytes of snapshots. Cycles come by time, so a cluster's
    cycles stay in order across chunks.
    """
    most_cycles, most_bytes = most_cycles or MOST_CYCLES, most_bytes or MOST_BYTES
    chunks: list[Chunk] = []
    chunk: list[ClusterCycle] = []
    together = 0.0
    for cycle in cycles:
        size = landed_bytes(cycle.snapshot.path) if cycle.snapshot.path else 0.0
        if chunk and (len(chunk) >= most_cycles or together + size > most_bytes):
            chunks.append(tuple(chunk))
            chunk, together = [], 0.0
        chunk.append(cycle)
        together += size
    return [*chunks, tuple(chunk)] if chunk else chunks


def decided_already(
    spark: SparkSession, request: CycleRequest, cycles: Collection[ClusterCycle]
) -> frozenset[CycleKey]:
    """Return those of these cycles with an attempt of the request's kind, decided by this code under equal overrides.

    The brokers' configuration is in the snapshot, so equal overrides make equal settings.
    """
    from pyspark.sql import functions as F

    overrides = {cycle.key: cycle.overrides for cycle in cycles}
    attempts = _decided(spark, request.lake, overrides)
    if attempts is None:
        return frozenset()
    # A live attempt beside another one is a rerun.
    kinds = (request.kind,) if request.kind == "backfill" else ("live", "rerun")
    listed = (
        attempts.where((F.col("code_digest") == code_digest()) & F.col("kind").isin(*kinds))
        .select("cluster", "cycle_at", "attempt_id", F.explode("writes").alias("listed"))
        .where(F.col("listed.table") == "settings")
        .select("cluster", "cycle_at", "attempt_id", F.col("listed.write_id").alias("write_id"))
    )
    settings = (
        spark.read.format("delta")
        .load(Lake(request.lake).path("settings"))
        .select("cluster", "cycle_at", "write_id", "origin", F.struct("key", "value").alias("given"))
    )
    given = F.when(F.col("origin").startswith("override"), F.col("given"))
    under = (
        listed.join(settings, ["cluster", "cycle_at", "write_id"])
        .groupBy("cluster", "cycle_at", "attempt_id")
        .agg(F.collect_list(given).alias("given"))
        .select("cluster", iso("cycle_at").alias("cycle_at"), "given")
        .collect()
    )
    texts: dict[str, dict[str, str]] = {}
    decided = set()
    for row in under:
        key = row["cluster"], row["cycle_at"]
        if key in overrides:
            wanted = texts.setdefault(repr(overrides[key]), _texts(overrides[key]))
            if {entry["key"]: entry["value"] for entry in row["given"]} == wanted:
                decided.add(key)
    return frozenset(decided)


def decided_at_all(spark: SparkSession, lake: str, cycles: Collection[ClusterCycle]) -> frozenset[CycleKey]:
    """Return those of these cycles with an attempt of any kind that came to a decision."""
    keys = {cycle.key for cycle in cycles}
    attempts = _decided(spark, lake, keys)
    if attempts is None:
        return frozenset()
    rows = attempts.select("cluster", iso("cycle_at").alias("cycle_at")).distinct().collect()
    return frozenset(key for row in rows if (key := (row["cluster"], row["cycle_at"])) in keys)


def _texts(overrides: dict[str, object]) -> dict[str, str]:
    """Return an operator's settings in the form of the table `settings`."""
    rows = resolve(observed=None, overrides=overrides).rows()
    return {row["key"]: row["value"] for row in rows if row["origin"].startswith("override")}


def _decided(spark: SparkSession, lake: str, keys: Collection[CycleKey]) -> DataFrame | None:
    """Return the attempts that decided, in the range of these cycles; None if there are none to check."""
    from pyspark.sql import functions as F

    if not keys:
        return None
    compile_queries(spark, compiled=False)
    Lake(lake).ensure_tables(spark)
    place = Lake(lake).path("cycles")
    if is_as_made(place):  # a first query takes seconds
        return None
    clusters, times = zip(*keys, strict=True)
    return (
        spark.read.format("delta")
        .load(place)
        .where(F.col("cluster").isin(sorted(set(clusters))))
        .where((F.col("cycle_at") >= moment(min(times))) & (F.col("cycle_at") <= moment(max(times))))
        .where((F.col("row_kind") == "planned") & F.col("status").isin(*DECIDED_STATUSES))
    )
