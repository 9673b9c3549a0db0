"""Which bundle each topic lies in (NamespaceBundles.findBundle), and sums of topic figures per bundle.

A topic's hash is CRC32 of its full name; bundle i of a namespace holds the hashes from boundary i up to, not including,
boundary i + 1; the last bundle includes 0xffffffff too. (Pulsar's own look-up raises an error for a topic with exactly
that hash although the last bundle is declared closed; here it belongs to the last bundle.)
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.spark.sql import exact_sum

CYCLE = ("cluster", "cycle_at")
FULL_HASH = 4_294_967_295
_HEX = "0x[0-9a-fA-F]{8}"

# Heartbeat and SLA-monitor namespaces stand in no list of namespaces and are always one bundle; 4.0 has a cluster in
# between. `pulsar/system` is an ordinary namespace with boundaries of its own.
_BROKER_NAMESPACE = r"^(pulsar|sla-monitor)/([^/]+/)?[^/]+:[0-9]+$"


def is_broker_namespace(namespace: Column) -> Column:
    """Whether it is a broker's own heartbeat or SLA-monitor namespace."""
    return namespace.rlike(_BROKER_NAMESPACE)


def is_system_namespace(namespace: Column) -> Column:
    """Whether it is Pulsar's own: heartbeat, SLA monitor or `pulsar/system`."""
    return is_broker_namespace(namespace) | (namespace == F.lit("pulsar/system"))


def bundles_in_force(namespaces: DataFrame, ownership: DataFrame) -> DataFrame:
    """One row per bundle: cluster, cycle_at, namespace, bundle, lower, upper, shift.

    `namespaces` are rows of namespace_bundles. A broker's own namespace has no boundaries there; it counts as one
    bundle where `ownership` (rows of bundle_ownership) shows that a broker has it, as it does in Pulsar's own sums.
    `shift` is how far a hash of this namespace is shifted to give its bucket, see `with_bundle`.
    """
    hashes = (
        f"transform(filter(boundaries, b -> b rlike '^{_HEX}$'), b -> cast(conv(substring(b, 3), 16, 10) as bigint))"
    )
    known = namespaces.select(*CYCLE, "namespace", F.expr(hashes).alias("hashes"))
    own = (
        ownership.where(is_broker_namespace(F.col("namespace")))
        .select(*CYCLE, "namespace", F.array(F.lit(0), F.lit(FULL_HASH)).cast("array<bigint>").alias("hashes"))
        .distinct()
    )
    ranges = "transform(slice(hashes, 1, bundles), (b, i) -> named_struct('lower', b, 'upper', hashes[i + 1]))"
    return (
        known.unionByName(own)
        .withColumn("bundles", F.expr("greatest(size(hashes) - 1, 0)"))
        .withColumn("shift", F.expr("32 - cast(ceil(log2(greatest(bundles, 1))) as int)"))
        .select(*CYCLE, "namespace", "shift", F.explode(F.expr(ranges)).alias("range"))
        .select(*CYCLE, "namespace", _bundle_name().alias("bundle"), "range.lower", "range.upper", "shift")
    )


def with_bundle(topics: DataFrame, bundles: DataFrame) -> DataFrame:
    """The topics (cluster, cycle_at, namespace, hash, …) with the `bundle` that each lies in.

    Topics of namespaces without boundaries are left out. Every namespace cuts the hash space into as many buckets as
    it has bundles (rounded up to a power of two); a bundle stands in every bucket it touches, so that topic and bundle
    meet by equality on the bucket and few candidates are left for the comparison of ranges.
    """
    shifts = bundles.select(*CYCLE, "namespace", "shift").distinct()
    touched = F.expr("sequence(shiftright(lower, shift), shiftright(last_hash, shift))")
    candidates = bundles.withColumn("last_hash", _last_hash()).select(
        *CYCLE, "namespace", "bundle", "lower", "last_hash", F.explode(touched).alias("bucket")
    )
    return (
        topics.join(F.broadcast(shifts), [*CYCLE, "namespace"], how="inner")
        .withColumn("bucket", F.expr("shiftright(hash, shift)"))
        .join(F.broadcast(candidates), [*CYCLE, "namespace", "bucket"], how="inner")
        .where((F.col("hash") >= F.col("lower")) & (F.col("hash") <= F.col("last_hash")))
        .drop("shift", "bucket", "lower", "last_hash")
    )


def _last_hash() -> Column:
    return F.expr(f"if(upper = {FULL_HASH}, upper, upper - 1)")


def _bundle_name() -> Column:
    lower, upper = (F.lower(F.lpad(F.hex(F.col(f"range.{end}")), 8, "0")) for end in ("lower", "upper"))
    return F.concat(F.col("namespace"), F.lit("/0x"), lower, F.lit("_0x"), upper)


# Sums of topic figures per bundle, each topic once.

FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


def topics_once(topics: DataFrame, owners: DataFrame) -> DataFrame:
    """One row per topic, of the topics with their `bundle`.

    While a bundle moves, two brokers may show its topics for up to one stats period. The owner's figures count; where
    the owner is not decided or shows nothing, the larger ones do (more bytes, then more messages, then the first name):
    the broker that lets go shows falling figures and the one that takes over starts from nothing, so the smaller
    figure is the one that is wrong, and a load taken too small would bring further bundles.
    """
    once = topics.where(F.coalesce(F.col("seen_on"), F.lit(0)) < 2)
    several = topics.where("seen_on > 1").join(owners.select(*CYCLE, "bundle", "owner"), [*CYCLE, "bundle"], how="left")
    first = Window.partitionBy(*CYCLE, "topic").orderBy(
        F.expr("broker <=> owner").desc(),
        F.expr("msg_throughput_in + msg_throughput_out").desc_nulls_last(),
        F.expr("msg_rate_in + msg_rate_out").desc_nulls_last(),
        F.col("broker").asc_nulls_last(),
    )
    chosen = several.withColumn("nth", F.row_number().over(first)).where("nth = 1").drop("nth", "owner")
    return once.unionByName(chosen)


def bundle_sums(topics: DataFrame) -> DataFrame:
    """Per bundle: topics (loaded), listed_topics (known), consumers, producers, msg_backlog, four figures,
    has_non_persistent.

    `all_known` is false where a loaded topic lacks a figure: then the sums are too small. Sums are exact, so that
    neither order nor partitioning of the rows changes a bit.
    """
    is_loaded = F.col("observation") == "loaded"
    has_all = F.expr(" and ".join(f"{figure} is not null" for figure in FIGURES))
    return topics.groupBy(*CYCLE, "bundle").agg(
        F.count_if(is_loaded).alias("topics"),
        F.count(F.lit(1)).alias("listed_topics"),
        F.sum("consumers").alias("consumers"),
        F.sum("producers").alias("producers"),
        F.when(F.every(~is_loaded | F.col("msg_backlog").isNotNull()), F.sum("msg_backlog")).alias("msg_backlog"),
        *[exact_sum(figure).alias(figure) for figure in FIGURES],
        F.bool_or(is_loaded & (F.col("domain") == "non-persistent")).alias("has_non_persistent"),
        F.every(~is_loaded | has_all).alias("all_known"),
    )


def bundles_with_rejected_topics(rejected: DataFrame, bundles: DataFrame) -> DataFrame:
    """Bundles that lost a topic to a rejection, so that their sums are not known: cluster, cycle_at, bundle.

    The topic's name stands in the record's key, or in `place` where ingest could not make a row of it.
    """
    name = F.coalesce(
        F.expr("get_json_object(record_key, '$[0]')"),
        F.expr("nullif(regexp_extract(place, '((?i:persistent|non-persistent)://.+)', 1), '')"),
    )
    topics = (
        rejected.where("rejected_from = 'topic_stats'")
        .select(*CYCLE, name.alias("topic"))
        .where("topic is not null")
        .withColumn("hash", F.expr("crc32(cast(topic as binary))"))
        .withColumn("namespace", F.regexp_extract("topic", "^[^:]+://([^/]+/[^/]+)/", 1))
    )
    return with_bundle(topics, bundles).select(*CYCLE, "bundle").distinct()


# What a split's children inherit: the figures that their topics had in the cycle before, when they could be trusted.
#
# A child has no row of its own in the cycle before, and for two stats periods after the split its figures are doubled
# or missing. Its topics were there before, each in its parent, so their last trusted figures are summed by the new
# ranges.


def inherited(children: DataFrame, previous: DataFrame, topics: DataFrame, bundles: DataFrame) -> DataFrame:
    """cluster, bundle, trusted_at and the four figures of the `children` that can inherit.

    `children` (cluster, bundle, parent) are what recent splits made, `previous` the predecessor's rows of bundle_load,
    `topics` those of its topic_stats, `bundles` the bundles in force now. A child inherits nothing where it has a row
    of its own in `previous`, or where its parent's figures were not trusted there either.
    """
    known = previous.where("used_reason = 'measured'").select(
        "cluster", F.col("bundle").alias("parent"), "owner", "trusted_at"
    )
    new = (
        children.join(previous.select("cluster", "bundle"), ["cluster", "bundle"], "left_anti")
        .join(known, ["cluster", "parent"])
        .join(bundles.select(*CYCLE, "bundle"), ["cluster", "bundle"])
    )
    moments = bundles.select(*CYCLE).distinct()
    then = topics.drop("cycle_at").join(F.broadcast(moments), ["cluster"])
    placed = with_bundle(then, bundles).join(F.broadcast(new.select(*CYCLE, "bundle")), [*CYCLE, "bundle"], "left_semi")
    sums = bundle_sums(topics_once(placed, new)).select(*CYCLE, "bundle", *FIGURES)
    figures = [F.coalesce(F.col(figure), F.lit(0.0)).alias(figure) for figure in FIGURES]
    return new.join(sums, [*CYCLE, "bundle"], "left").select("cluster", "bundle", "trusted_at", *figures)
