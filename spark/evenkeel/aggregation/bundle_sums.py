"""Sums of topic figures per bundle, each topic once."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.aggregation.exact import exact_sum
from evenkeel.aggregation.topic_to_bundle import CYCLE, with_bundle

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
    """Per bundle: topics (loaded), listed_topics (known), consumers, producers, four figures, has_non_persistent.

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
