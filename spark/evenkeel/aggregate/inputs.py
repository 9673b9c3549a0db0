"""What the round of aggregate is given: rows of bundles and brokers as they stand in the lake, and sums over topics.

Topic figures are summed where they lie. All else is of the size of bundles or brokers, and is read without the columns
that no rule looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from evenkeel.aggregate import sums_here
from evenkeel.aggregate.broker_load import RESOURCES
from evenkeel.aggregate.bundle_load import AVERAGES, CLIENTS, SAID
from evenkeel.aggregate.bundles_in_force import bundles_of, namespaces_in_force
from evenkeel.aggregate.round import LOADS_BEFORE, SPLITS_BEFORE
from evenkeel.aggregate.topic_sums import (
    CYCLE,
    TOPIC_COLUMNS,
    Namespace,
    bundle_sums,
    ranges_of,
    rejected_topics,
    sole_owners,
    sums_in_thousandths,
    topics_once,
    with_bundle,
)
from evenkeel.handover import Handover, Write
from evenkeel.lake.data_files import found_rows, rows_at_hand
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH, namespace_of
from evenkeel.model.load import RATES
from evenkeel.rounds.frames import children_of_splits, predecessor_rows, read_checked
from evenkeel.rounds.reading import EXTENSIBLE, Row, Rows
from evenkeel.rounds.window import linked
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.rows import tick_of
from evenkeel.spark.sql import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

BESIDE = ("namespace_bundles", "broker_reports")
"""Tables that the split rule looks at as well."""
OBSERVED = ("namespace_bundles", "bundle_ownership", "broker_reports", "resource_quotas")
TOPIC_SUMS, LOST_TOPICS, CHILDREN, REJECTED = "topic_sums", "lost_topics", "children", "rejected"

# A first sieve: `bundles_in_force` decides which are brokers' own namespaces.
_BROKERS_OWN = "^(pulsar|sla-monitor)/"
TABLE_OF = {LOADS_BEFORE: "bundle_load", SPLITS_BEFORE: "split_decisions"}
"""The tables of those small inputs that do not bear a table's name."""
COLUMNS = {
    "namespace_bundles": ("namespace", "boundaries"),
    "bundle_ownership": ("bundle", "namespace", "broker", "is_owned", "is_active", *SAID),
    "broker_reports": (
        *("broker", "state", "is_listed", "is_leader", "pulsar_version", "load_manager_class"),
        *("report_at", "asked_at", "bundles", "owned_bundles", "has_topic_figures", "topics"),
        *(f"{name}_{end}" for name in RESOURCES for end in ("usage", "limit")),
        *RATES,
    ),
    "resource_quotas": ("bundle", *RATES),
    LOADS_BEFORE: (
        *("bundle", "last_owner", "topics", *CLIENTS, "used_reason", "trusted_at"),
        *(f"used_{figure}" for figure in RATES),
        *("short_samples", "long_samples", *AVERAGES, "samples_since_quota"),
    ),
    SPLITS_BEFORE: ("subject", "strategy", "outcome", "rule"),
}
"""The columns of the small inputs that the round looks at."""


@dataclass(frozen=True, slots=True)
class LoadInputs:
    """Rows of open clusters: `small` are inputs of the round by name, those of them that have rows; `topic_stats`
    and `claims` without records that were set aside, and `rejected`, None if nothing was.

    `reads` are the earlier writes that they rest on, and `stored` has the writes of `small` inputs of which no row was
    set aside. `born` has a row (cluster, cycle_at, bundle, parent, cycle_at of the predecessor) for each bundle that
    splits of late have made; `earlier_topics` the predecessors' rows of topic_stats of their namespaces.
    """

    small: Mapping[str, DataFrame]
    topic_stats: DataFrame
    claims: DataFrame
    rejected: DataFrame | None
    reads: tuple[Write, ...]
    loads_before: DataFrame
    is_window: bool = False
    stored: Mapping[str, tuple[Write, ...]] = field(default_factory=dict)
    born: tuple[tuple[str, str, str, str, str | None], ...] = ()
    earlier_topics: DataFrame | None = None


def read(spark: SparkSession, lake: Lake, handover: Handover) -> LoadInputs:
    """What was observed of the open clusters, without the records that were set aside, and what predecessors left.

    Of a window, what predecessors within it have left so far; there `BESIDE` has all columns, as the split rule looks
    at them, too.
    """

    def checked(table: str) -> DataFrame:
        return read_checked(lake, spark, handover, table)

    def all_rows(table: str) -> DataFrame:
        return lake.read(spark, table, handover.open_writes(table))

    claims = checked("bundle_ownership")
    frames = {
        "namespace_bundles": checked("namespace_bundles"),
        "bundle_ownership": claims,
        "broker_reports": all_rows("broker_reports"),
    }
    # The extensible manager knows no quotas.
    if handover.writes_of("resource_quotas") and any(one.manager != EXTENSIBLE for one in handover.open_cycles()):
        frames["resource_quotas"] = checked("resource_quotas")
    is_window, own = handover.is_window(), linked(handover)
    loads_before, reads = predecessor_rows(spark, lake, own, "bundle_load")
    splits_before, decided = predecessor_rows(spark, lake, own, "split_decisions")
    frames |= {LOADS_BEFORE: loads_before} if reads else {}
    frames |= {SPLITS_BEFORE: splits_before} if decided else {}
    writes_of = {name: handover.open_writes(name) for name in OBSERVED} | {LOADS_BEFORE: reads, SPLITS_BEFORE: decided}
    found = LoadInputs(
        {
            name: frame if is_window and name in BESIDE else frame.select(*CYCLE, *COLUMNS[name])
            for name, frame in frames.items()
        },
        checked("topic_stats"),
        claims,
        all_rows("rejected") if handover.writes_of("rejected") else None,
        reads + decided,
        loads_before,
        is_window,
        {} if handover.open_writes(REJECTED) else {name: writes_of[name] for name in frames},
    )
    return _with_born(spark, lake, own, found)


def _with_born(spark: SparkSession, lake: Lake, handover: Handover, found: LoadInputs) -> LoadInputs:
    concerned = [(cycle, made) for cycle in handover.open_cycles() if (made := children_of_splits(cycle))]
    if not concerned:
        return found
    topics, reads = predecessor_rows(spark, lake, handover.with_cycles(cycle for cycle, _ in concerned), "topic_stats")
    born = [
        (cycle.cluster, cycle.cycle_at, child, parent, cycle.predecessor.cycle_at)
        for cycle, made in concerned
        for child, parent in made.items()
    ]
    namespaces = sorted({namespace_of(child) for _, _, child, _, _ in born})
    earlier = topics.where(F.col("namespace").isin(namespaces))
    return replace(found, reads=found.reads + reads, born=tuple(born), earlier_topics=earlier)


def type_of(name: str) -> StructType:
    """The schema of a small input."""
    from pyspark.sql.types import StructType

    whole = TABLES[TABLE_OF.get(name, name)].struct_type()
    return StructType([whole[column] for column in (*CYCLE, *COLUMNS[name])])


def at_hand(lake: Lake, found: LoadInputs) -> dict[str, list[dict[str, Any]]] | None:
    """The rows of the small inputs, read in this process; None where some were set aside, or are not at hand."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in found.small:
        own = rows_at_hand(lake, TABLE_OF.get(name, name), found.stored[name]) if name in found.stored else None
        if own is None:
            return None
        rows[name] = own
    return rows


def about_namespaces(found: LoadInputs) -> dict[str, DataFrame]:
    """Of the small inputs what the boundaries in force need."""
    claimed = found.small["bundle_ownership"].select(*CYCLE, "namespace").where(F.col("namespace").rlike(_BROKERS_OWN))
    bundles = found.small["namespace_bundles"].select(*CYCLE, *COLUMNS["namespace_bundles"])
    return {"namespace_bundles": bundles, "bundle_ownership": claimed.distinct()}


def set_aside(found: LoadInputs) -> dict[str, DataFrame]:
    """The input `rejected` (cluster, cycle_at, rejected_from, name), if anything was set aside.

    It names the bundles of claims and the brokers of reports; of topics it says only that some were set aside.
    """
    if found.rejected is None:
        return {}
    is_topic = F.col("rejected_from") == "topic_stats"
    is_named = F.col("rejected_from").isin("bundle_ownership", "broker_reports") & F.col("record_key").isNotNull()
    name = F.when(~is_topic, F.get_json_object("record_key", "$[0]")).alias("name")
    return {REJECTED: found.rejected.where(is_topic | is_named).select(*CYCLE, "rejected_from", name).distinct()}


# Sums over topics: of few in this process, else computed by Spark, as Arrow tables of the size of bundles.


def sums_at_hand(lake: Lake, handover: Handover, found: LoadInputs, rows: Rows) -> Rows | None:
    """What `sums_of_topics` gives, made in this process of the files that hold the topics; None where they are not at
    hand or are many, where records were set aside or splits have made bundles, and for whatever is rare (`sums_here`).
    """
    if found.rejected is not None or found.born:
        return None
    spaces: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for space in namespaces_of(rows):
        spaces.setdefault(space.cluster, []).append((space.name, space.edges))
    writes: dict[str, list[Write]] = {}
    for write in handover.open_writes("topic_stats"):
        if write.rows:
            writes.setdefault(write.cluster, []).append(write)
    sums: list[Row] = []
    for cycle in handover.open_cycles():
        of_cluster = writes.get(cycle.cluster, [])
        if sum(write.rows for write in of_cluster) > sums_here.MOST_TOPICS:
            return None
        topics = []
        for write in of_cluster:
            of_write = found_rows(lake, write, sums_here.COLUMNS)
            whole = None if of_write is None else sums_here.whole_numbers(of_write)
            if whole is None:
                return None
            topics.append(whole)
        own = sums_here.sums_of(topics, tick_of(cycle.cycle_at), spaces.get(cycle.cluster, []))
        if own is None:
            return None
        sums += [{"cluster": cycle.cluster, "cycle_at": cycle.cycle_at, **row} for row in own]
    return {TOPIC_SUMS: sums}


def sums_of_topics(spark: SparkSession, found: LoadInputs, rows: Rows) -> dict[str, pa.Table]:
    """The inputs of the round that are sums over topics; `rows` are those of `about_namespaces` and `set_aside`."""
    namespaces = namespaces_of(rows)
    sums = {TOPIC_SUMS: _topic_sums(spark, found, namespaces)}
    if found.rejected is not None and any(row["rejected_from"] == "topic_stats" for row in rows[REJECTED]):
        sums[LOST_TOPICS] = _lost_topics(spark, found.rejected, namespaces)
    if found.earlier_topics is not None:
        sums[CHILDREN] = _children(spark, found, found.earlier_topics, namespaces)
    return sums


def namespaces_of(rows: Rows) -> list[Namespace]:
    """The namespaces of all clusters and cycles, with their boundaries, by rows of namespace_bundles and of
    bundle_ownership."""
    by_cycle: dict[tuple[str, str], tuple[list[Row], list[Row]]] = {}
    for place, table in enumerate(("namespace_bundles", "bundle_ownership")):
        for row in rows[table]:
            by_cycle.setdefault((row["cluster"], row["cycle_at"]), ([], []))[place].append(row)
    return [
        Namespace(cluster, at, name, edges)
        for (cluster, at), (namespaces, claims) in sorted(by_cycle.items())
        for name, edges in namespaces_in_force(namespaces, claims)
    ]


def _topic_sums(spark: SparkSession, found: LoadInputs, namespaces: Sequence[Namespace]) -> pa.Table:
    """The rows of `bundle_sums`, each topic once.

    Topics are rarely shown twice, and telling them apart costs as much to plan as all the rest; figures are whole
    numbers of thousandths unless something else than Pulsar told them, and adding others takes many times as long. So
    both are done only for the bundles that have such topics.
    """
    topics = found.topic_stats.select(*TOPIC_COLUMNS)
    sums = sums_in_thousandths(topics, ranges_of(namespaces))
    odd = pc.unique(sums.filter(sums["is_odd"])["bundle"])
    sums = sums.drop_columns(["is_odd"])
    if not len(odd):
        return sums
    some = with_bundle(topics, ranges_of(namespaces, only={*odd.to_pylist()}))
    again = arrow_of(bundle_sums(topics_once(some, sole_owners(found.claims))))
    others = sums.filter(pc.invert(pc.is_in(sums["bundle"], odd)))
    return pa.concat_tables([others, again.cast(sums.schema)])


def _lost_topics(spark: SparkSession, rejected: DataFrame, namespaces: Sequence[Namespace]) -> pa.Table:
    """cluster, cycle_at, bundle: those that lost a topic to a rejection, so that their sums are not known."""
    placed = with_bundle(rejected_topics(rejected), ranges_of(namespaces))
    return arrow_of(placed.select(*CYCLE, "bundle").distinct())


def _children(spark: SparkSession, found: LoadInputs, topics: DataFrame, namespaces: Sequence[Namespace]) -> pa.Table:
    """cluster, cycle_at, bundle, parent and the four figures that the topics of each bundle `born` had in the cycle
    before."""
    text = "cluster string, at string, bundle string, parent string, before string"
    born = spark.createDataFrame([*found.born], schema_of(text))
    born = born.select("cluster", F.to_timestamp("at").alias("cycle_at"), "bundle", "parent", _before_at("before"))
    before = ["cluster", *(["before_at"] if found.is_window else [])]
    parents = found.loads_before.select("cluster", _before_at("cycle_at"), F.col("bundle").alias("parent"), "owner")
    if found.is_window:  # the loads of a cycle of the window itself are still to be made
        claimed = sole_owners(found.claims).withColumnsRenamed({"cycle_at": "before_at", "bundle": "parent"})
        parents = parents.unionByName(claimed.join(parents, ["cluster", "before_at", "parent"], "left_anti"))
    owned = born.join(parents.select(*before, "parent", "owner"), [*before, "parent"], "left")
    moments = born.select(*before, "cycle_at").distinct()
    earlier = topics.select(*TOPIC_COLUMNS).withColumnRenamed("cycle_at", "before_at")
    then = earlier.join(F.broadcast(moments), before).drop("before_at")
    placed = with_bundle(then, ranges_of(namespaces, only={bundle for _, _, bundle, _, _ in found.born}))
    sums = bundle_sums(topics_once(placed, owned)).select(*CYCLE, "bundle", *RATES)
    return arrow_of(born.drop("before_at").join(sums, [*CYCLE, "bundle"], "left"))


def _before_at(column: str) -> Column:
    """The moment of a predecessor."""
    return F.to_timestamp(column).alias("before_at")


def ranges_in_force(spark: SparkSession, found: LoadInputs, rows: Rows) -> DataFrame:
    """cluster, cycle_at, namespace, bundle, owner, lower, upper, is_last: every bundle in force, with the one broker
    that claims it. `rows` as for `sums_of_topics`."""
    made = [
        (space.cluster, space.cycle_at, space.name, bundle.name, bundle.lower, bundle.upper)
        for space in namespaces_of(rows)
        for bundle in bundles_of(space.name, space.edges)
    ]
    text = "cluster string, at string, namespace string, bundle string, lower bigint, upper bigint"
    ranges = spark.createDataFrame(made, schema_of(text)).withColumn("cycle_at", F.to_timestamp("at")).drop("at")
    is_last = (F.col("upper") == F.lit(HIGHEST_HASH)).alias("is_last")
    owned = ranges.join(sole_owners(found.claims), [*CYCLE, "bundle"], "left")
    return owned.select(*CYCLE, "namespace", "bundle", "owner", "lower", "upper", is_last)
