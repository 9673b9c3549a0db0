"""Decide many recorded cycles again, each on the rows that its manifest lists, by the runner that tasks use.

The round that decides also compares: usually all rows are as recorded, and Spark need not compare them.

A run has one cycle of each cluster, so the runner is given each attempt as a cluster that is named by the attempt's id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from evenkeel import repetition
from evenkeel.aggregate import inputs as load_inputs
from evenkeel.cycle import frames
from evenkeel.cycle.fold import PLANNER
from evenkeel.cycle.frames import read_checked
from evenkeel.cycle.runner import DecideCycles, RoundInputs, decide_clusters
from evenkeel.handover import Handover, Run, Write
from evenkeel.lake.delta_log import TOPICS
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
from evenkeel.verify.contents import ATTEMPT, Rows, with_attempt
from evenkeel.verify.file_proofs import Proven, key_of
from evenkeel.verify.recorded_cycle import RecordedCycle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMED = schema_of("cluster string, table_name string")
_LOOKED_INTO = ("split", "refused", "skipped")
"""Outcomes of bundles over a limit: a bundle below all limits is `kept`, and no rule looks at its topics."""
_MOST_CYCLES = 400
_FILES_KEPT = 32
"""The number of data files in memory: the inputs of a cycle and of the one before lie in fewer.

The file of a window holds rows of hundreds of cycles.
"""


@dataclass
class Compared:
    """The result of deciding attempts again.

    `plans`: attempt id -> the row of its plan now. `differing`: attempt id -> the tables that differ. `reworded`: ids
    of attempts with a table in which only sentences differ.
    """

    plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    differing: dict[str, list[str]] = field(default_factory=dict)
    reworded: set[str] = field(default_factory=set)
    _frames: dict[str, list[DataFrame]] = field(default_factory=dict)

    def rows(self, table: str) -> DataFrame:
        """Return the rows of a table as decided now, for attempts in which it differs."""
        return united(self._frames[table])

    def tables(self) -> Collection[str]:
        """Return the tables that differ in any attempt."""
        return self._frames.keys()

    def add(
        self, inputs: RoundInputs, recorded: Sequence[RecordedCycle], decide: DecideCycles, tables: Sequence[str]
    ) -> None:
        """Decide these attempts again by `decide`, which returns the rows of `tables` that differ."""
        outputs = {table: with_attempt(TABLES[table].body_type()) for table in tables}
        outputs |= {repetition.DIFFERING: _NAMED, repetition.REWORDED: _NAMED, repetition.PLAN: plan_round.plan_type()}
        parameters = {
            "clusters": {cycle.attempt.attempt_id: cycle.attempt.cluster for cycle in recorded},
            "to_the_word": [cycle.attempt.attempt_id for cycle in recorded if cycle.to_the_word],
        }
        cycles = [{**cycle.cycle_row, "cluster": cycle.attempt.attempt_id} for cycle in recorded]
        decided = decide_clusters(inputs, cycles, decide, outputs, parameters)
        differing = decided.rows(repetition.DIFFERING)
        for row in differing:
            self.differing.setdefault(row["cluster"], []).append(row["table_name"])
        for table in sorted({row["table_name"] for row in differing}):
            self._frames.setdefault(table, []).append(decided.frame(table))
        self.reworded |= {row["cluster"] for row in decided.rows(repetition.REWORDED)}
        self.plans |= {row["cluster"]: row for row in decided.rows(repetition.PLAN)}


def decisions_again(rows: Rows, recorded: Sequence[RecordedCycle], proven: Proven) -> Compared:
    """Return the decisions of these attempts now; `proven`: the writes whose own files are unchanged."""
    compared = Compared()
    read_file = lru_cache(_FILES_KEPT)(rows_by_write)
    for part in _parts(recorded, proven):
        inputs = _decision_inputs(rows, part, read_file)
        compared.add(inputs, part, repetition.compare_decisions, repetition.OUTPUTS)
    return compared


def loads_again(rows: Rows, recorded: Sequence[RecordedCycle], proven: Proven) -> Compared:
    """Return the loads of bundles and brokers of these attempts now.

    The query of *aggregate* sums up the topics of all attempts in one job; its round does the rest.
    """
    compared = Compared()
    lake, run = AttemptsAsClusters(rows, recorded), as_clusters(rows.lake, recorded)
    inputs = load_inputs.read(rows.spark, lake, run)
    for table in repetition.LOADS:
        inputs.rounds.add_stored(repetition.recorded(table), run.open_writes(table), table=table)
    inputs.rounds.read_file = lru_cache(_FILES_KEPT)(rows_by_write)
    load_inputs.add_sums(rows.spark, inputs)
    for part in _parts(recorded, proven):
        of_part = inputs.rounds.of({cycle.attempt.attempt_id for cycle in part})
        compared.add(of_part, part, repetition.compare_loads, repetition.LOADS)
    return compared


def _parts(recorded: Sequence[RecordedCycle], proven: Proven) -> Iterator[list[RecordedCycle]]:
    """Yield attempts whose files all exist in parts that are decided in this process, then the others for Spark."""
    by_id = {cycle.attempt.attempt_id: cycle for cycle in recorded}
    with_files = [cycle.attempt for cycle in recorded if all(map(proven.get, map(key_of, _rests_on(cycle))))]
    for part in chunked(
        with_files, lambda attempt: _rows_of(by_id[attempt.attempt_id]), frames.MOST_HERE, _MOST_CYCLES
    ):
        yield [by_id.pop(attempt.attempt_id) for attempt in part]
    if by_id:
        yield [*by_id.values()]


def _rests_on(cycle: RecordedCycle) -> list[Write]:
    attempt = cycle.attempt
    return [write for write in (*attempt.writes, *attempt.reads) if write.rows and write.table != TOPICS]


def _rows_of(cycle: RecordedCycle) -> int:
    return sum(write.rows for write in _rests_on(cycle))


def listed(recorded: Sequence[RecordedCycle]) -> list[tuple[str, Write]]:
    """Return (attempt id, write) for each write of these attempts."""
    return [(cycle.attempt.attempt_id, write) for cycle in recorded for write in cycle.attempt.writes]


def _decision_inputs(rows: Rows, recorded: Sequence[RecordedCycle], read_file: RowsByWrite) -> RoundInputs:
    lake, run = AttemptsAsClusters(rows, recorded), as_clusters(rows.lake, recorded)
    inputs = RoundInputs(cast("SparkSession", rows.session), lake, run)
    inputs.read_file = read_file
    for table in repetition.OBSERVED:
        looked_at = columns_looked_at(table, TABLES[table].column_names())
        columns = ["cluster", *(name for name in looked_at if name != "cluster")]
        inputs.add_stored(table, run.open_writes(table), columns=columns)
    for table in repetition.OUTPUTS:
        inputs.add_stored(repetition.recorded(table), run.open_writes(table), table=table)
    before = [write for cycle in run.cycles for write in cycle.predecessor.writes]
    inputs.add_stored("state", [write for write in before if write.table == repetition.STATE], table=repetition.STATE)
    _add_topics(inputs, run, recorded)
    return inputs


def _add_topics(inputs: RoundInputs, run: Handover, recorded: Sequence[RecordedCycle]) -> None:
    """Add the topics that rounds see: those of bundles over a limit, and of namespaces in requests."""
    from pyspark.sql import functions as F

    inputs.add_empty("topic_hashes", schema_of(TOPICS_TYPE))
    if any(picks_by_topics(wish) for cycle in recorded for wish in cycle.cycle.wishes):
        topics = persistent_topics(inputs.spark, inputs.lake, run, inputs.frame("bundle_load"))
        for name, frame in topics.items():
            inputs.add_local(name, arrow_of(frame.drop("cycle_at")))
    cutting = {cycle.attempt.attempt_id for cycle in recorded if cycle.needs_topics}
    planning = {cycle.attempt.attempt_id for cycle in recorded if cycle.planner_looks_at_topics}
    if inputs.is_small:  # most often no bundle is over a limit, and no job is needed
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


class AttemptsAsClusters(Lake):
    """The lake as tasks read it, with the id of each attempt as its cluster's name."""

    def __init__(self, rows: Rows, recorded: Sequence[RecordedCycle]) -> None:
        super().__init__(rows.lake.root)
        self._rows = rows
        self._clusters = {cycle.attempt.attempt_id: cycle.attempt.cluster for cycle in recorded}

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """Return the rows of these writes; the column `cluster` has the id of the attempt that reads them."""
        from pyspark.sql import functions as F

        wanted = [(write.cluster, replace(write, cluster=self._clusters[write.cluster])) for write in writes]
        rows = self._rows.of(table, wanted).withColumn("cluster", F.col(ATTEMPT))
        return rows.select(*TABLES[table].column_names())


def as_clusters(lake: Lake, recorded: Sequence[RecordedCycle]) -> Handover:
    """Return the hand-over of a run whose clusters are these attempts."""
    cycles = []
    for cycle in recorded:
        name = cycle.attempt.attempt_id
        before = replace(
            cycle.cycle.predecessor, writes=tuple(replace(write, cluster=name) for write in cycle.attempt.reads)
        )
        cycles.append(replace(cycle.cycle, cluster=name, predecessor=before))
    writes = tuple(
        replace(write, cluster=cycle.attempt.attempt_id, cycle_at=cycle.cycle.cycle_at)
        for cycle in recorded
        for write in cycle.attempt.writes
    )
    return Handover(lake.root, Run("verify", "verify"), tuple(cycles), writes)
