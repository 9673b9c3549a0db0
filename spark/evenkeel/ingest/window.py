"""Which landed snapshots a window takes, which of them are decided already, and how it is cut into chunks.

A chunk is what the seven tasks take in one pass; each ends with its manifests, so whatever ends a window leaves whole
chunks, and the same window goes on where the record ends.

Reads: the listings of recordings and landing folders; `cycles` and `settings` for what is decided already.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput
from evenkeel.handover import CycleKey, Handover
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.store import Lake
from evenkeel.settings import resolve
from evenkeel.sources.configuration import ClusterSource
from evenkeel.sources.recordings import Recording, cluster_name, utc
from evenkeel.spark.code import code_digest
from evenkeel.spark.sql import compile_queries, iso, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.pulsar.admin.connection import Resolver
    from evenkeel.sources.landing_zone.s3 import Resolver as StoreResolver

MOST_CYCLES = 1
"""A day of five-minute cycles: one append per table and day, and not more than a day to do again after a kill."""
MOST_BYTES = 400_000_000
"""Landed, packed: some million topic rows. Together with their bundles that is what a server of 2 GB and its workers
hold without spilling; one snapshot that is larger is a chunk of its own."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A landed snapshot that a window takes: cluster, `cycle_at` as in `ClusterCycle`, and its size in bytes."""

    cluster: str
    cycle_at: str
    size: float

    @property
    def key(self) -> CycleKey:
        """What tells its cycle apart from the others of the window."""
        return self.cluster, self.cycle_at


Chunk = tuple[Landed, ...]


def landed_in(request: CycleRequest) -> list[Landed]:
    """The snapshots of the request's clusters from `since` to `until`, by time and cluster.

    BadInput where a recording cannot be read, and where no snapshot lies in the range: it names the nearest.
    """
    found: list[Landed] = []
    known: list[str] = []
    for source in request.sources():
        recording = Recording(source.recording, source.limits)
        name = source.cluster or cluster_name(recording.snapshots[-1], limits=source.limits)
        known += [snapshot.cycle_at for snapshot in recording.snapshots]
        found += [
            Landed(name, snapshot.cycle_at, landed_bytes(snapshot.path))
            for snapshot in recording.snapshots
            if _lies_in(request, snapshot.cycle_at)
        ]
    if not found:
        raise BadInput(_nothing_there(request, sorted(known)))
    return sorted(found, key=lambda one: (one.cycle_at, one.cluster))


def _lies_in(request: CycleRequest, cycle_at: str) -> bool:
    at = utc(cycle_at)
    return (request.since is None or utc(request.since) <= at) and (request.until is None or at <= utc(request.until))


def _nothing_there(request: CycleRequest, known: Sequence[str]) -> str:
    since, until = request.since or known[0], request.until or known[-1]
    before = [at for at in known if utc(at) < utc(since)]
    after = [at for at in known if utc(at) > utc(until)]
    near = [*before[-1:], *after[:1]]
    return f"no snapshot was landed from {since} to {until}; the nearest are of {' and '.join(near)}"


def landed_bytes(path: str) -> float:
    """Size of a landed snapshot as it lies there, infinite where it cannot be seen from here."""
    landed = Path(path.removeprefix("file://"))
    if landed.is_dir():
        return sum(part.stat().st_size for part in landed.iterdir())
    return landed.stat().st_size if landed.exists() else math.inf


def in_chunks(
    snapshots: Iterable[Landed], most_cycles: int | None = None, most_bytes: float | None = None
) -> list[Chunk]:
    """The snapshots in their order, cut so that no chunk has more cycles or bytes than that (None: as many as fit),
    but one cycle at least.

    `snapshots` come by time: a cluster's cycles stay in order across chunks.
    """
    most_cycles, most_bytes = most_cycles or MOST_CYCLES, most_bytes or MOST_BYTES
    chunks: list[Chunk] = []
    chunk: list[Landed] = []
    size = 0.0
    for one in snapshots:
        if chunk and (len(chunk) >= most_cycles or size + one.size > most_bytes):
            chunks.append(tuple(chunk))
            chunk, size = [], 0.0
        chunk.append(one)
        size += one.size
    return [*chunks, tuple(chunk)] if chunk else chunks


def open_chunk(
    spark: SparkSession,
    request: CycleRequest,
    chunk: Chunk,
    credentials: Resolver | None = None,
    stores: StoreResolver | None = None,
) -> Handover:
    """The hand-over of a chunk's cycles, those of its snapshots and no others."""
    wanted = {one.key for one in chunk}
    clusters = () if request.source else tuple(sorted({one.cluster for one in chunk}))
    first, last = chunk[0].cycle_at, chunk[-1].cycle_at
    narrowed = replace(request, clusters=clusters or request.clusters, at=None, every=True, since=first, until=last)
    if len(chunk) == 1:
        narrowed = replace(narrowed, at=first, every=False)
    opened = open_cycles(spark, narrowed, credentials, stores, may_observe=False)
    return opened.with_cycles(cycle for cycle in opened.cycles if cycle.key in wanted)


def decided_already(spark: SparkSession, request: CycleRequest, cycles: Collection[CycleKey]) -> frozenset[CycleKey]:
    """Which of these cycles have an attempt of the request's kind that was decided by this code under the same
    settings of the operator's.

    What the brokers were configured with stands in the snapshot, so equal overrides make equal settings.
    """
    from pyspark.sql import functions as F

    attempts = _decided(spark, request.lake, cycles)
    if attempts is None:
        return frozenset()
    same_code = (F.col("code_digest") == code_digest()) & (F.col("kind") == request.kind)
    listed = (
        attempts.where(same_code)
        .select("cluster", "cycle_at", "attempt_id", F.explode("writes").alias("listed"))
        .where(F.col("listed.table") == "settings")
    )
    given = F.col("origin").startswith("override")
    settings = spark.read.format("delta").load(Lake(request.lake).path("settings"))
    under = (
        listed.withColumn("write_id", F.col("listed.write_id"))
        .join(settings.select("cluster", "cycle_at", "write_id", "key", "value", "origin"),
              on=["cluster", "cycle_at", "write_id"])
        .groupBy("cluster", "cycle_at", "attempt_id")
        .agg(F.collect_list(F.when(given, F.struct("key", "value"))).alias("overrides"))
        .select("cluster", iso("cycle_at").alias("cycle_at"), "overrides")
    )  # fmt: skip
    asked = {str(source.cluster): _overrides(source) for source in request.sources()}
    only = next(iter(asked.values())) if len(asked) == 1 else None
    wanted = frozenset(cycles)
    found = (((row["cluster"], row["cycle_at"]), row["overrides"]) for row in under.collect())
    return frozenset(
        key
        for key, overrides in found
        if key in wanted
        and {one["key"]: one["value"] for one in overrides} == (only if only is not None else asked.get(key[0]))
    )


def decided_at_all(spark: SparkSession, lake: str, cycles: Collection[CycleKey]) -> frozenset[CycleKey]:
    """Which of these cycles have an attempt of any kind that came to a decision."""
    attempts = _decided(spark, lake, cycles)
    if attempts is None:
        return frozenset()
    wanted = frozenset(cycles)
    rows = attempts.select("cluster", iso("cycle_at").alias("cycle_at")).distinct().collect()
    return frozenset(key for row in rows if (key := (row["cluster"], row["cycle_at"])) in wanted)


def _overrides(source: ClusterSource) -> dict[str, str]:
    rows = resolve(observed=None, overrides=source.overrides).rows()
    return {row["key"]: row["value"] for row in rows if row["origin"].startswith("override")}


def _decided(spark: SparkSession, lake: str, cycles: Collection[CycleKey]) -> DataFrame | None:
    """The attempts that decided, in the range of these cycles; None where there is nothing to look at."""
    from pyspark.sql import functions as F

    if not cycles:
        return None
    compile_queries(spark, compiled=False)
    Lake(lake).ensure_tables(spark)
    clusters, times = zip(*cycles, strict=True)
    return (
        spark.read.format("delta")
        .load(Lake(lake).path("cycles"))
        .where(F.col("cluster").isin(sorted(set(clusters))))
        .where((F.col("cycle_at") >= moment(min(times))) & (F.col("cycle_at") <= moment(max(times))))
        .where((F.col("row_kind") == "planned") & F.col("status").isin(*DECIDED_STATUSES))
    )


def undecided(snapshots: Iterable[Landed], decided: frozenset[CycleKey]) -> Iterator[Landed]:
    """Those that are still to be decided, in their order."""
    return (one for one in snapshots if one.key not in decided)
