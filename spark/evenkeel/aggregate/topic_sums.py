"""The bundle of each topic (NamespaceBundles.findBundle), and sums of topic figures per bundle, in Spark SQL.

A topic's hash is CRC32 of its full name. Bundle i of a namespace has the hashes from boundary i up to, not including,
boundary i + 1. The last bundle includes 0xffffffff too. (Pulsar's own look-up raises an error for a topic with exactly
that hash, although the last bundle is declared closed. Evenkeel puts it into the last bundle.)

Every query works by cluster and cycle, so one query serves any number of cycles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.cycle.runner import local_frame
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.model.load import RATES
from evenkeel.spark.sql import arrow_of, exact_sum, moment, of_thousandths, thousandths

CYCLE = ("cluster", "cycle_at")
TOPIC_COLUMNS = (
    *(*CYCLE, "namespace", "topic", "hash", "broker", "seen_on", "observation", "domain"),
    *("producers", "consumers", "msg_backlog", *RATES),
)
"""The columns of topic_stats that sums need."""

_CONTENT = ("namespace", "observation", "domain", "producers", "consumers", "msg_backlog", *RATES)
_HASH_BITS = 32


class Namespace(NamedTuple):
    """A namespace of a cluster in a cycle (ISO-8601 text), and the boundaries of its bundles as hashes."""

    cluster: str
    cycle_at: str
    name: str
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The tables by which topics find their bundle.

    `namespaces` (cluster, cycle_at, namespace, first_number, layout) has the layout of each namespace in a cycle.
    `layouts` (layout, shift, starts, edges) has the boundaries of the pieces of the hash space; namespaces and cycles
    with equal boundaries share one layout. A layout has as many buckets as pieces, rounded up to a power of two.
    `starts`[hash shifted by `shift`] is the piece that a bucket begins in; a hash of the bucket is in it or fewer than
    2^`steps` pieces further on. `first_number` + piece is the number of a bundle in a cycle. Divided by the number of
    `bundles` it gives a place in `cycles` (cluster, cycle_at as ISO-8601 text); the remainder is a place in `bundles`:
    a bundle's name, None for a piece that is not requested.
    """

    namespaces: pa.Table
    layouts: pa.Table
    steps: int
    cycles: Sequence[tuple[str, str]]
    bundles: Sequence[str | None]


def ranges_of(namespaces: Iterable[Namespace], only: Collection[str] | None = None) -> Ranges:
    """The ranges of the namespaces' bundles; with `only`, of the bundles of these names."""
    layouts: dict[tuple[int, ...], _Layout] = {}
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    cycles: dict[tuple[str, str], int] = {}
    bundles: list[str | None] = []
    pieces: list[tuple[str, str, str, int, int, int]] = []
    for cluster, at, name, edges in namespaces:
        layout = layouts.get(edges) or layouts.setdefault(edges, _layout(len(layouts), edges))
        first = numbers.setdefault((name, edges), len(bundles))
        if first == len(bundles):
            bundles += [None if piece is None else f"{name}/{piece}" for piece in layout.pieces]
        cycle = cycles.setdefault((cluster, at), len(cycles))
        pieces.append((cluster, at, name, cycle, first, layout.number))
    placed = [
        (cluster, datetime.fromisoformat(at), name, cycle * len(bundles) + first, layout)
        for cluster, at, name, cycle, first, layout in pieces
    ]
    if only is not None:
        bundles = [bundle if bundle in only else None for bundle in bundles]
    cut = [(layout.number, layout.shift, layout.starts, layout.edges) for layout in layouts.values()]
    steps = max((layout.steps for layout in layouts.values()), default=0)
    return Ranges(_table(placed, _NAMESPACES), _table(cut, _LAYOUTS), steps, [*cycles], bundles)


class _Layout(NamedTuple):
    """`pieces`: the ranges of bundles as text, None for hashes below the first and from the last boundary on."""

    number: int
    shift: int
    starts: list[int]
    edges: list[int]
    pieces: list[str | None]
    steps: int


def _layout(number: int, boundaries: tuple[int, ...]) -> _Layout:
    edges: list[int] = [*boundaries[:-1]]
    pieces: list[str | None] = [f"0x{lower:08x}_0x{upper:08x}" for lower, upper in pairwise(boundaries)]
    if edges[0] > 0:
        edges, pieces = [0, *edges], [None, *pieces]
    if boundaries[-1] < HIGHEST_HASH:
        edges, pieces = [*edges, boundaries[-1]], [*pieces, None]
    shift = _HASH_BITS - (len(edges) - 1).bit_length()
    starts = [bisect_right(edges, bucket << shift) - 1 for bucket in range(1 << (_HASH_BITS - shift))]
    further = max(end - start for start, end in pairwise([*starts, len(edges) - 1]))
    return _Layout(number, shift, starts, edges, pieces, further.bit_length())


_NAMESPACES = pa.schema(
    [
        *(("cluster", pa.string()), ("cycle_at", pa.timestamp("us", tz="UTC")), ("namespace", pa.string())),
        *(("first_number", pa.int64()), ("layout", pa.int64())),
    ]
)
_LAYOUTS = pa.schema(
    [
        *(("layout", pa.int64()), ("shift", pa.int32())),
        *(("starts", pa.list_(pa.int32())), ("edges", pa.list_(pa.int64()))),
    ]
)


def _table(rows: Collection[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def with_bundle(topics: DataFrame, ranges: Ranges) -> DataFrame:
    """Add each topic's `bundle` to topics (cluster, cycle_at, namespace, hash, …) of namespaces with boundaries."""
    named = [(number, bundle) for number, bundle in enumerate(ranges.bundles) if bundle is not None]
    bundles = local_frame(topics.sparkSession, _table(named, _BUNDLES))
    placed = _placed(topics, ranges).withColumn("number", F.col("number") % F.lit(max(1, len(ranges.bundles))))
    return placed.join(F.broadcast(bundles), "number", how="inner").drop("number")


_BUNDLES = pa.schema([("number", pa.int64()), ("bundle", pa.string())])


def _placed(topics: DataFrame, ranges: Ranges) -> DataFrame:
    """The topics with the `number` of their piece of the hash space and cycle, `_NOWHERE` for one that has none.

    Namespaces bring the boundaries of their layout as arrays, in which the piece is searched: each further join would
    cost more than that. Where all is of one cycle, the namespace alone is looked up; else a second look-up brings the
    layout, so that it is held once for all cycles.
    """
    spark = topics.sparkSession
    if len(ranges.cycles) == 1:
        ((cluster, at),) = ranges.cycles
        topics = topics.where((F.col("cluster") == F.lit(cluster)) & (F.col("cycle_at") == moment(at)))
        layouts = ranges.layouts.take(ranges.namespaces["layout"]).drop_columns(["layout"])
        spaces = ranges.namespaces.drop_columns([*CYCLE, "layout"])
        for name in layouts.column_names:
            spaces = spaces.append_column(name, layouts[name])
        topics = _looked_up(topics, local_frame(spark, spaces), ["namespace"])
    else:
        topics = _looked_up(topics, local_frame(spark, ranges.namespaces), [*CYCLE, "namespace"])
        topics = topics.join(F.broadcast(local_frame(spark, ranges.layouts)), "layout", how="inner").drop("layout")
    # `get` beyond the last edge is NULL, and the piece stays.
    topics = topics.withColumn("piece", F.expr("get(starts, cast(shiftright(hash, shift) as int))"))
    for step in (1 << bit for bit in reversed(range(ranges.steps))):
        topics = topics.withColumn("piece", F.expr(f"piece + if(hash >= get(edges, piece + {step}), {step}, 0)"))
    number = F.expr(f"if({_IS_FOUND}, first_number + piece, {_NOWHERE}L)")
    return topics.withColumn("number", number).drop("first_number", "shift", "starts", "edges", "piece", _IS_FOUND)


_NOWHERE = -1
_IS_FOUND = "is_found"


def _looked_up(topics: DataFrame, found: DataFrame, by: Sequence[str]) -> DataFrame:
    """Join the topics with the columns of each row of `found` that has equal `by` columns, which are text and moments.

    `is_found` tells matches apart; a topic may also get the columns of another row. Rows are joined by one number that
    is made of these columns, which costs less than text; two rows may have the same number, though hardly ever.
    """
    named = found.withColumnsRenamed({name: f"found_{name}" for name in by})
    named = named.withColumn("place", F.xxhash64(*(f"found_{name}" for name in by)))
    placed = topics.withColumn("place", F.xxhash64(*by)).join(F.broadcast(named), "place", how="inner")
    is_found = F.expr(" and ".join(f"{name} = found_{name}" for name in by))
    return placed.withColumn(_IS_FOUND, is_found).drop("place", *(f"found_{name}" for name in by))


def bundle_sums(topics: DataFrame) -> DataFrame:
    """Per bundle: topics (loaded), listed_topics (known), consumers, producers, msg_backlog, four figures,
    has_non_persistent.

    `all_known` is false where a loaded topic lacks a figure: then the sums are too small. Sums are exact, so that
    neither order nor partitioning of the rows changes a bit.
    """
    is_loaded = F.col("observation") == "loaded"
    return topics.groupBy(*CYCLE, "bundle").agg(
        F.count_if(is_loaded).alias("topics"),
        F.count(F.lit(1)).alias("listed_topics"),
        F.sum("consumers").alias("consumers"),
        F.sum("producers").alias("producers"),
        F.when(F.every(~is_loaded | F.col("msg_backlog").isNotNull()), F.sum("msg_backlog")).alias("msg_backlog"),
        *(exact_sum(figure).alias(figure) for figure in RATES),
        F.bool_or(is_loaded & (F.col("domain") == "non-persistent")).alias("has_non_persistent"),
        F.every(~is_loaded | F.expr(_HAS_ALL)).alias("all_known"),
    )


def sums_in_thousandths(topics: DataFrame, ranges: Ranges) -> pa.Table:
    """Return the rows of `bundle_sums` for the topics (without `bundle`), and `is_odd` of each bundle.

    A bundle is odd if several brokers report a topic of it, or if a figure is not a whole number of thousandths (see
    `spark.sql.thousandths`). Sums of an odd bundle may lack figures, and `bundle_sums` has to be used; else they are
    equal to the bit. Pulsar cuts figures to three decimals. Until they are summed, bundles are numbers: one key of a
    few bytes and sums of whole numbers are what Spark groups fastest.
    """
    whole = {figure: f"{figure}_in_thousandths" for figure in RATES}
    topics = _placed(topics, ranges).withColumns({name: thousandths(figure) for figure, name in whole.items()})
    is_beyond = " or ".join(f"({figure} is not null and {name} is null)" for figure, name in whole.items())
    kept = topics.groupBy("number").agg(
        # Two counts in one number, each below 2^31, and all marks in another: fewer columns of a group cost less.
        F.expr(f"sum(if(observation = 'loaded', 1L, {_SECOND}L + 1L))").alias("counts"),
        F.expr(
            f"bit_or(if(observation = 'loaded', if(domain = 'non-persistent', {_NON_PERSISTENT}, 0) + "
            f"if({_HAS_ALL}, 0, {_LACKS_FIGURE}) + if(msg_backlog is null, {_LACKS_BACKLOG}, 0), 0) + "
            f"if(seen_on > 1 or {is_beyond}, {_ODD}, 0))"
        ).alias("marks"),
        *(F.sum(name).alias(name) for name in ("consumers", "producers", "msg_backlog", *whole.values())),
    )
    listed = F.col("counts").bitwiseAND(F.lit(_SECOND - 1))
    sums = kept.select(
        "number",
        (listed - F.shiftright("counts", 32)).alias("topics"),
        listed.alias("listed_topics"),
        *("consumers", "producers"),
        F.when(~_is_marked(_LACKS_BACKLOG), F.col("msg_backlog")).alias("msg_backlog"),
        *(of_thousandths(F.col(name)).alias(figure) for figure, name in whole.items()),
        _is_marked(_NON_PERSISTENT).alias("has_non_persistent"),
        (~_is_marked(_LACKS_FIGURE)).alias("all_known"),
        _is_marked(_ODD).alias("is_odd"),
    )
    return _named(arrow_of(sums), ranges)


_SECOND = 1 << 32
_NON_PERSISTENT, _LACKS_FIGURE, _LACKS_BACKLOG, _ODD = 1, 2, 4, 8
_HAS_ALL = " and ".join(f"{figure} is not null" for figure in RATES)


def _is_marked(mark: int) -> Column:
    return F.col("marks").bitwiseAND(F.lit(mark)) != F.lit(0)


def _named(sums: pa.Table, ranges: Ranges) -> pa.Table:
    """The sums with cluster, cycle_at and bundle in place of `number`, of all but `_NOWHERE`."""
    sums = sums.filter(pc.not_equal(sums["number"], _NOWHERE))
    clusters = pa.array([cluster for cluster, _ in ranges.cycles], pa.string())
    moments = [datetime.fromisoformat(at) for _, at in ranges.cycles]
    place, bundles = sums["number"].combine_chunks(), max(1, len(ranges.bundles))
    cycle = pc.divide(place, bundles)
    number = pc.subtract(place, pc.multiply(cycle, bundles))
    named = {
        "cluster": clusters.take(cycle),
        "cycle_at": pa.array(moments, pa.timestamp("us", tz="UTC")).take(cycle),
        "bundle": pa.array(ranges.bundles, pa.string()).take(number),
    }
    table = pa.table({**named, **{name: sums[name] for name in sums.column_names if name != "number"}})
    return table.filter(pc.is_valid(table["bundle"])) if named["bundle"].null_count else table


def topics_once(topics: DataFrame, owners: DataFrame) -> DataFrame:
    """Return one row per topic, of the topics with their `bundle`; `owners` has cluster, cycle_at, bundle and owner.

    While a bundle moves, two brokers may report its topics for up to one stats period. The owner's figures count. If
    the owner is not decided or reports nothing, the larger figures count (more bytes, then more messages, then the
    first name). The old owner's figures fall, and the new owner's start from zero, so the smaller figure is the wrong
    one; a load taken too small would attract further bundles. Of a topic that one broker reports twice the first by
    content counts, so the order of rows does not.
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
    """Return cluster, cycle_at, bundle, owner: the only broker that claims the bundle (rows of bundle_ownership)."""
    claimants = claims.where("is_owned").groupBy(*CYCLE, "bundle")
    return claimants.agg(F.expr("if(min(broker) = max(broker), min(broker), null)").alias("owner"))


def rejected_topics(rejected: DataFrame) -> DataFrame:
    """Return cluster, cycle_at, namespace, topic and hash of the rejected topics.

    The topic's name is in the record's key, or in `place` if ingest could not make a row of it.
    """
    name: Column = F.coalesce(
        F.expr("get_json_object(record_key, '$[0]')"),
        F.expr("nullif(regexp_extract(place, '((?i:persistent|non-persistent|topic|segment)://.+)', 1), '')"),
    )
    return (
        rejected.where("rejected_from = 'topic_stats'")
        .select(*CYCLE, name.alias("topic"))
        .where("topic is not null")
        .withColumn("hash", F.expr("crc32(cast(topic as binary))"))
        .withColumn("namespace", F.regexp_extract("topic", "^[^:]+://([^/]+/[^/]+)/", 1))
    )
