"""Who owns a bundle, by the brokers' own lists of what they own now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.aggregation.topic_to_bundle import CYCLE

BUNDLE_COLUMNS = (*CYCLE, "namespace", "bundle", "lower", "upper")


def owners(bundles: DataFrame, claims: DataFrame, brokers: DataFrame, rejected: DataFrame | None) -> DataFrame:
    """The bundles with `owner`, `ownership` and `claimants` (brokers that say they own it, sorted).

    owned: exactly one broker has it in its list. doubled: more than one has, as for a moment while it moves.
    unowned: none has, and every available broker's list came. unknown: none has, but a list is missing (or a claim to
    it was set aside), so it may well be owned. `claims` are checked rows of bundle_ownership, `brokers` rows of
    broker_reports, `rejected` rows of `rejected`, None if there are none.
    """
    owned = claims.where("is_owned").groupBy(*CYCLE, "bundle").agg(F.array_sort(F.collect_set("broker")).alias("found"))
    lists = (
        brokers.where("is_listed").groupBy(*CYCLE).agg(F.every(F.col("owned_bundles").isNotNull()).alias("all_came"))
    )
    known = bundles.join(owned, [*CYCLE, "bundle"], how="left").join(F.broadcast(lists), list(CYCLE), how="left")
    if rejected is None:
        known = known.withColumn("is_refused", F.lit(False))
    else:
        known = known.join(_refused_claims(rejected), [*CYCLE, "bundle"], how="left")
    return known.selectExpr(
        *BUNDLE_COLUMNS,
        "coalesce(found, array()) as claimants",
        "if(size(found) = 1, found[0], null) as owner",
        """case when size(found) = 1 then 'owned'
                when size(found) > 1 then 'doubled'
                when coalesce(all_came, false) and not coalesce(is_refused, false) then 'unowned'
                else 'unknown' end as ownership""",
    )


def _refused_claims(rejected: DataFrame) -> DataFrame:
    named = rejected.where("rejected_from = 'bundle_ownership' and record_key is not null")
    bundle = F.expr("get_json_object(record_key, '$[0]')").alias("bundle")
    return named.select(*CYCLE, bundle, F.lit(True).alias("is_refused")).distinct()
