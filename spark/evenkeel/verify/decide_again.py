"""Many recorded cycles decided again, each on the rows that its manifest lists, by the runner that tasks use.

The round that decides compares as well: usually all is as recorded, and no rows have to be told apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from evenkeel import repetition as again
from evenkeel.aggregate import inputs as load_inputs
from evenkeel.cycle import frames
from evenkeel.cycle.fold import PLANNER
from evenkeel.cycle.frames import read_checked
from evenkeel.cycle.runner import DecideCycles, RoundInputs, decide_clusters
from evenkeel.handover import Handover, Run, Write
from evenkeel.lake.plain_rows import RowsByWrite, rows_by_write
from evenkeel.lake.record import chunked
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits.task import TOPICS_TYPE, hashes_in, persistent_topics, picks_by_topics
from evenkeel.publish import plan as plan_round
from evenkeel.repetition import columns_looked_at
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.sql import arrow_of, united
from evenkeel.verify.by_files import Proven, key_of
from evenkeel.verify.contents import ATTEMPT, Rows
from evenkeel.verify.recorded_cycle import RecordedCycle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OBSERVED = ("broker_reports", "namespace_bundles", "cluster_policies", "bundle_load", "broker_load")
TOPICS = "topic_stats"
_NAMED = schema_of("cluster string, table_name string")
# A bundle that is not over any limit is `kept`, and no rule looks at its topics.
_LOOKED_INTO = ("split", "refused", "skipped")
_MOST_CYCLES = 400
# The file of a window holds rows of hundreds of cycles; a cycle's inputs, and those of the one before, lie in so many.
_FILES_KEPT = 32


@dataclass
class Compared:
    """The result of deciding attempts again.

    `plans`: attempt id -> the row of its plan now. `differing`: attempt id -> the tables that differ. `reworded`:
    attempts with a table in which only sentences differ.
    """

    plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    differing: dict[str, list[str]] = field(default_factory=dict)
    reworded: set[str] = field(default_factory=set)
    _frames: dict[str, list[DataFrame]] = field(default_factory=dict)

    def rows(self, table: str) -> DataFrame:
        """Return the rows decided now of a table, of attempts in which it differs."""
        return united(self._frames[table])

    def tables(self) -> Collection[str]:
        """Return the tables that differ in any attempt."""
        return self._frames.keys()

    def add(
        self, inputs: RoundInputs, own: Sequence[RecordedCycle], decide: DecideCycles, tables: Sequence[str]
    ) -> None:
        """Decide these attempts again by `decide`, which gives rows of `tables` where they differ."""
        outputs = {table: _with_attempt(TABLES[table].body_type()) for table in tables} | {again.DIFFERING: _NAMED}
        if decide is again.compare_decisions:
            outputs |= {again.REWORDED: _NAMED, again.PLAN: plan_round.plan_type()}
        parameters = {
            "clusters": {one.attempt.attempt_id: one.attempt.cluster for one in own},
            "to_the_word": [one.attempt.attempt_id for one in own if one.to_the_word],
        }
        cycles = [{**one.cycle_row, "cluster": one.attempt.attempt_id} for one in own]
        made = decide_clusters(inputs, cycles, decide, outputs, parameters)
        differing = made.rows(again.DIFFERING)
        for row in differing:
            self.differing.setdefault(row["cluster"], []).append(row["table_name"])
        for table in sorted({row["table_name"] for row in differing}):
            self._frames.setdefault(table, []).append(made.frame(table))
        if again.PLAN in outputs:
            self.reworded |= {row["cluster"] for row in made.rows(again.REWORDED)}
            self.plans |= {row["cluster"]: row for row in made.rows(again.PLAN)}


def decisions_again(rows: Rows, own: Sequence[RecordedCycle], proven: Proven) -> Compared:
    """Return what these attempts decide now; `proven`: the writes whose own files are as they were written."""
    found = Compared()
    read_file = lru_cache(_FILES_KEPT)(rows_by_write)
    for part in _parts(own, proven):
        inputs = _decision_inputs(rows, part, read_file)
        found.add(inputs, part, again.compare_decisions, again.OUTPUTS)
    return found


def loads_again(rows: Rows, own: Sequence[RecordedCycle], proven: Proven) -> Compared:
    """Return the loads of bundles and brokers that these attempts come to now.

    Aggregate's own query sums up the topics of all of them at once; its round does the rest.
    """
    found = Compared()
    lake, run = AttemptsAsClusters(rows, own), as_clusters(rows.lake, own)
    given = load_inputs.read(rows.spark, lake, run)
    for table in again.LOADS:
        given.rounds.add_stored(again.recorded(table), run.open_writes(table), table=table)
    given.rounds.read_file = lru_cache(_FILES_KEPT)(rows_by_write)
    load_inputs.add_sums(rows.spark, given)
    for part in _parts(own, proven):
        inputs = given.rounds.of({one.attempt.attempt_id for one in part})
        found.add(inputs, part, again.compare_loads, again.LOADS)
    return found


def _parts(own: Sequence[RecordedCycle], proven: Proven) -> Iterator[list[RecordedCycle]]:
    """Yield attempts whose files are all there in parts that are decided in this process, then the others."""
    by_id = {one.attempt.attempt_id: one for one in own}
    at_hand = [one.attempt for one in own if all(map(proven.get, map(key_of, _rests_on(one))))]
    for part in chunked(at_hand, lambda one: _rows_of(by_id[one.attempt_id]), frames.MOST_HERE, _MOST_CYCLES):
        yield [by_id.pop(attempt.attempt_id) for attempt in part]
    if by_id:
        yield [*by_id.values()]


def _rests_on(one: RecordedCycle) -> list[Write]:
    attempt = one.attempt
    return [write for write in (*attempt.writes, *attempt.reads) if write.rows and write.table != TOPICS]


def _rows_of(one: RecordedCycle) -> int:
    return sum(write.rows for write in _rests_on(one))


def listed(own: Sequence[RecordedCycle]) -> list[tuple[str, Write]]:
    """Return the writes of each attempt."""
    return [(one.attempt.attempt_id, write) for one in own for write in one.attempt.writes]


def _decision_inputs(rows: Rows, own: Sequence[RecordedCycle], read_file: RowsByWrite) -> RoundInputs:
    lake, run = AttemptsAsClusters(rows, own), as_clusters(rows.lake, own)
    inputs = RoundInputs(cast("SparkSession", rows.session), lake, run)
    inputs.read_file = read_file
    for table in OBSERVED:
        looked_at = columns_looked_at(table, TABLES[table].column_names())
        columns = ["cluster", *(name for name in looked_at if name != "cluster")]
        inputs.add_stored(table, run.open_writes(table), columns=columns)
    for table in again.OUTPUTS:
        inputs.add_stored(again.recorded(table), run.open_writes(table), table=table)
    inputs.add_stored(
        "state", [w for one in run.cycles for w in one.predecessor.writes if w.table == again.STATE], table=again.STATE
    )
    _add_topics(inputs, run, own)
    return inputs


def _add_topics(inputs: RoundInputs, run: Handover, own: Sequence[RecordedCycle]) -> None:
    """Add the topics that rounds see: of bundles that were looked into, and of namespaces in requests."""
    from pyspark.sql import functions as F

    inputs.add_empty("topic_hashes", schema_of(TOPICS_TYPE))
    if any(picks_by_topics(wish) for one in own for wish in one.cycle.wishes):
        found = persistent_topics(inputs.spark, inputs.lake, run, inputs.frame("bundle_load"))
        for name, frame in found.items():
            inputs.add_local(name, arrow_of(frame.drop("cycle_at")))
    cutting = {one.attempt.attempt_id for one in own if one.needs_topics}
    planning = {one.attempt.attempt_id for one in own if one.planner_looks_at_topics}
    if inputs.is_small:  # most often no bundle was looked into, and Spark need not be asked
        looked_into = [row for row in inputs.stored_rows["split_decisions"] if row["outcome"] in _LOOKED_INTO]
        cutting &= {row["cluster"] for row in looked_into}
        planning &= {row["cluster"] for row in looked_into if row["strategy"] == PLANNER}
    if not cutting and not planning:
        return
    splits, bundles = inputs.frame("split_decisions"), inputs.frame("bundle_load")
    of_planner = F.col("cluster").isin(*planning) & (F.col("strategy") == PLANNER)
    concerned = (F.col("cluster").isin(*cutting) | of_planner) & F.col("outcome").isin(*_LOOKED_INTO)
    subjects = splits.where(concerned & (F.col("subject_kind") == "bundle"))
    named = subjects.select("cluster", F.col("subject").alias("bundle")).distinct()
    ranges = bundles.select("cluster", "namespace", "bundle", "owner", "lower", "upper")
    chosen = named.join(ranges, ["cluster", "bundle"]).withColumn("is_last", F.col("upper") == F.lit(HIGHEST_HASH))
    some = run.with_cycles(cycle for cycle in run.cycles if cycle.cluster in cutting | planning)
    inputs.add_local("topic_hashes", arrow_of(hashes_in(chosen, read_checked(inputs.lake, inputs.spark, some, TOPICS))))


def _with_attempt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(ATTEMPT, StringType()), *schema.fields])


# Attempts as the runner takes them: a run has one cycle of each cluster, so each attempt is a cluster, named by its id.


class AttemptsAsClusters(Lake):
    """The lake as tasks read it, with each attempt's id for its cluster's name."""

    def __init__(self, rows: Rows, own: Sequence[RecordedCycle]) -> None:
        super().__init__(rows.lake.root)
        self._rows = rows
        self._clusters = {one.attempt.attempt_id: one.attempt.cluster for one in own}

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """Return the rows of these writes, each named for the attempt that asks for it."""
        from pyspark.sql import functions as F

        wanted = [(write.cluster, replace(write, cluster=self._clusters[write.cluster])) for write in writes]
        found = self._rows.of(table, wanted).withColumn("cluster", F.col(ATTEMPT))
        return found.select(*TABLES[table].column_names())


def as_clusters(lake: Lake, own: Sequence[RecordedCycle]) -> Handover:
    """Return the hand-over of a run whose clusters are these attempts."""
    cycles = []
    for one in own:
        name = one.attempt.attempt_id
        before = replace(
            one.cycle.predecessor, writes=tuple(replace(write, cluster=name) for write in one.attempt.reads)
        )
        cycles.append(replace(one.cycle, cluster=name, predecessor=before))
    writes = tuple(
        replace(write, cluster=one.attempt.attempt_id, cycle_at=one.cycle.cycle_at)
        for one in own
        for write in one.attempt.writes
    )
    return Handover(lake.root, Run("verify", "verify"), tuple(cycles), writes)
