"""Inputs of the aggregate round: rows of bundles and brokers from the lake, and sums over topics.

Topic figures are summed in Spark. All other inputs have the size of bundles or brokers, and are read without the
columns that no rule uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from evenkeel.aggregate.broker_load import RESOURCES
from evenkeel.aggregate.bundle_load import AVERAGES, CLIENTS, SAID, bundles_of, namespaces_in_force
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
from evenkeel.cycle.frames import children_of_splits, left_before, linked, predecessor_rows, read_checked
from evenkeel.cycle.reading import EXTENSIBLE, Row, Rows
from evenkeel.cycle.runner import RoundInputs, fetched, local_rows
from evenkeel.handover import Handover, Write
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH, namespace_of
from evenkeel.model.load import RATES
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.sql import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BESIDE = ("namespace_bundles", "broker_reports")
"""Tables that the split rule looks at as well."""
OBSERVED = ("namespace_bundles", "bundle_ownership", "broker_reports", "resource_quotas")
TOPIC_SUMS, LOST_TOPICS, CHILDREN, REJECTED = "topic_sums", "lost_topics", "children", "rejected"

# A first sieve: `bundle_load` decides which are brokers' own namespaces.
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
    """The inputs for the loads of open clusters.

    `rounds` are the inputs of the round; sums over topics join them (`add_sums`). `topic_stats` and `claims` are
    without rejected records; `rejected` is None if nothing was rejected. `reads`: the earlier writes that these inputs
    come from. `born` has a row (cluster, cycle_at, bundle, parent, cycle_at of the predecessor) for each bundle that
    recent splits made; `earlier_topics` the predecessors' rows of topic_stats of their namespaces.
    """

    rounds: RoundInputs
    topic_stats: DataFrame
    claims: DataFrame
    rejected: DataFrame | None
    reads: tuple[Write, ...]
    loads_before: DataFrame
    is_window: bool = False
    born: tuple[tuple[str, str, str, str, str | None], ...] = ()
    earlier_topics: DataFrame | None = None


def read(spark: SparkSession, lake: Lake, handover: Handover) -> LoadInputs:
    """Return the observed rows of the open clusters without rejected records, and the predecessors' state.

    In a window, the state that predecessors within it have left so far; `BESIDE` then has all columns, for the split
    rule.
    """
    is_window, linked_handover = handover.is_window(), linked(handover)
    rejected = handover.open_writes(REJECTED)
    loads_before, reads = predecessor_rows(spark, lake, linked_handover, "bundle_load")
    splits_before = left_before(linked_handover, "split_decisions")
    rounds = RoundInputs(spark, lake, handover)

    def add(name: str, writes: Sequence[Write], *, is_checked: bool) -> None:
        columns = () if is_window and name in BESIDE else (*CYCLE, *COLUMNS[name])
        set_aside = rejected if is_checked else ()
        rounds.add_stored(name, writes, table=TABLE_OF.get(name), columns=columns, rejected=set_aside)

    for table in ("namespace_bundles", "bundle_ownership"):
        add(table, handover.open_writes(table), is_checked=True)
    add("broker_reports", handover.open_writes("broker_reports"), is_checked=False)
    # The extensible manager knows no quotas.
    if handover.writes_of("resource_quotas") and any(
        open_cycle.manager != EXTENSIBLE for open_cycle in handover.open_cycles()
    ):
        add("resource_quotas", handover.open_writes("resource_quotas"), is_checked=True)
    for name, writes in ((LOADS_BEFORE, reads), (SPLITS_BEFORE, splits_before)):
        if writes:
            add(name, writes, is_checked=False)
    loads = LoadInputs(
        rounds,
        read_checked(lake, spark, handover, "topic_stats"),
        rounds.frame("bundle_ownership"),
        lake.read(spark, REJECTED, rejected) if handover.writes_of(REJECTED) else None,
        reads + splits_before,
        loads_before,
        is_window,
    )
    return _with_born(spark, lake, linked_handover, loads)


def _with_born(spark: SparkSession, lake: Lake, handover: Handover, loads: LoadInputs) -> LoadInputs:
    concerned = [(cycle, children) for cycle in handover.open_cycles() if (children := children_of_splits(cycle))]
    if not concerned:
        return loads
    topics, reads = predecessor_rows(spark, lake, handover.with_cycles(cycle for cycle, _ in concerned), "topic_stats")
    born = [
        (cycle.cluster, cycle.cycle_at, child, parent, cycle.predecessor.cycle_at)
        for cycle, children in concerned
        for child, parent in children.items()
    ]
    namespaces = sorted({namespace_of(child) for _, _, child, _, _ in born})
    earlier = topics.where(F.col("namespace").isin(namespaces))
    return replace(loads, reads=loads.reads + reads, born=tuple(born), earlier_topics=earlier)


def add_sums(spark: SparkSession, loads: LoadInputs) -> list[Namespace]:
    """Add the inputs that are sums over topics, and the names of rejected records; return the namespaces in force."""
    tables = fetched(_rejected_names(loads) if loads.rounds.is_small else _about_namespaces(loads))
    rows: Rows = {name: local_rows(table) for name, table in tables.items()}
    namespaces = namespaces_of(loads.rounds.stored_rows if loads.rounds.is_small else rows)
    loads.rounds.add_local(TOPIC_SUMS, topic_sums(loads.topic_stats, loads.claims, namespaces))
    if loads.rejected is not None:
        loads.rounds.add_local(REJECTED, tables[REJECTED])
        if any(row["rejected_from"] == "topic_stats" for row in rows[REJECTED]):
            placed = with_bundle(rejected_topics(loads.rejected), ranges_of(namespaces))
            loads.rounds.add_local(LOST_TOPICS, arrow_of(placed.select(*CYCLE, "bundle").distinct()))
    if loads.earlier_topics is not None:
        loads.rounds.add_local(CHILDREN, _children(spark, loads, loads.earlier_topics, namespaces))
    return namespaces


def _about_namespaces(loads: LoadInputs) -> dict[str, DataFrame]:
    """Return the inputs that the boundaries in force need, and the rejected records."""
    claimed = loads.claims.select(*CYCLE, "namespace").where(F.col("namespace").rlike(_BROKERS_OWN))
    bundles = loads.rounds.frame("namespace_bundles").select(*CYCLE, *COLUMNS["namespace_bundles"])
    return {"namespace_bundles": bundles, "bundle_ownership": claimed.distinct(), **_rejected_names(loads)}


def _rejected_names(loads: LoadInputs) -> dict[str, DataFrame]:
    """Return the input `rejected` (cluster, cycle_at, rejected_from, name), if anything was rejected.

    It names the bundles of claims and the brokers of reports; for topics it has only the fact that some were rejected.
    """
    if loads.rejected is None:
        return {}
    is_topic = F.col("rejected_from") == "topic_stats"
    is_named = F.col("rejected_from").isin("bundle_ownership", "broker_reports") & F.col("record_key").isNotNull()
    name = F.when(~is_topic, F.get_json_object("record_key", "$[0]")).alias("name")
    return {REJECTED: loads.rejected.where(is_topic | is_named).select(*CYCLE, "rejected_from", name).distinct()}


def namespaces_of(rows: Rows) -> list[Namespace]:
    """The namespaces of all cycles with their boundaries, from namespace_bundles and bundle_ownership."""
    by_cycle: dict[tuple[str, str], tuple[list[Row], list[Row]]] = {}
    for place, table in enumerate(("namespace_bundles", "bundle_ownership")):
        for row in rows[table]:
            by_cycle.setdefault((row["cluster"], row["cycle_at"]), ([], []))[place].append(row)
    return [
        Namespace(cluster, at, name, edges)
        for (cluster, at), (namespaces, claims) in sorted(by_cycle.items())
        for name, edges in namespaces_in_force(namespaces, claims)
    ]


def topic_sums(topic_stats: DataFrame, claims: DataFrame, namespaces: Sequence[Namespace]) -> pa.Table:
    """Return the rows of `bundle_sums`, each topic once.

    Pulsar reports figures in whole thousandths. Adding whole numbers takes a third of the time of exact decimals (2.4
    to 2.7 CPU s a million topics instead of 6.6 to 7.7). Topics are rarely reported twice, and separating them costs as
    much to plan as all the rest. So a second pass does both, only for bundles with other figures or with topics
    reported twice; the sums are equal to the bit.
    """
    topics = topic_stats.select(*TOPIC_COLUMNS)
    sums = sums_in_thousandths(topics, ranges_of(namespaces))
    odd = pc.unique(sums.filter(sums["is_odd"])["bundle"])
    sums = sums.drop_columns(["is_odd"])
    if not len(odd):
        return sums
    some = with_bundle(topics, ranges_of(namespaces, only={*odd.to_pylist()}))
    again = arrow_of(bundle_sums(topics_once(some, sole_owners(claims))))
    others = sums.filter(pc.invert(pc.is_in(sums["bundle"], odd)))
    return pa.concat_tables([others, again.cast(sums.schema)])


def _children(spark: SparkSession, loads: LoadInputs, topics: DataFrame, namespaces: Sequence[Namespace]) -> pa.Table:
    """Return cluster, cycle_at, bundle, parent and four figures, its topics' of the cycle before, of bundles `born`."""
    text = "cluster string, at string, bundle string, parent string, before string"
    born = spark.createDataFrame([*loads.born], schema_of(text))
    born = born.select("cluster", F.to_timestamp("at").alias("cycle_at"), "bundle", "parent", _before_at("before"))
    before = ["cluster", *(["before_at"] if loads.is_window else [])]
    parents = loads.loads_before.select("cluster", _before_at("cycle_at"), F.col("bundle").alias("parent"), "owner")
    if loads.is_window:  # the loads of a cycle of the window itself are still to be made
        claimed = sole_owners(loads.claims).withColumnsRenamed({"cycle_at": "before_at", "bundle": "parent"})
        parents = parents.unionByName(claimed.join(parents, ["cluster", "before_at", "parent"], "left_anti"))
    owned = born.join(parents.select(*before, "parent", "owner"), [*before, "parent"], "left")
    moments = born.select(*before, "cycle_at").distinct()
    earlier = topics.select(*TOPIC_COLUMNS).withColumnRenamed("cycle_at", "before_at")
    then = earlier.join(F.broadcast(moments), before).drop("before_at")
    placed = with_bundle(then, ranges_of(namespaces, only={bundle for _, _, bundle, _, _ in loads.born}))
    sums = bundle_sums(topics_once(placed, owned)).select(*CYCLE, "bundle", *RATES)
    return arrow_of(born.drop("before_at").join(sums, [*CYCLE, "bundle"], "left"))


def _before_at(column: str) -> Column:
    """The moment of a predecessor."""
    return F.to_timestamp(column).alias("before_at")


def ranges_in_force(spark: SparkSession, loads: LoadInputs, namespaces: Sequence[Namespace]) -> DataFrame:
    """cluster, cycle_at, namespace, bundle, owner, lower, upper, is_last: every bundle in force, with the one broker
    that claims it."""
    frames = [
        (space.cluster, space.cycle_at, space.name, bundle.name, bundle.lower, bundle.upper)
        for space in namespaces
        for bundle in bundles_of(space.name, space.edges)
    ]
    text = "cluster string, at string, namespace string, bundle string, lower bigint, upper bigint"
    ranges = spark.createDataFrame(frames, schema_of(text)).withColumn("cycle_at", F.to_timestamp("at")).drop("at")
    is_last = (F.col("upper") == F.lit(HIGHEST_HASH)).alias("is_last")
    owned = ranges.join(sole_owners(loads.claims), [*CYCLE, "bundle"], "left")
    return owned.select(*CYCLE, "namespace", "bundle", "owner", "lower", "upper", is_last)
