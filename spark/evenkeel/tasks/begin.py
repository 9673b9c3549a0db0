"""How a run begins: which clusters, which snapshot of each, and which earlier attempts hand their state on.

Reads: the source's listing, `cycles`, `wishes`. Writes: `wishes`, for those that the run brings; the rest of what it
finds becomes the hand-over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenkeel.engine.codegen import compile_queries
from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.lake.attempts import find_predecessors
from evenkeel.lake.store import Lake
from evenkeel.settings import resolve
from evenkeel.sources.configuration import ClusterSource, choose, read_configuration, source_of
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.tasks.wishing import with_wishes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CycleRequest:
    """What a run is asked for.

    `source` is `recording:FOLDER`, or empty for the clusters of `configuration` (a TOML file). `clusters` are names,
    none for all; with a `source` one name renames its cluster. `at` is the moment to decide (ISO-8601), None for each
    source's newest snapshot. `overrides` win over the configuration's settings. `wishes` are splits and unloads to
    carry out beside what the strategies decide (see `wishing.wish_row`).
    """

    lake: str
    source: str = ""
    configuration: str | None = None
    clusters: tuple[str, ...] = ()
    at: str | None = None
    mode: str = "dry_run"
    overrides: dict[str, Any] = field(default_factory=dict)
    dag_id: str = "cli"
    run_id: str = ""
    kind: str = "live"
    wishes: tuple[Mapping[str, Any], ...] = ()

    def sources(self) -> tuple[ClusterSource, ...]:
        """The clusters asked for, with their settings checked."""
        resolve(observed=None, overrides=self.overrides)
        if self.source:
            source = source_of(self.source)
            if len(self.clusters) > 1:
                raise BadInput(f"one recording shows one cluster, {len(self.clusters)} were named: {self.clusters}")
            name = self.clusters[0] if self.clusters else None
            return (replace(source, cluster=name, overrides=self.overrides),)
        if not self.configuration:
            raise BadInput("no source: give `recording:FOLDER`, or set EVENKEEL_CONFIG to a configuration file")
        chosen = choose(read_configuration(self.configuration), self.clusters)
        return tuple(replace(source, overrides={**source.overrides, **self.overrides}) for source in chosen)


def open_cycles(spark: SparkSession, request: CycleRequest) -> Handover:
    """The hand-over that ingest starts from: one open cycle per cluster that has a snapshot for the moment asked for.

    `BadInput` says which folder or moment is wrong, and names the nearest snapshot.
    """
    compile_queries(spark, compiled=False)
    lake = Lake(request.lake)
    lake.ensure_tables(spark)
    cycles = [_cycle(source, request.at) for source in request.sources()]
    expected = [(cycle.cluster, cycle.cycle_at, cycle.snapshot.previous_at) for cycle in cycles]
    predecessors = find_predecessors(spark, lake, expected, kind=request.kind)
    run = Run(request.dag_id, request.run_id, request.kind, request.mode)
    cycles = with_wishes(spark, lake, cycles, run, request.wishes)
    return Handover(
        request.lake, run, tuple(replace(cycle, predecessor=predecessors[cycle.cluster]) for cycle in cycles)
    )


def _cycle(source: ClusterSource, at: str | None) -> ClusterCycle:
    recording = Recording(source.recording)
    snapshot = recording.snapshots[-1] if at is None else recording.at(at)
    return ClusterCycle(
        cluster=source.cluster or cluster_name(snapshot),
        cycle_at=snapshot.cycle_at,
        snapshot=snapshot,
        overrides=source.overrides,
        unreadable=tuple(_unreadable(recording, snapshot)),
    )


def _unreadable(recording: Recording, snapshot: Snapshot) -> Iterable[tuple[str, str, str]]:
    """Problems of files between the snapshot before this one and this one; behind the last one, to the end."""
    paths = [known.path for known in recording.snapshots]
    place = paths.index(snapshot.path)
    after = paths[place - 1] if place else ""
    last = place == len(paths) - 1
    for problem in recording.problems:
        if problem.file > after and (last or problem.file < snapshot.path):
            yield problem.file, problem.place, problem.reason
