"""Which bundle each topic lies in (NamespaceBundles.findBundle), and sums of topic figures per bundle, in Spark SQL.

A topic's hash is CRC32 of its full name; bundle i of a namespace holds the hashes from boundary i up to, not including,
boundary i + 1; the last bundle includes 0xffffffff too. (Pulsar's own look-up raises an error for a topic with exactly
that hash although the last bundle is declared closed; here it belongs to the last bundle.)

Everything goes by cluster and cycle, so one query serves any number of cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from evenkeel.aggregate.bundle_load import FIGURES
from evenkeel.aggregate.bundles_in_force import bundles_of
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.spark.sql import arrow_of, exact_sum, moment, of_thousandths, thousandths

CYCLE = ("cluster", "cycle_at")
TOPIC_COLUMNS = (
    *(*CYCLE, "namespace", "topic", "hash", "broker", "seen_on", "observation", "domain"),
    *("producers", "consumers", "msg_backlog", *FIGURES),
)
"""The columns of topic_stats that sums need."""

_CONTENT = ("namespace", "observation", "domain", "producers", "consumers", "msg_backlog", *FIGURES)
_HASH_BITS = 32


class Namespace(NamedTuple):
    """A namespace of a cluster in a cycle (ISO-8601 text), and the boundaries of its bundles as hashes."""

    cluster: str
    cycle_at: str
    name: str
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Where topics find their bundle.

    Boundaries that are the same in several cycles are one layout. Every layout cuts the hash space into as many buckets
    as it has bundles (rounded up to a power of two), and the buckets of all layouts are numbered through: bucket
    `first_bucket` + (hash shifted by `shift`). `namespaces` (cluster, cycle_at, namespace, cycle, first_bucket, shift)
    says which buckets a namespace has in a cycle; `candidates` (bucket, number, bundle, lower, last_hash) which bundles
    touch each. `cycle` is a place in `cycles` (cluster, cycle_at as ISO-8601 text), `number` one in `bundles`.
    """

    namespaces: DataFrame
    candidates: DataFrame
    cycles: Sequence[tuple[str, str]]
    bundles: Sequence[str]


def ranges_of(spark: SparkSession, namespaces: Iterable[Namespace], only: Collection[str] | None = None) -> Ranges:
    """The ranges of the namespaces' bundles; with `only`, of the bundles of these names."""
    layouts: dict[tuple[str, tuple[int, ...]], int] = {}
    cycles: dict[tuple[str, str], int] = {}
    bundles: list[str] = []
    placed, candidates, free = [], [], 0
    for cluster, at, name, edges in namespaces:
        shift = _shift(edges)
        first = layouts.setdefault((name, edges), free)
        if first == free:
            free += 1 << (_HASH_BITS - shift)
            for bundle in bundles_of(name, edges):
                if only is None or bundle.name in only:
                    last = bundle.upper if bundle.upper == HIGHEST_HASH else bundle.upper - 1
                    for bucket in range(bundle.lower >> shift, (last >> shift) + 1):
                        candidates.append((first + bucket, len(bundles), bundle.name, bundle.lower, last))
                    bundles.append(bundle.name)
        placed.append((cluster, at, name, cycles.setdefault((cluster, at), len(cycles)), first, shift))
    moments = {at: datetime.fromisoformat(at) for _, at in cycles}
    return Ranges(
        _frame(spark, [(cluster, moments[at], *rest) for cluster, at, *rest in placed], _NAMESPACES),
        _frame(spark, candidates, _CANDIDATES),
        [*cycles],
        bundles,
    )


_NAMESPACES = pa.schema(
    [
        *(("cluster", pa.string()), ("cycle_at", pa.timestamp("us", tz="UTC")), ("namespace", pa.string())),
        *(("cycle", pa.int32()), ("first_bucket", pa.int64()), ("shift", pa.int32())),
    ]
)
_CANDIDATES = pa.schema(
    [
        *(("bucket", pa.int64()), ("number", pa.int32()), ("bundle", pa.string())),
        *(("lower", pa.int64()), ("last_hash", pa.int64())),
    ]
)


def _shift(edges: tuple[int, ...]) -> int:
    return _HASH_BITS - (len(edges) - 2).bit_length()


def _frame(spark: SparkSession, rows: Collection[tuple[object, ...]], schema: pa.Schema) -> DataFrame:
    columns = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return local(spark, pa.Table.from_arrays(arrays, schema=schema))


def local(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of an Arrow table as a frame. Given no schema, pyspark would rename all columns to what they are."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def with_bundle(topics: DataFrame, ranges: Ranges) -> DataFrame:
    """The topics (cluster, cycle_at, namespace, hash, …) with the `bundle` that each lies in.

    Topics of namespaces without boundaries are left out.
    """
    return _placed(topics, ranges).drop("cycle", "number")


def _placed(topics: DataFrame, ranges: Ranges) -> DataFrame:
    """The topics with `cycle`, `number` and `bundle`.

    Topic and bundle meet by equality on the bucket, one number, and few candidates are left for the comparison of
    ranges. Where all is of one cycle, the namespace alone is looked up.
    """
    namespaces, by = ranges.namespaces, [*CYCLE, "namespace"]
    if len(ranges.cycles) == 1:
        ((cluster, at),) = ranges.cycles
        topics = topics.where((F.col("cluster") == F.lit(cluster)) & (F.col("cycle_at") == moment(at)))
        namespaces, by = namespaces.drop(*CYCLE), ["namespace"]
    return (
        topics.join(F.broadcast(namespaces), by, how="inner")
        .withColumn("bucket", F.expr("first_bucket + shiftright(hash, shift)"))
        .join(F.broadcast(ranges.candidates), "bucket", how="inner")
        .where((F.col("hash") >= F.col("lower")) & (F.col("hash") <= F.col("last_hash")))
        .drop("first_bucket", "shift", "bucket", "lower", "last_hash")
    )


# Sums of topic figures per bundle, each topic once.


def bundle_sums(topics: DataFrame) -> DataFrame:
    """Per bundle: topics (loaded), listed_topics (known), consumers, producers, msg_backlog, four figures,
    has_non_persistent.

    `all_known` is false where a loaded topic lacks a figure: then the sums are too small. `shown_twice`: topics that
    several brokers show. Sums are exact, so that neither order nor partitioning of the rows changes a bit.
    """
    figures = {figure: exact_sum(figure) for figure in FIGURES}
    return topics.groupBy(*CYCLE, "bundle").agg(*_sums(figures))


def sums_in_thousandths(topics: DataFrame, ranges: Ranges) -> pa.Table:
    """The rows of `bundle_sums` for the topics (without `bundle`), and of each bundle `beyond_thousandths`: how many of
    its topics have a figure that is no whole number of thousandths (see `spark.sql.thousandths`).

    Where there are some, the sums of figures lack them, and `bundle_sums` is to be asked; else they are the same to the
    bit. Pulsar cuts figures to three decimals. Until they are summed, bundles are numbers: one key of a few bytes and
    sums of whole numbers are what Spark groups fastest.
    """
    whole = {figure: f"{figure}_in_thousandths" for figure in FIGURES}
    topics = _placed(topics, ranges).withColumns({name: thousandths(figure) for figure, name in whole.items()})
    figures = {figure: of_thousandths(F.sum(name)) for figure, name in whole.items()}
    is_beyond = " or ".join(f"({figure} is not null and {name} is null)" for figure, name in whole.items())
    beyond = F.count_if(F.expr(is_beyond)).alias("beyond_thousandths")
    sums = arrow_of(topics.groupBy("cycle", "number").agg(*_sums(figures), beyond))
    return _named(sums, ranges)


def _named(sums: pa.Table, ranges: Ranges) -> pa.Table:
    """The sums with cluster, cycle_at and bundle in place of `cycle` and `number`."""
    clusters = pa.array([cluster for cluster, _ in ranges.cycles], pa.string())
    moments = [datetime.fromisoformat(at) for _, at in ranges.cycles]
    cycle, number = sums["cycle"].combine_chunks(), sums["number"].combine_chunks()
    named = {
        "cluster": clusters.take(cycle),
        "cycle_at": pa.array(moments, pa.timestamp("us", tz="UTC")).take(cycle),
        "bundle": pa.array(ranges.bundles, pa.string()).take(number),
    }
    rest = [name for name in sums.column_names if name not in ("cycle", "number")]
    return pa.table({**named, **{name: sums[name] for name in rest}})


def _sums(figures: Mapping[str, Column]) -> list[Column]:
    """The columns of a bundle's sums; those of figures are given."""
    is_loaded = F.col("observation") == "loaded"
    has_all = F.expr(" and ".join(f"{figure} is not null" for figure in FIGURES))
    return [
        F.count_if(is_loaded).alias("topics"),
        F.count(F.lit(1)).alias("listed_topics"),
        F.sum("consumers").alias("consumers"),
        F.sum("producers").alias("producers"),
        F.when(F.every(~is_loaded | F.col("msg_backlog").isNotNull()), F.sum("msg_backlog")).alias("msg_backlog"),
        *[total.alias(figure) for figure, total in figures.items()],
        F.bool_or(is_loaded & (F.col("domain") == "non-persistent")).alias("has_non_persistent"),
        F.every(~is_loaded | has_all).alias("all_known"),
        F.count_if(F.col("seen_on") > 1).alias("shown_twice"),
    ]


def topics_once(topics: DataFrame, owners: DataFrame) -> DataFrame:
    """One row per topic, of the topics with their `bundle`; `owners` has cluster, cycle_at, bundle and owner.

    While a bundle moves, two brokers may show its topics for up to one stats period. The owner's figures count; where
    the owner is not decided or shows nothing, the larger ones do (more bytes, then more messages, then the first name):
    the broker that lets go shows falling figures and the one that takes over starts from nothing, so the smaller
    figure is the one that is wrong, and a load taken too small would bring further bundles. Of a topic that one broker
    shows twice the first by its content counts, so that the order of rows does not.
    """
    once = topics.where(F.coalesce(F.col("seen_on"), F.lit(0)) < 2)
    several = topics.where("seen_on > 1").join(owners.select(*CYCLE, "bundle", "owner"), [*CYCLE, "bundle"], how="left")
    first = Window.partitionBy(*CYCLE, "topic").orderBy(
        F.expr("broker <=> owner").desc(),
        F.expr("msg_throughput_in + msg_throughput_out").desc_nulls_last(),
        F.expr("msg_rate_in + msg_rate_out").desc_nulls_last(),
        *(F.col(name).asc_nulls_last() for name in ("broker", "bundle", *_CONTENT)),
    )
    chosen = several.withColumn("nth", F.row_number().over(first)).where("nth = 1").drop("nth", "owner")
    return once.unionByName(chosen)


def sole_owners(claims: DataFrame) -> DataFrame:
    """cluster, cycle_at, bundle, owner: the one broker that has the bundle in its list (rows of bundle_ownership)."""
    claimants = claims.where("is_owned").groupBy(*CYCLE, "bundle")
    return claimants.agg(F.expr("if(min(broker) = max(broker), min(broker), null)").alias("owner"))


def rejected_topics(rejected: DataFrame) -> DataFrame:
    """cluster, cycle_at, namespace, topic and hash of the topics that were set aside.

    The topic's name stands in the record's key, or in `place` where ingest could not make a row of it.
    """
    name: Column = F.coalesce(
        F.expr("get_json_object(record_key, '$[0]')"),
        F.expr("nullif(regexp_extract(place, '((?i:persistent|non-persistent)://.+)', 1), '')"),
    )
    return (
        rejected.where("rejected_from = 'topic_stats'")
        .select(*CYCLE, name.alias("topic"))
        .where("topic is not null")
        .withColumn("hash", F.expr("crc32(cast(topic as binary))"))
        .withColumn("namespace", F.regexp_extract("topic", "^[^:]+://([^/]+/[^/]+)/", 1))
    )
