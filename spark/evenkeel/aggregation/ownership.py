"""Who owns a bundle, by the brokers' own lists of what they own now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.aggregation.topic_to_bundle import CYCLE

BUNDLE_COLUMNS = (*CYCLE, "namespace", "bundle", "lower", "upper")
SAID = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out", "topics")


def owners(bundles: DataFrame, claims: DataFrame, brokers: DataFrame, rejected: DataFrame | None) -> DataFrame:
    """The bundles with `owner`, `ownership`, `claimants`, `answered` and `reported_*`.

    ownership: owned: exactly one broker has it in its list. doubled: more than one has, as for a moment while it moves.
    unowned: none has, and every available broker's list came. unknown: none has, but a list is missing (or a claim to
    it was set aside), so it may well be owned. `claimants` are the brokers that say they own it, `answered` all brokers
    of the cluster whose topic figures came, `reported_*` what the owner itself says of the bundle.
    `claims` are checked rows of bundle_ownership, `brokers` rows of broker_reports, `rejected` rows of `rejected`, None
    if there are none.
    """
    known = bundles.join(_claimed(claims), [*CYCLE, "bundle"], how="left")
    known = known.join(F.broadcast(_heard(brokers)), list(CYCLE), how="left")
    if rejected is None:
        known = known.withColumn("is_refused", F.lit(False))
    else:
        known = known.join(_refused_claims(rejected), [*CYCLE, "bundle"], how="left")
    judged = known.selectExpr(
        *BUNDLE_COLUMNS,
        "said",
        "coalesce(answered, array()) as answered",
        "coalesce(claimants, array()) as claimants",
        "if(size(claimants) = 1, claimants[0], null) as owner",
        """case when size(claimants) = 1 then 'owned'
                when size(claimants) > 1 then 'doubled'
                when coalesce(all_lists_came, false) and not coalesce(is_refused, false) then 'unowned'
                else 'unknown' end as ownership""",
    )
    own = judged.withColumn("own", F.expr("array_max(filter(said, s -> s.broker = owner))"))
    return own.withColumns({f"reported_{name}": F.col(f"own.{name}") for name in SAID}).drop("said", "own")


def _claimed(claims: DataFrame) -> DataFrame:
    """Per bundle who owns it and what each broker says of it; of a claim made twice the larger figures count."""
    return claims.groupBy(*CYCLE, "bundle").agg(
        F.array_sort(F.collect_set(F.when(F.col("is_owned"), F.col("broker")))).alias("claimants"),
        F.collect_list(F.struct("broker", *SAID)).alias("said"),
    )


def _heard(brokers: DataFrame) -> DataFrame:
    """Per cluster whether every available broker's list of bundles came, and whose topic figures came."""
    listed = F.when(F.col("is_listed"), F.col("owned_bundles").isNotNull())
    return brokers.groupBy(*CYCLE).agg(
        F.every(listed).alias("all_lists_came"),
        F.collect_set(F.when(F.col("has_topic_figures"), F.col("broker"))).alias("answered"),
    )


def _refused_claims(rejected: DataFrame) -> DataFrame:
    named = rejected.where("rejected_from = 'bundle_ownership' and record_key is not null")
    bundle = F.expr("get_json_object(record_key, '$[0]')").alias("bundle")
    return named.select(*CYCLE, bundle, F.lit(True).alias("is_refused")).distinct()
