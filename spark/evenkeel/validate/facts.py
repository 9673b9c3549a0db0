"""The facts that rules across tables look at, and what such a rule is.

One Spark job per table, all at the same time. The job that fetches a small table also marks which rules each row
breaks, and the one over the topics counts the offenders, so that no rule needs a job of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.lake.rejected_records import place, record_key
from evenkeel.lake.schemas import TABLES
from evenkeel.settings import Settings
from evenkeel.spark.sql import exact_sum
from evenkeel.validate.suites import FILTERED, Found, Suite, ValidationRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


Row = dict[str, Any]
RATES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
LACKS_A_RATE = "observation = 'loaded' and (" + " or ".join(f"{rate} is null" for rate in RATES) + ")"

# Texts that no rule looks at, and that are as large as the snapshot itself.
_UNREAD = {
    "broker_reports": ("rest",),
    "namespace_bundles": ("policies",),
    "raw_answers": ("body", "location"),
    "cluster_policies": ("isolation_policies", "configuration_differs"),
}
BROKEN, PLACE, KEY, RECORD = "broken", "place", "record_key", "record"
_LARGEST_SMALL = 100_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What was observed of all open clusters.

    `small` are the tables but topic_stats, with the columns `broken` (names of the rules that the row breaks), `place`,
    `record_key` and `record` (JSON, only of rows that break a rule). `topics` has one row per cluster, namespace,
    bundle_range and broker. `topic_rows` are the columns of topic_stats that its suite looks at, None if there are more
    topics than are worth fetching.
    """

    small: Mapping[str, pa.Table]
    topics: pa.Table
    topic_rows: pa.Table | None

    def rows(self, table: str, cluster: str) -> list[Row]:
        """The rows of one cluster in a small table, or of the summed `topic_stats`."""
        import pyarrow.compute as pc

        rows = self.topics if table == "topic_stats" else self.small[table]
        found: list[Row] = rows.filter(pc.equal(rows["cluster"], cluster)).to_pylist()
        return found


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was observed of one cluster, as the cross-table rules look at it. Times are aware, in UTC."""

    cluster: str
    settings: Settings
    policies: Row
    brokers: tuple[Row, ...] = ()
    namespaces: tuple[Row, ...] = ()
    claims: tuple[Row, ...] = ()
    topics: tuple[Row, ...] = ()
    rejecting: frozenset[str] = field(default=frozenset())

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


def fetch(tables: Mapping[str, DataFrame], suites: Mapping[str, Suite], topics: int) -> Facts:
    """Runs the jobs. `tables` are the observed tables of open clusters, `topics` the number of rows of topic_stats."""
    jobs: dict[str, Callable[[], pa.Table]] = {
        name: _marked(tables[name], suites[name]).toArrow for name in tables if name != "topic_stats"
    }
    rows = tables["topic_stats"]
    jobs["topics"] = topic_groups(rows, suites["topic_stats"]).toArrow
    if topics <= _LARGEST_SMALL:
        named = {"cluster", *suites["topic_stats"].columns()}
        jobs["topic_rows"] = rows.select(*sorted(named)).toArrow
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        found = {name: future.result() for name, future in futures.items()}
    summed, topic_rows = found.pop("topics"), found.pop("topic_rows", None)
    return Facts(found, summed, topic_rows)


def topic_groups(rows: DataFrame, suite: Suite) -> DataFrame:
    """Topics by cluster, namespace, bundle_range and broker: counts, extreme hashes, rates, offenders of each rule."""
    offenders = [F.count_if(is_broken(rule)).alias(f"broken_{rule.name}") for rule in filtered(suite.rules)]
    return rows.groupBy("cluster", "namespace", "bundle_range", "broker").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("observation") == "loaded").alias("loaded"),
        F.count_if(F.expr(LACKS_A_RATE)).alias("without_rate"),
        F.min("hash").alias("lowest_hash"),
        F.max("hash").alias("highest_hash"),
        exact_sum("msg_rate_in").alias("msg_rate_in"),
        exact_sum("msg_rate_out").alias("msg_rate_out"),
        *offenders,
    )


def _marked(rows: DataFrame, suite: Suite) -> DataFrame:
    table = TABLES[suite.table]
    kept = [column.name for column in table.body_columns() if column.name not in _UNREAD.get(suite.table, ())]
    marked = rows.withColumn(BROKEN, broken_rules(suite.rules))
    return marked.select(
        *kept,
        BROKEN,
        place(table).alias(PLACE),
        record_key(table).alias(KEY),
        _record(kept).alias(RECORD),
    )


def _record(columns: list[str]) -> Column:
    return F.to_json(F.struct(*columns))


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
