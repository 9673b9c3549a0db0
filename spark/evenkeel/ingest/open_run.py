"""The beginning of a run: its clusters, the snapshot of each, and the earlier attempts whose state is taken over.

A running cluster is observed once for the run's moment, and its snapshot landed. All clusters are observed in parallel,
so that a silent one delays no other. A snapshot that was uploaded to a landing zone in S3 is fetched in parallel, too.
A cluster without a snapshot is left out with the reason, and the others go on.

Reads: the source's listing, `cycles`, `wishes`, of clusters that can be steered `commands`, `outcomes`, `controls`, and
of running clusters the predecessor's `bundle_load` and `split_decisions`.
Writes: `wishes`, for those of the run itself; the other results become the hand-over.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from traceback import format_exc
from typing import TYPE_CHECKING, Any

from evenkeel.cycle.fold import PLANNER
from evenkeel.cycle.loads import FORGOTTEN_THOUGH_REFUSED
from evenkeel.errors import BadInput, EvenkeelError, LandingError, NothingLanded, SettingsError
from evenkeel.handover import (
    FAILED,
    PULSAR_ADMIN,
    RECORDING,
    SKIPPED,
    ClusterCycle,
    CycleKey,
    Handover,
    Predecessor,
    Run,
    Snapshot,
)
from evenkeel.ingest.wish_intake import with_wishes, with_wishes_on_record
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors, with_acts
from evenkeel.settings import resolve
from evenkeel.settings.lakes import configured_lakes
from evenkeel.settings.operation import CONFIGURATION, OperatorEnvironment
from evenkeel.sources.configuration import ClusterSource, choose, read_configuration, source_of
from evenkeel.sources.landing import LATEST_SECONDS, Landing, milliseconds
from evenkeel.sources.recordings import ClusterNames, Problem, Recording, is_empty
from evenkeel.sources.snapshot_files import utc
from evenkeel.spark.sql import compile_queries
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.object_store import Resolver as StoreResolver
    from evenkeel.pulsar.admin.connection import Resolver
    from evenkeel.sources.landing_zone.search import S3Landing

log = logging.getLogger(__name__)
S3 = "s3"
_AT_ONCE = 8
# A cluster that does not answer takes only a thread.
_OBSERVED_AT_ONCE = 256
_WITH_QUIET_ONES = 64
# All clusters together; a try of the DAG's task has ten minutes.
_OBSERVED_SECONDS = 360.0


HistoryLookup = Callable[[Sequence[str], datetime], Mapping[str, frozenset[str]]]
"""Function from clusters and the moment to decide to each cluster's bundles with a history."""


@dataclass(frozen=True, slots=True)
class CycleRequest:
    """Request of a run.

    `source` is `recording:FOLDER`, or empty for the clusters of `configuration` (a TOML file). `clusters` are names,
    none for all; with a `source` one name renames its cluster. `at` is the moment to decide (ISO-8601), None for a
    recording's newest snapshot and for a running cluster as it is now. `overrides` win over the configuration's
    settings. `after`, of a backfill, is the moment of the previous cycle: a recording's snapshot up to then does not
    count for this one. `wishes` are operators' requests beside the decisions of the strategies
    (`wish_intake.wish_row`). `triggered_by` is the login of the user who started the run, None for the schedule.

    `every` requests a window instead of `at`: all landed snapshots from `since` to `until` (ISO-8601, both included;
    None for no bound). A range alone requests one, too.
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
    after: str | None = None
    wishes: tuple[Mapping[str, Any], ...] = ()
    triggered_by: str | None = None
    every: bool = False
    since: str | None = None
    until: str | None = None

    @property
    def asks_for_a_window(self) -> bool:
        """Return True if it requests many cycles of each cluster."""
        return self.every or self.since is not None or self.until is not None

    def span(self) -> tuple[datetime | None, datetime | None]:
        """Return the range of a window; raises `BadInput` if the request contradicts itself."""
        since, until = (None if text is None else utc(text) for text in (self.since, self.until))
        if self.at is not None:
            raise BadInput(f"a run decides the moment {self.at}, or a range of them: give one of the two")
        if since is not None and until is not None and until < since:
            raise BadInput(f"the range ends at {utc_text(until)}, before it begins at {utc_text(since)}: turn it round")
        if self.mode != "dry_run":
            raise BadInput(f"nothing is ever sent of a window of past cycles: ask with mode dry_run, not {self.mode}")
        if self.wishes:
            raise BadInput("a window of past cycles carries no wishes out: use `evenkeel wish`, or a run of one moment")
        return since, until

    def sources(self) -> tuple[ClusterSource, ...]:
        """Return the requested clusters, with their settings checked."""
        resolve(observed=None, overrides=self.overrides)
        if self.source:
            source = source_of(self.source)
            if len(self.clusters) > 1:
                raise BadInput(f"one recording shows one cluster, {len(self.clusters)} were named: {self.clusters}")
            name = self.clusters[0] if self.clusters else None
            return (replace(source, cluster=name, overrides=self.overrides),)
        if not self.configuration:
            raise BadInput("no source: give `recording:FOLDER`, or set EVENKEEL_CONFIG to a configuration file")
        chosen = choose(read_configuration(self.configuration), self._own_clusters(self.configuration))
        return tuple(replace(source, overrides={**source.overrides, **self.overrides}) for source in chosen)

    def _own_clusters(self, configuration: str) -> tuple[str, ...]:
        """Return the requested clusters, of several configured lakes those of this one; raises `SettingsError` for
        another's."""
        lakes = configured_lakes(OperatorEnvironment({**os.environ, CONFIGURATION: configuration}))
        own_lake = lakes.at(self.lake)
        if own_lake is None or not lakes.is_several:
            return self.clusters
        for cluster in self.clusters:
            if (other := lakes.elsewhere(self.lake, cluster)) is not None:
                raise SettingsError(f"the cluster {cluster} belongs to the lake {other.name}, not to {own_lake.name}")
        if not self.clusters and not lakes.clusters_of(own_lake):
            raise SettingsError(
                f"no configured cluster belongs to the lake {own_lake.name}, so there is nothing to decide"
            )
        return self.clusters or lakes.clusters_of(own_lake)


def check(request: CycleRequest) -> None:
    """Raise the faults of a request for one moment, as far as files show them, without Spark, brokers and stores.

    Raises SettingsError and BadInput as `open_cycles` does. Of several clusters one without a snapshot stops none of
    the others; if none has one, the first error is raised.
    """
    sources = request.sources()
    errors = []
    for source in sources:
        if source.live is None and source.zone is None:
            try:
                _recorded(source, request.at, request.after)
            except BadInput as error:
                errors.append(error)
    if errors and len(errors) == len(sources):
        raise errors[0]


def open_cycles(
    spark: SparkSession,
    request: CycleRequest,
    credentials: Resolver | None = None,
    stores: StoreResolver | None = None,
    *,
    may_observe: bool = True,
) -> Handover:
    """Return the hand-over that ingest starts from: one open cycle per cluster that has a snapshot for the moment.

    `credentials` finds the token of a connection, by default in the environment; `stores` a connection to S3. A running
    cluster is asked only if the run is a live one and `may_observe`; else its landed snapshot serves. Raises
    `BadInput`, which says which folder or moment of a recording is wrong, and names the nearest snapshot.
    """
    lake = _lake_of(spark, request)
    histories = partial(bundles_with_history, spark, lake)
    cycles = cycles_of(request, credentials, stores, may_observe=may_observe, histories=histories)
    return _opened(spark, lake, request, cycles)


def open_listed(spark: SparkSession, request: CycleRequest, cycles: list[ClusterCycle]) -> Handover:
    """Return the hand-over of cycles that `window_of` listed for the request, or of some of them."""
    return _opened(spark, _lake_of(spark, request), request, cycles)


def _lake_of(spark: SparkSession, request: CycleRequest) -> Lake:
    compile_queries(spark, compiled=False)
    lake = Lake(request.lake)
    lake.ensure_tables(spark)
    return lake


def _opened(spark: SparkSession, lake: Lake, request: CycleRequest, cycles: list[ClusterCycle]) -> Handover:
    expected = [(cycle.cluster, cycle.cycle_at, cycle.snapshot.previous_at) for cycle in cycles]
    predecessors = find_predecessors(lake, expected, kind=request.kind)
    run = Run(request.dag_id, request.run_id, request.kind, request.mode, request.triggered_by)
    if request.asks_for_a_window:
        cycles = with_wishes_on_record(spark, lake, cycles, run)
    else:
        cycles = with_wishes(spark, lake, cycles, run, request.wishes)
    cycles = with_acts(lake, cycles)
    cycles = [replace(cycle, predecessor=predecessors[cycle.key]) for cycle in cycles]
    return Handover(request.lake, run, tuple(cycles), commits=tuple(lake.committed))


def cycles_of(
    request: CycleRequest,
    credentials: Resolver | None = None,
    stores: StoreResolver | None = None,
    *,
    may_observe: bool = True,
    histories: HistoryLookup | None = None,
) -> list[ClusterCycle]:
    """Return the cycles of a request for one moment, in the order of its sources; those without a snapshot are not
    open.

    `histories` returns the bundles with a history at a moment, None without a lake; it is called, once, if a running
    cluster may be observed. Raises `BadInput` if the only requested cluster is one of an unreadable recording, and for
    a future moment of a running cluster.
    """
    from evenkeel.sources.asking import Turns
    from evenkeel.sources.collecting import land_now

    sources = request.sources()
    at = utc(request.at) if request.at is not None else datetime.now(UTC).replace(microsecond=0)
    if request.kind != "backfill":
        _demand_no_time_to_come(sources, at)
    may_observe = may_observe and request.kind != "backfill"
    connect = cache(partial(_client, resolve=stores))
    live = [str(source.cluster) for source in sources if source.live and not source.zone]
    known = histories(live, at) if histories is not None and live and may_observe else {}
    with (
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch") as fetching,
        ThreadPoolExecutor(_OBSERVED_AT_ONCE, thread_name_prefix="observe") as observing,
    ):
        turns = Turns(_AT_ONCE, _WITH_QUIET_ONES, _OBSERVED_SECONDS)
        observe = partial(observing.submit, partial(land_now, turns=turns))

        def begun(source: ClusterSource) -> Callable[[], ClusterCycle]:
            if source.zone:
                return _fetched(fetching, source, request.at or utc_text(datetime.now(UTC)), connect)
            if source.live:
                known_there = known.get(str(source.cluster), frozenset())
                return _observed(observe, source, at, credentials, may_observe, known_there)
            recorded = partial(_recorded, source, request.at, request.after)
            return recorded if len(sources) == 1 else _waiting(recorded, source, at)

        return [cycle() for cycle in [begun(source) for source in sources]]


def _demand_no_time_to_come(sources: Iterable[ClusterSource], at: datetime) -> None:
    """Raise BadInput for a future moment of a running cluster.

    Until then it would be the newest cycle, and keep every other one of the cluster from being carried out.
    """
    ahead = (at - datetime.now(UTC)).total_seconds()
    if ahead > LATEST_SECONDS and any(source.live or source.zone for source in sources):
        raise BadInput(
            f"the moment {utc_text(at)} is still to come, in {ahead / 60:,.0f} min by the clock of this machine: "
            "nothing was put on record. Give an earlier one, in UTC, or set the clock"
        )


_Observe = Callable[..., "Future[Snapshot]"]
"""Function that begins `collecting.land_now` with these arguments."""


def _observed(
    observe: _Observe,
    source: ClusterSource,
    at: datetime,
    credentials: Resolver | None,
    may_observe: bool,
    known: frozenset[str],
) -> Callable[[], ClusterCycle]:
    """Find the snapshot of that moment, or begin to take it; the returned function waits for it.

    The token is looked up in this thread and not in the pool: Airflow's connections come over a channel of the main
    thread.
    """
    from evenkeel.pulsar.admin.connection import from_environment
    from evenkeel.sources.collecting import connection_of

    assert source.live is not None
    landing = Landing(source.recording, source.limits)
    try:
        landed = landing.find(at)
        if landed is not None:
            return partial(_landed, source, landed)
        if not may_observe:
            raise LandingError(f"{landing.missing(at)} A past moment cannot be observed.")
        connection = connection_of(source.live, credentials or from_environment)
    except EvenkeelError as error:
        return partial(_left_out, source, at, error)
    taking = observe(source.live, landing, at, connection, known)
    return _waiting(lambda: _landed(source, taking.result()), source, at)


def _fetched(
    pool: ThreadPoolExecutor,
    source: ClusterSource,
    at: str,
    connect: Callable[[str | None], Any],
) -> Callable[[], ClusterCycle]:
    """Begin to fetch the newest snapshot up to that moment; the returned function waits for it.

    Uploads go on without a run, so the past can be fetched too; a future snapshot is left for later. Clients are made
    in this thread and not in the pool, as above.
    """
    from evenkeel.sources.landing_zone.search import S3Landing

    assert source.zone is not None
    try:
        client = connect(source.zone.connection)
    except EvenkeelError as error:
        return partial(_left_out, source, utc(at), error)
    landing = S3Landing(source.zone.url, source.recording, str(source.cluster), client, source.limits)
    coming = pool.submit(_fetch, source, at, landing)
    return _waiting(coming.result, source, utc(at))


def _fetch(source: ClusterSource, at: str, landing: S3Landing) -> ClusterCycle:
    assert source.zone is not None
    fetched = landing.snapshot_at(at)
    Landing(source.recording, source.limits).expire(source.zone.landing_days, fetched.snapshot)
    unreadable = tuple((problem.file, problem.place, problem.reason) for problem in fetched.problems)
    return replace(_landed(source, fetched.snapshot), unreadable=unreadable)


def _client(connection: str | None, resolve: StoreResolver | None) -> Any:
    from evenkeel.sources.landing_zone.s3 import connect

    return connect(connection, resolve)


def _waiting(result: Callable[[], ClusterCycle], source: ClusterSource, at: datetime) -> Callable[[], ClusterCycle]:
    def wait() -> ClusterCycle:
        try:
            return result()
        except Exception as error:  # after any error of this cluster the others go on
            if not isinstance(error, EvenkeelError):
                # Half a character of a cluster's answer, in the error's text, could not be written to a log.
                trace = format_exc().encode(errors="backslashreplace").decode()
                log.error("%s is left out\n%s", source.cluster, trace)
            return _left_out(source, at, error)

    return wait


def _landed(source: ClusterSource, snapshot: Snapshot) -> ClusterCycle:
    return ClusterCycle(
        cluster=str(source.cluster),
        cycle_at=snapshot.cycle_at,
        snapshot=snapshot,
        overrides=source.overrides,
        source=_origin(source),
        admin=asdict(source.live) if source.live is not None else None,
        queues=asdict(source.queues) if source.queues is not None else None,
        limits=source.limits.to_dict(),
    )


def _origin(source: ClusterSource) -> str:
    if source.zone:
        return S3
    return PULSAR_ADMIN if source.live else RECORDING


def _left_out(source: ClusterSource, at: datetime, error: Exception) -> ClusterCycle:
    """Return a cluster without a snapshot: failed if the operator must change a setting or the error is unforeseen.

    Else it is skipped.
    """
    moment = utc_text(at.replace(microsecond=milliseconds(at) % 1000 * 1000))
    foreseen = isinstance(error, EvenkeelError)
    words = str(error) if foreseen else f"{type(error).__name__}: {error}"
    return ClusterCycle(
        cluster=str(source.cluster),
        cycle_at=moment,
        snapshot=Snapshot("", moment),
        overrides=source.overrides,
        status=SKIPPED if foreseen and not isinstance(error, SettingsError) else FAILED,
        reason=f"{_what_failed(source)}: {words}".encode("utf-8", "backslashreplace").decode(),
        source=_origin(source),
    )


def _what_failed(source: ClusterSource) -> str:
    if source.zone:
        return "its snapshot was not fetched"
    return "the cluster was not observed" if source.live else "it has no snapshot"


def _recorded(source: ClusterSource, at: str | None, after: str | None = None) -> ClusterCycle:
    recording = Recording(source.recording, source.limits)
    snapshot = recording.snapshots[-1] if at is None else recording.at(at)
    named = _named(source, recording)(snapshot)
    if at is not None and after is not None and utc(snapshot.cycle_at) <= utc(after):
        words = f"the recording holds no snapshot after {after} up to {at}; the one before is of {snapshot.cycle_at}"
        return _left_out(named, utc(at), LandingError(words))
    return _of_recording(named, snapshot, recording.unreadable()[snapshot.path])


def _named(source: ClusterSource, recording: Recording) -> Callable[[Snapshot], ClusterSource]:
    """Return the source with the name of the cluster in a snapshot, unless it has a name."""
    if source.cluster:
        return lambda _: source
    names = ClusterNames(recording)
    return lambda snapshot: replace(source, cluster=names.of(snapshot))


def window_of(source: ClusterSource, since: datetime | None, until: datetime | None) -> list[ClusterCycle]:
    """Return a cluster's cycles of a range, oldest first: one for each snapshot that was landed in it.

    Nothing is observed or fetched for it. A landed snapshot of a running cluster that cannot be read is a cycle that is
    left out. Other files of a recording are noted with the cycle after them, as in runs of one moment. Raises
    `NothingLanded`, which names the nearest, if nothing was landed in the range, and `BadInput` for a faulty recording.
    """
    if source.live and not source.zone:
        landed = Landing(source.recording, source.limits).between(since, until)
        return [
            _left_out(source, at, landed_snapshot)
            if isinstance(landed_snapshot, BadInput)
            else _landed(source, landed_snapshot)
            for at, landed_snapshot in landed
        ]
    if source.zone and is_empty(source.recording):  # until the first one is fetched; a recording has a name by now
        raise NothingLanded(
            f"a window takes what was fetched, and {source.recording} holds no snapshot yet: `rebalance` fetches them "
            f"from {source.zone.url}, one for each of its cycles"
        )
    recording = Recording(source.recording, source.limits)
    snapshots, unreadable = recording.between(since, until), recording.unreadable()
    named = _named(source, recording)
    return [_of_recording(named(snapshot), snapshot, unreadable[snapshot.path]) for snapshot in snapshots]


def _of_recording(source: ClusterSource, snapshot: Snapshot, unreadable: Iterable[Problem]) -> ClusterCycle:
    problems = tuple((problem.file, problem.place, problem.reason) for problem in unreadable)
    return replace(_landed(source, snapshot), unreadable=problems)


def bundles_with_history(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], at: datetime
) -> Mapping[str, frozenset[str]]:
    """Return each cluster's bundles that have a history in the predecessor of a live cycle at that moment.

    Their resource quotas need not be requested. A bundle has a history if the predecessor's averages of it have had a
    sample. It has none if the predecessor requested its split: Pulsar 4.x then forgets the history, also if the split
    does not happen.
    """
    from pyspark.sql import functions as F

    before = find_predecessors(lake, [(cluster, utc_text(at), None) for cluster in clusters], kind="live")
    loads = _written(spark, lake, before, "bundle_load")
    if loads is None:
        return {}
    # Averages that began from a resource quota and have had no sample have the same count.
    known = loads.where("long_samples > 0 and coalesce(samples_since_quota, 1) > 0").select("cluster", "bundle")
    splits = _written(spark, lake, before, "split_decisions")
    if splits is not None:
        requested = (F.col("outcome") == "split") | F.col("rule").isin(sorted(FORGOTTEN_THOUGH_REFUSED))
        requested &= F.col("strategy") != PLANNER
        forgotten = splits.where(requested).select("cluster", F.col("subject").alias("bundle")).distinct()
        known = known.join(forgotten, ["cluster", "bundle"], how="left_anti")
    rows = known.groupBy("cluster").agg(F.collect_set("bundle").alias("bundles")).collect()
    return {row["cluster"]: frozenset(row["bundles"]) for row in rows}


def _written(spark: SparkSession, lake: Lake, before: Mapping[CycleKey, Predecessor], table: str) -> DataFrame | None:
    """Return the rows that these attempts wrote to a table; None if they wrote none."""
    writes = [write for attempt in before.values() for write in attempt.writes if write.table == table and write.rows]
    return lake.read(spark, table, writes) if writes else None
