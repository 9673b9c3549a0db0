"""Facts for the rules across tables, and the definition of such a rule.

One Spark job per table for all cycles, all jobs in parallel. The facts of a cycle with few rows are read in this
process: a faultless cycle asks Spark nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F

from evenkeel.cycle.frames import place, record_key
from evenkeel.handover import CycleKey, Handover
from evenkeel.lake.plain_rows import found_rows, types_of
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model import exact_sums
from evenkeel.model.load import RATES
from evenkeel.settings import Settings
from evenkeel.spark.rows import arrow_type, each_once, moment_text, ticks
from evenkeel.spark.sql import arrow_of, exact_sum, iso, united
from evenkeel.validate.suites import BY_ROW, TOPICS, Found, Suite, ValidationRule

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from evenkeel.lake.schema import Table


Row = dict[str, Any]
GROUP = ("cluster", "cycle_at", "namespace", "bundle_range", "broker")
"""The columns by which topics are summed."""
LACKS_A_RATE = "observation = 'loaded' and (" + " or ".join(f"{rate} is null" for rate in RATES) + ")"

# Texts that no rule reads, and that are as large as the snapshot itself.
_UNREAD = {
    "broker_reports": ("rest",),
    "namespace_bundles": ("policies",),
    "raw_answers": ("body", "location"),
    "cluster_policies": ("configuration_differs",),
}
AT = "_cycle_at"
MOST_TOPICS = 1_000_000
"""Most topics that are fetched and judged in this process; of more, Spark counts those that break a rule."""
_TOGETHER = "together"


class RowsOfCycles:
    """Rows of many cycles, sorted once, so that those of each are adjacent. `rows` are all of them."""

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
        """Return the rows of one cycle."""
        first, length = self._spans.get(key, (0, 0))
        return self.rows.slice(first, length)

    def at(self, positions: Sequence[int], columns: Iterable[str] | None = None) -> list[Row]:
        """Return the rows at these places of all, with all columns or some."""
        names = self.rows.column_names if columns is None else [*dict.fromkeys(columns)]
        rows: list[Row] = self.rows.select(names).take([*positions]).to_pylist() if positions else []
        return rows

    def counts(self) -> dict[CycleKey, int]:
        """Return the number of rows of each cycle that has any."""
        return {key: length for key, (_, length) in self._spans.items()}


@dataclass(frozen=True, slots=True)
class Facts:
    """Observed rows of all open cycles. Every table has the column `_cycle_at`, the text of `cycle_at`.

    `small` are the tables except topic_stats. `topics` has one row per cycle, namespace, bundle_range and broker.
    `topic_rows` are the columns of topic_stats that its suite reads and that name a topic. It is None if there are more
    than `MOST_TOPICS`, and then `topics` counts the topics that break each rule (`broken_<rule>`).
    """

    small: Mapping[str, RowsOfCycles]
    topics: RowsOfCycles
    topic_rows: RowsOfCycles | None

    def checked(self, table: str) -> RowsOfCycles | None:
        """Return the rows that the table's suite is run on; None for topics that stay in Spark."""
        return self.topic_rows if table == TOPICS else self.small[table]

    def rows(self, table: str, key: CycleKey) -> list[Row]:
        """Return the rows of one cycle in a small table, or of the summed `topic_stats`."""
        rows = self.topics if table == TOPICS else self.small[table]
        cycle_rows: list[Row] = rows.of(key).to_pylist()
        return cycle_rows


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Observed rows of one cluster in one cycle, for the cross-table rules. Times are aware, in UTC.

    `unusable`: reports of `brokers` that break a rejecting rule of their suite.
    """

    cluster: str
    settings: Settings
    policies: Row
    brokers: tuple[Row, ...] = ()
    namespaces: tuple[Row, ...] = ()
    claims: tuple[Row, ...] = ()
    topics: tuple[Row, ...] = ()
    unusable: tuple[Row, ...] = ()
    cycle_at: str = ""

    @property
    def key(self) -> CycleKey:
        """Key of the cycle within the run."""
        return self.cluster, self.cycle_at

    @property
    def listed(self) -> tuple[str, ...]:
        """Broker ids as the cluster lists them, duplicates included."""
        return tuple(self.policies.get("brokers") or ())

    @property
    def ended_at(self) -> datetime | None:
        """The moment from which ages are measured: the end of the snapshot, never the clock."""
        return self.policies.get("snapshot_finished_at")


def fetch(tables: Mapping[str, DataFrame], suites: Mapping[str, Suite], topics: int, *, are_few: bool = False) -> Facts:
    """Run the jobs.

    `tables` are the observed tables of open cycles, `topics` the number of rows of topic_stats. With `are_few` rows of
    small tables come in one job.
    """
    small = {
        name: rows.select(*small_columns(suites[name]), iso("cycle_at").alias(AT))
        for name, rows in tables.items()
        if name != TOPICS
    }
    jobs: dict[str, Callable[[], pa.Table]] = {name: partial(arrow_of, frame) for name, frame in small.items()}
    if are_few:
        jobs = {_TOGETHER: partial(arrow_of, _together(small))}
    rows, are_here = tables[TOPICS], topics <= MOST_TOPICS
    jobs["topics"] = partial(arrow_of, topic_groups(rows, () if are_here else suites[TOPICS].rules))
    if are_here:
        jobs["topic_rows"] = partial(arrow_of, rows.select(*topic_columns(suites[TOPICS]), iso("cycle_at").alias(AT)))
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        tables_by_name = {name: future.result() for name, future in futures.items()}
    if are_few:
        tables_by_name |= _apart(tables_by_name.pop(_TOGETHER), small)
    read = {name: RowsOfCycles(table) for name, table in tables_by_name.items()}
    summed, of_topics = read.pop("topics"), read.pop("topic_rows", None)
    return Facts(read, summed, of_topics)


def small_columns(suite: Suite) -> list[str]:
    """Return the columns of a table in `Facts.small`."""
    return [*dict.fromkeys((*looked_at(TABLES[suite.table]), *suite.columns()))]


def topic_columns(suite: Suite) -> list[str]:
    """Return the columns of `Facts.topic_rows`, sorted."""
    return sorted({*suite.columns(), *TABLES[TOPICS].key, *GROUP})


def _together(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of all frames in one; the column named like a frame holds its rows.

    A job for each costs more than a few rows do.
    """
    return united((frame.select(F.struct("*").alias(name)) for name, frame in frames.items()), with_missing=True)


def _apart(together: pa.Table, names: Iterable[str]) -> dict[str, pa.Table]:
    """Return the tables from the rows of `_together`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    apart = {}
    for name in names:
        column = together.column(name).filter(pc.is_valid(together.column(name))).combine_chunks()
        apart[name] = pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])
    return apart


def topic_groups(rows: DataFrame, rules: Iterable[ValidationRule]) -> DataFrame:
    """Return topics by the columns of `GROUP`: counts, extreme hashes, rates, and how many break each rule."""
    offenders = [F.count_if(is_broken(rule)).alias(f"broken_{rule.name}") for rule in by_row(rules)]
    return (
        rows.groupBy(*GROUP)
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


def looked_at(table: Table) -> list[str]:
    """Return the columns of a small table without the texts that no rule reads."""
    return [column.name for column in table.body_columns() if column.name not in _UNREAD.get(table.name, ())]


@dataclass(frozen=True, slots=True)
class CrossRule:
    """`look` is a pure function from the observed rows to its result.

    `refuse`: its offenders are brokers, and those of these facts that name one of them are to be rejected. Topics are
    rejected by a Spark filter.
    """

    rule: ValidationRule
    look: Callable[[ClusterFacts], Found]
    refuse: Literal["brokers", "claims"] | None = None


def cross_rule(
    table: str,
    severity: str,
    advice: str,
    unit: str | None = None,
    setting: str | None = None,
    *,
    refuse: Literal["brokers", "claims"] | None = None,
) -> Callable[[Callable[[ClusterFacts], Found]], CrossRule]:
    """Make a function the cross-table rule of its name; `setting` is the key that holds the threshold."""
    definition = {"setting": setting} if setting else {}

    def made_of(look: Callable[[ClusterFacts], Found]) -> CrossRule:
        rule = ValidationRule(look.__name__, table, severity, advice, unit=unit, definition=definition)
        return CrossRule(rule, look, refuse)

    return made_of


# A broken rule as a Spark expression made from the suite: for topics too many to be named one by one. As for Great
# Expectations, NULL breaks no rule except `not_be_null`, and NaN is above every number.


def is_broken(rule: ValidationRule) -> Column:
    """Return a condition that a row breaks the rule; never NULL. The rule's type must be one of `suites.BY_ROW`."""
    kwargs: Mapping[str, Any] = rule.definition["kwargs"]
    column = F.col(kwargs["column"])
    if rule.definition["type"] == "expect_column_values_to_not_be_null":
        return column.isNull()
    if rule.definition["type"] == "expect_column_values_to_be_in_set":
        holds = column.isin(kwargs["value_set"])
    elif rule.definition["type"] == "expect_column_values_to_match_regex":
        holds = column.rlike(kwargs["regex"])
    else:
        holds, least, most = F.lit(True), kwargs.get("min_value"), kwargs.get("max_value")
        if least is not None:
            holds = holds & (column > least if kwargs.get("strict_min") else column >= least)
        if most is not None:
            holds = holds & (column < most if kwargs.get("strict_max") else column <= most)
    return ~F.coalesce(holds, F.lit(True))


def by_row(rules: Iterable[ValidationRule]) -> list[ValidationRule]:
    """Return the rules that single rows break."""
    return [rule for rule in rules if rule.definition["type"] in BY_ROW]


def rejected_rows(rows: DataFrame, table: str) -> DataFrame:
    """Return rows of `rejected` from records of a table with the columns `_rule`, `_words` and `_file`."""
    where = place(TABLES[table])
    return rows.select(
        "cluster",
        "cycle_at",
        F.lit(table).alias("rejected_from"),
        F.col("_file").alias("file"),
        where.alias("place"),
        F.to_json(F.struct(*looked_at(TABLES[table]))).alias("record"),
        record_key(TABLES[table]).alias("record_key"),
        F.col("_rule").alias("rule"),
        F.concat(where, F.lit(": "), F.col("_words")).alias("reason"),
    )


_TOPIC_COLUMNS = ("namespace", "bundle_range", "broker", "observation", "hash", *RATES)
_GROUP = ("cluster", AT, "namespace", "bundle_range", "broker")
_ADDED = ("msg_rate_in", "msg_rate_out")


def facts_at_hand(lake: Lake, handover: Handover, suites: Mapping[str, Suite]) -> Facts | None:
    """Return the facts of open cycles; None if this process cannot read a file."""
    small: dict[str, RowsOfCycles] = {}
    for table, suite in suites.items():
        names = {*topic_columns(suite), *_TOPIC_COLUMNS} if table == TOPICS else {*small_columns(suite)}
        rows = _read(lake, handover, table, names)
        if rows is None:
            return None
        small[table] = RowsOfCycles(rows)
    topics = small.pop(TOPICS)
    return Facts(small, RowsOfCycles(_summed(topics.rows)), topics)


def _read(lake: Lake, handover: Handover, table: str, names: Iterable[str]) -> pa.Table | None:
    """Return the rows of a table in the types that Spark gives them, with `cluster`, `cycle_at` and its text."""
    import pyarrow as pa

    kinds, ordered = types_of(table), sorted({"cluster", "cycle_at", *names})
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in ordered])
    parts = [schema.empty_table()]
    for write in handover.open_writes(table):
        rows = found_rows(lake, write, ordered) if write.rows else None
        if write.rows and (rows is None or not {*ordered} <= {*rows.column_names}):
            return None
        parts += [] if rows is None else [rows.select(ordered).cast(schema)]
    typed = pa.concat_tables(parts)
    moments = [tick for chunk in typed.column("cycle_at").chunks for tick in ticks(chunk)]
    return typed.append_column(AT, pa.array(each_once(moments, moment_text), pa.string()))


def _summed(topics: pa.Table) -> pa.Table:
    """Return the rows of `facts.topic_groups`."""
    import pyarrow as pa

    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in topics.select([*dict.fromkeys((*_GROUP, "cycle_at", *_TOPIC_COLUMNS))]).to_pylist():
        groups[tuple(row[name] for name in _GROUP)].append(row)
    whole, double = pa.int64(), pa.float64()
    types = dict.fromkeys((*_GROUP,), pa.string()) | {"cycle_at": topics.schema.field("cycle_at").type}
    types |= dict.fromkeys(("rows", "loaded", "without_rate", "lowest_hash", "highest_hash"), whole)
    types |= dict.fromkeys(_ADDED, double)
    rows = [_group(group) for group in groups.values()]
    return pa.Table.from_pylist(rows, pa.schema([*types.items()]))


def _group(topics: Sequence[Row]) -> Row:
    first = topics[0]
    loaded = [topic for topic in topics if topic["observation"] == "loaded"]
    hashes = [topic["hash"] for topic in topics if topic["hash"] is not None]
    return {
        **{name: first[name] for name in (*_GROUP, "cycle_at")},
        "rows": len(topics),
        "loaded": len(loaded),
        "without_rate": sum(any(topic[rate] is None for rate in RATES) for topic in loaded),
        "lowest_hash": min(hashes, default=None),
        "highest_hash": max(hashes, default=None),
        **{name: exact_sums.exact_sum(topic[name] for topic in topics) for name in _ADDED},
    }
