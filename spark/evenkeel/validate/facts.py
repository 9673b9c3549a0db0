"""The facts that rules across tables look at, and what such a rule is.

One Spark job per table for all cycles, all jobs at the same time. The job that fetches a small table also marks which
rules each row breaks, and the one over the topics counts the offenders, so that no rule needs a job of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import cycle as in_turn
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.handover import CycleKey
from evenkeel.lake.rejected_records import place, record_key
from evenkeel.lake.schemas import TABLES
from evenkeel.model.load import RATES
from evenkeel.settings import Settings
from evenkeel.spark.sql import arrow_of, exact_sum, iso, united
from evenkeel.validate.suites import FILTERED, Found, Suite, ValidationRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from evenkeel.lake.schema import Table


Row = dict[str, Any]
LACKS_A_RATE = "observation = 'loaded' and (" + " or ".join(f"{rate} is null" for rate in RATES) + ")"

# Texts that no rule looks at, and that are as large as the snapshot itself.
_UNREAD = {
    "broker_reports": ("rest",),
    "namespace_bundles": ("policies",),
    "raw_answers": ("body", "location"),
    "cluster_policies": ("isolation_policies", "configuration_differs"),
}
BROKEN, PLACE, KEY, RECORD, AT = "broken", "place", "record_key", "record", "_cycle_at"
_LARGEST_SMALL = 1_000_000
_TOGETHER = "together"


class RowsOfCycles:
    """Rows of many cycles, put in order once, so that those of each lie side by side. `rows` are all of them."""

    def __init__(self, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        many = rows.num_rows and (pc.count_distinct(rows["cluster"]).as_py(), pc.count_distinct(rows[AT]).as_py())
        if many and many != (1, 1):
            rows = rows.take(pc.sort_indices(rows, sort_keys=[("cluster", "ascending"), (AT, "ascending")]))
        self.rows = rows
        self._spans: dict[CycleKey, tuple[int, int]] = {}
        for position, key in enumerate(zip(rows["cluster"].to_pylist(), rows[AT].to_pylist(), strict=True)):
            first, length = self._spans.get(key, (position, 0))
            self._spans[key] = first, length + 1

    def of(self, key: CycleKey) -> pa.Table:
        """The rows of one cycle."""
        first, length = self._spans.get(key, (0, 0))
        return self.rows.slice(first, length)

    def counts(self) -> dict[CycleKey, int]:
        """The number of rows of each cycle that has any."""
        return {key: length for key, (_, length) in self._spans.items()}


@dataclass(frozen=True, slots=True)
class Facts:
    """What was observed in all open cycles. Every table has the column `_cycle_at`, the text of `cycle_at`.

    `small` are the tables but topic_stats, with the columns `broken` (names of the rules that the row breaks), `place`,
    `record_key` and, where it breaks one, `record` (JSON). `topics` has one row per cycle, namespace, bundle_range and
    broker. `topic_rows` are the columns of topic_stats that its suite looks at, None if there are more topics than are
    worth fetching.
    """

    small: Mapping[str, RowsOfCycles]
    topics: RowsOfCycles
    topic_rows: RowsOfCycles | None

    def rows(self, table: str, key: CycleKey) -> list[Row]:
        """The rows of one cycle in a small table, or of the summed `topic_stats`."""
        rows = self.topics if table == "topic_stats" else self.small[table]
        found: list[Row] = rows.of(key).to_pylist()
        return found


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was observed of one cluster in one cycle, as the cross-table rules look at it. Times are aware, in UTC."""

    cluster: str
    settings: Settings
    policies: Row
    brokers: tuple[Row, ...] = ()
    namespaces: tuple[Row, ...] = ()
    claims: tuple[Row, ...] = ()
    topics: tuple[Row, ...] = ()
    rejecting: frozenset[str] = field(default=frozenset())
    cycle_at: str = ""

    @property
    def key(self) -> CycleKey:
        """What tells the cycle apart from the others of the run."""
        return self.cluster, self.cycle_at

    @property
    def listed(self) -> tuple[str, ...]:
        """Broker ids as the cluster lists them, doubled ones included."""
        return tuple(self.policies.get("brokers") or ())

    @property
    def ended_at(self) -> datetime | None:
        """The moment that ages are measured against: the end of the snapshot, never the clock."""
        return self.policies.get("snapshot_finished_at")

    def is_set_aside(self, row: Row) -> bool:
        """Whether the row breaks an expectation that rejects."""
        return any(name in self.rejecting for name in row.get(BROKEN) or ())


def fetch(tables: Mapping[str, DataFrame], suites: Mapping[str, Suite], topics: int, *, are_few: bool = False) -> Facts:
    """Runs the jobs. `tables` are the observed tables of open cycles, `topics` the number of rows of topic_stats.
    `are_few`: rows of small tables, which then come together."""
    marked = {name: _marked(tables[name], suites[name]) for name in tables if name != "topic_stats"}
    jobs: dict[str, Callable[[], pa.Table]] = {name: partial(arrow_of, frame) for name, frame in marked.items()}
    if are_few:
        jobs = {_TOGETHER: partial(arrow_of, _together(marked))}
    rows = tables["topic_stats"]
    jobs["topics"] = partial(arrow_of, topic_groups(rows, suites["topic_stats"]))
    if topics <= _LARGEST_SMALL:
        named = {"cluster", *suites["topic_stats"].columns()}
        jobs["topic_rows"] = partial(arrow_of, rows.select(*sorted(named), iso("cycle_at").alias(AT)))
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        found = {name: future.result() for name, future in futures.items()}
    if are_few:
        found |= _apart(found.pop(_TOGETHER), marked)
    read = {name: RowsOfCycles(one) for name, one in found.items()}
    summed, of_topics = read.pop("topics"), read.pop("topic_rows", None)
    return Facts(read, summed, of_topics)


def _together(frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all frames in one; the column named like a frame holds its rows. A job for each costs more than a few
    rows do."""
    return united((frame.select(F.struct("*").alias(name)) for name, frame in frames.items()), with_missing=True)


def _apart(found: pa.Table, names: Iterable[str]) -> dict[str, pa.Table]:
    """The other way round."""
    import pyarrow as pa
    import pyarrow.compute as pc

    apart = {}
    for name in names:
        own = found.column(name).filter(pc.is_valid(found.column(name))).combine_chunks()
        apart[name] = pa.Table.from_batches([pa.RecordBatch.from_struct_array(own)])
    return apart


def topic_groups(rows: DataFrame, suite: Suite) -> DataFrame:
    """Topics by cycle, namespace, bundle_range and broker: counts, extreme hashes, rates, offenders of each rule."""
    offenders = [F.count_if(is_broken(rule)).alias(f"broken_{rule.name}") for rule in filtered(suite.rules)]
    return (
        rows.groupBy("cluster", "cycle_at", "namespace", "bundle_range", "broker")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(F.col("observation") == "loaded").alias("loaded"),
            F.count_if(F.expr(LACKS_A_RATE)).alias("without_rate"),
            F.min("hash").alias("lowest_hash"),
            F.max("hash").alias("highest_hash"),
            exact_sum("msg_rate_in").alias("msg_rate_in"),
            exact_sum("msg_rate_out").alias("msg_rate_out"),
            *offenders,
        )
        .withColumn(AT, iso("cycle_at"))
    )


def _marked(rows: DataFrame, suite: Suite) -> DataFrame:
    table = TABLES[suite.table]
    marked = rows.withColumn(BROKEN, broken_rules(suite.rules))
    return marked.select(
        *looked_at(table),
        iso("cycle_at").alias(AT),
        BROKEN,
        place(table).alias(PLACE),
        record_key(table).alias(KEY),
        F.when(F.size(BROKEN) > 0, _record(table)).alias(RECORD),
    )


def looked_at(table: Table) -> list[str]:
    """The columns of a small table without the texts that no rule looks at."""
    return [column.name for column in table.body_columns() if column.name not in _UNREAD.get(table.name, ())]


def _record(table: Table) -> Column:
    return F.to_json(F.struct(*looked_at(table)))


def with_records(refused: Sequence[Row], tables: Mapping[str, DataFrame]) -> list[Row]:
    """Bodies of `rejected` rows, those without a `record` with the one that stands in their table.

    What a rule over several tables refuses is known by its key alone, so that the texts of all other rows stay where
    they are: together they are as large as the rows themselves.
    """
    lacking: dict[str, list[Row]] = {}
    for row in refused:
        if row[RECORD] is None:
            lacking.setdefault(row["rejected_from"], []).append(row)
    known: dict[tuple[str, ...], list[str]] = {}
    for name, rows in lacking.items():
        for found in _records_of(tables[name], name, rows):
            known.setdefault((name, found["cluster"], found[AT], found[KEY]), []).append(found[RECORD])
    texts = {key: in_turn(same) for key, same in known.items()}  # of rows that share a key each gets another one
    return [
        row
        if row[RECORD] is not None
        else {**row, RECORD: next(texts[row["rejected_from"], row["cluster"], row[AT], row[KEY]])}
        for row in refused
    ]


def _records_of(rows: DataFrame, name: str, wanted: Sequence[Row]) -> list[Row]:
    """The records of a table with the keys of `wanted`, in the order of their texts."""
    table = TABLES[name]
    keys = sorted({(row["cluster"], row[AT], row[KEY]) for row in wanted})
    named = rows.sparkSession.createDataFrame(keys, f"cluster string, {AT} string, {KEY} string")
    keyed = rows.withColumn(AT, iso("cycle_at")).withColumn(KEY, record_key(table))
    found = keyed.join(F.broadcast(named), ["cluster", AT, KEY], "left_semi")
    told = found.select("cluster", AT, KEY, _record(table).alias(RECORD)).orderBy(RECORD)
    records: list[Row] = arrow_of(told).to_pylist()
    return records


# A rule over several tables of one cluster, and how it is looked up.


@dataclass(frozen=True, slots=True)
class CrossRule:
    """`look` is a pure function from what was observed to what was found; `refuse` names the records to set aside.

    `refuse` is for records of small tables; topics are set aside by a Spark filter.
    """

    rule: ValidationRule
    look: Callable[[ClusterFacts], Found]
    refuse: Callable[[ClusterFacts], list[Row]] | None = None


def rule(
    name: str, table: str, severity: str, advice: str, unit: str | None = None, setting: str | None = None
) -> ValidationRule:
    """A cross-table rule; `setting` is the key that holds its threshold."""
    return ValidationRule(name, table, severity, advice, unit=unit, definition={"setting": setting} if setting else {})


# Our own filters for what an expectation calls unexpected, as Spark expressions.
#
# Great Expectations says how many rows break a rule; these say which, so that they can be set aside. Both agree on the
# counts. As there, NULL breaks no rule but `not_be_null`. NaN is above every number and so breaks every upper bound.


def is_broken(rule: ValidationRule) -> Column:
    """Whether a row breaks the rule; never NULL. The rule's type must be one of `suites.FILTERED`."""
    kwargs: Mapping[str, Any] = rule.definition["kwargs"]
    column = F.col(kwargs["column"])
    if rule.definition["type"] == "expect_column_values_to_not_be_null":
        return column.isNull()
    if rule.definition["type"] == "expect_column_values_to_be_in_set":
        holds = column.isin(kwargs["value_set"])
    elif rule.definition["type"] == "expect_column_values_to_match_regex":
        holds = column.rlike(kwargs["regex"])
    else:
        holds = F.lit(True)
        if kwargs.get("min_value") is not None:
            holds = holds & (column >= F.lit(kwargs["min_value"]))
        if kwargs.get("max_value") is not None:
            holds = holds & (column <= F.lit(kwargs["max_value"]))
    return ~F.coalesce(holds, F.lit(True))


def filtered(rules: Iterable[ValidationRule]) -> list[ValidationRule]:
    """The rules whose offenders can be found row by row."""
    return [rule for rule in rules if rule.definition["type"] in FILTERED]


def broken_rules(rules: Iterable[ValidationRule]) -> Column:
    """The names of the rules that a row breaks, as an array."""
    names = [F.when(is_broken(rule), F.lit(rule.name)) for rule in filtered(rules)]
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")


def rejected_rows(rows: DataFrame, table: str, broken: Column, reasons: Mapping[str, str], files: Column) -> DataFrame:
    """Rows of `rejected` for the records of which `broken` (an array of rule names) names a rule of `reasons`."""
    wanted = F.array_intersect(broken, F.array(*[F.lit(name) for name in reasons]))
    said = F.lit(None).cast("string")
    for name, reason in reasons.items():
        said = F.when(F.col("rule") == name, F.lit(reason)).otherwise(said)
    marked = rows.select(
        "cluster",
        "cycle_at",
        F.lit(table).alias("rejected_from"),
        files.alias("file"),
        place(TABLES[table]).alias("place"),
        F.to_json(F.struct(*[column.name for column in TABLES[table].body_columns()])).alias("record"),
        record_key(TABLES[table]).alias("record_key"),
        F.explode(wanted).alias("rule"),
    )
    return marked.withColumn("reason", F.concat(F.col("place"), F.lit(": "), said))
