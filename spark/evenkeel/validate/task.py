"""Check that the observed rows can be trusted.

Reads: the observed tables.
Writes: `validation_results`, a row per rule, table and cycle, passed or failed, and `rejected`, a row per rejected
record.
Skips: cycles that are not open. Leaves out cycles that break a rule of severity quarantine, with the reason.
Fails when: a suite in `expectations/` cannot be read or run.

This process checks the rows of small tables. In a window with very many rows it checks some of its cycles at a time, so
that memory is bounded by rows.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.cycle.runner import frame_of_rows
from evenkeel.handover import ClusterCycle, CycleKey, Handover
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.settings import Settings, settings_in
from evenkeel.spark.sql import is_one_of, united
from evenkeel.validate.facts import LACKS_A_RATE, facts_at_hand, fetch, is_broken, rejected_rows
from evenkeel.validate.judging import Judgement, RefusedRecord, broken_words, judge
from evenkeel.validate.suites import OF_CYCLE, SUITES, TOPICS, read_suites

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.validate.facts import Row
    from evenkeel.validate.suites import Suite


FEW_ROWS = 20_000
"""Rows of small tables that are fetched by one job."""
MOST_ROWS = 300_000
"""Most rows of small tables that are checked together, except for a single cycle that has more."""


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Check the snapshots of all open cycles."""
    if not handover.open_cycles():
        return handover
    lake, suites = Lake(handover.lake), read_suites()
    results: list[Row] = []
    rejected: list[DataFrame] = []
    quarantined: dict[CycleKey, str] = {}
    for part in parts(handover):
        tables = observed(spark, lake, part)
        judgement = judged(lake, part, suites, tables)
        results += result_rows(part, judgement)
        rejected += rejected_frames(spark, part, judgement, suites, tables)
        quarantined |= judgement.quarantined
    names = [column.name for column in TABLES["validation_results"].body_columns()]
    frames = {
        "validation_results": frame_of_rows(
            spark, "validation_results", [{name: row.get(name) for name in names} for row in results]
        )
    }
    if rejected:
        frames["rejected"] = united(rejected)
    writes = lake.append(spark, frames, handover=handover, task="validate")
    return handover.with_writes(writes).leave_out(quarantined)


def judged(lake: Lake, handover: Handover, suites: Mapping[str, Suite], tables: Mapping[str, DataFrame]) -> Judgement:
    """Return the judgement of the open cycles; `tables` are their observed ones. Few rows are read in this process."""
    rows = {table: sum(write.rows for write in handover.open_writes(table)) for table in suites}
    topics = rows.pop(TOPICS)
    are_few = sum(rows.values()) <= FEW_ROWS
    facts = None
    if are_few and topics <= FEW_ROWS and not handover.is_window():
        facts = facts_at_hand(lake, handover, suites)
    if facts is None:
        facts = fetch(tables, suites, topics, are_few=are_few)
    return judge(facts, suites, settings_of(handover), tables[TOPICS])


def parts(handover: Handover, most_rows: int = MOST_ROWS) -> Iterator[Handover]:
    """Yield the hand-over with some of its open cycles at a time if they have too many rows together."""
    rows: Counter[CycleKey] = Counter()
    for write in handover.writes:
        if write.table in SUITES and write.table != TOPICS:
            rows[write.cluster, write.cycle_at] += write.rows
    part: list[ClusterCycle] = []
    held = 0
    for cycle in handover.open_cycles() if handover.is_window() else ():
        if part and held + rows[cycle.key] > most_rows:
            yield handover.with_cycles(part)
            part, held = [], 0
        part.append(cycle)
        held += rows[cycle.key]
    yield handover.with_cycles(part) if part else handover


def observed(spark: SparkSession, lake: Lake, handover: Handover) -> dict[str, DataFrame]:
    """Return the observed tables of this run's open cycles, as ingest wrote them."""
    return {table: lake.read(spark, table, handover.open_writes(table)) for table in SUITES}


def settings_of(handover: Handover) -> dict[CycleKey, Settings]:
    """Return the settings in force, by open cycle."""
    texts = {cycle.settings for cycle in handover.open_cycles()}
    read = {text: settings_in(text) for text in texts}
    return {cycle.key: read[cycle.settings] for cycle in handover.open_cycles()}


_RATELESS = "loaded_topics_have_rates"


def result_rows(handover: Handover, judgement: Judgement) -> list[Row]:
    """Return rows of validation_results."""
    times = {cycle.key: cycle.at for cycle in handover.cycles}
    return [
        {"cluster": finding.cluster, "cycle_at": times[finding.key], **finding.row()} for finding in judgement.findings
    ]


def rejected_frames(
    spark: SparkSession,
    handover: Handover,
    judgement: Judgement,
    suites: Mapping[str, Suite],
    tables: Mapping[str, DataFrame],
) -> list[DataFrame]:
    """Return rows of rejected, a frame for each table and one for topics by filter; none if nothing is rejected."""
    frames = []
    for table in dict.fromkeys(refusal.table for refusal in judgement.refusals):
        table_refusals = [refusal for refusal in judgement.refusals if refusal.table == table]
        frames.append((_found_again(spark, suites[table], table_refusals, tables[table]), table))
    if judgement.topic_rules:
        frames.append((_broken_topics(spark, judgement, tables[TOPICS]), TOPICS))
    return [rejected_rows(_with_files(rows, handover), table) for rows, table in frames]


def _found_again(spark: SparkSession, suite: Suite, refusals: Sequence[RefusedRecord], rows: DataFrame) -> DataFrame:
    """Return the rejected rows of a table, once per rule, with `_rule` and `_words`.

    A row is identified by its key and by all that its suite reads, so rows equal in these are rejected alike.
    """
    kinds = {column.name: column.type for column in TABLES[suite.table].columns if "<" not in column.type}
    names = sorted({*OF_CYCLE, *TABLES[suite.table].key, *suite.columns()} & {*kinds})
    known: dict[str, tuple[Any, ...]] = {}
    for refusal in refusals:
        values = [refusal.row[name] for name in names]
        same = repr([value + 0.0 if isinstance(value, float) else value for value in values])  # -0.0 is 0.0
        known[f"{refusal.rule.name} {same}"] = (*values, refusal.rule.name, refusal.words)
    schema = ", ".join([*(f"same_{name} {kinds[name]}" for name in names), "_rule string", "_words string"])
    named = spark.createDataFrame([*known.values()], schema)
    return rows.join(
        F.broadcast(named), reduce(and_, [F.col(name).eqNullSafe(F.col(f"same_{name}")) for name in names])
    )


def _broken_topics(spark: SparkSession, judgement: Judgement, rows: DataFrame) -> DataFrame:
    """Return the topics that break a rule of `topic_rules`, once per rule, with `_rule` and `_words`."""
    marks = []
    for rule in judgement.topic_rules:
        if rule.kind == "expectation":
            breaks, words = is_broken(rule), broken_words(rule)
            if "mostly" in rule.definition["kwargs"]:
                failed = [finding.key for finding in judgement.findings if finding.rule == rule and not finding.passed]
                breaks = breaks & is_one_of(failed)
        elif rule.name == _RATELESS:
            breaks, words = F.expr(LACKS_A_RATE), "it is loaded and a rate is missing."
        else:
            named = [(*key, name) for key, name in judgement.strange_namespaces]
            strange = spark.createDataFrame(named, "cluster string, at string, namespace string")
            at = F.to_timestamp("at").alias("cycle_at")
            marked = strange.select("cluster", at, "namespace", F.lit(True).alias("is_strange"))
            rows = rows.join(F.broadcast(marked), ["cluster", "cycle_at", "namespace"], how="left")
            breaks, words = F.col("is_strange").isNotNull(), "the cluster has no such namespace."
        words_of_rule = F.lit(f"{words} {rule.advice}".strip()).alias("_words")
        marks.append(F.when(breaks, F.struct(F.lit(rule.name).alias("_rule"), words_of_rule)))
    broken = rows.withColumn("_broken", F.explode(F.array_compact(F.array(*marks))))
    return broken.select("*", "_broken.*")


def _with_files(rows: DataFrame, handover: Handover) -> DataFrame:
    """Return the rows with the path of their cycle's snapshot."""
    paths = [(*cycle.key, cycle.snapshot.path) for cycle in handover.open_cycles()]
    if len(paths) == 1:
        return rows.withColumn("_file", F.lit(paths[0][2]))
    named = rows.sparkSession.createDataFrame(paths, "cluster string, at string, _file string")
    files = named.select("cluster", F.to_timestamp("at").alias("cycle_at"), "_file")
    return rows.join(F.broadcast(files), ["cluster", "cycle_at"], how="left")
