"""A broker's row: usage in percent, weighted usage, sums over the bundles it owns, averages of those it reports."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.aggregate.bundle_load import AVERAGES, default_average
from evenkeel.aggregate.topic_sums import CYCLE, FIGURES
from evenkeel.spark.sql import exact_sum

REJECTED_STATE = "rejected"


def broker_load(reports: DataFrame, rejected: DataFrame | None, bundles: DataFrame, weights: DataFrame) -> DataFrame:
    """Rows of broker_load, one for each broker of `reports`.

    `reports` are the rows of broker_reports, one per broker (`reports_once`); `rejected` the rows of `rejected`, None
    if there are none; `bundles` rows of bundle_load; `weights` has cluster, is_extensible and one `<resource>_weight`
    per resource. A broker whose report was set aside keeps its row, with state `rejected` and its usage not known.
    """
    judged = _judged(reports, rejected)
    measured = judged.join(F.broadcast(weights), "cluster", how="inner").withColumns(
        {
            f"{name}_percent": F.when(F.col("has_report"), percent(F.col(f"{name}_usage"), F.col(f"{name}_limit")))
            for name in RESOURCES
        }
    )
    weighted = measured.withColumn("weighted_usage", weighted_usage(F.col("is_extensible")))
    summed = weighted.withColumnRenamed("bundles", "named").join(
        bundle_sums_of_brokers(judged, bundles), [*CYCLE, "broker"], how="left"
    )
    return summed.select(
        *CYCLE,
        *["broker", "state", "is_leader", "pulsar_version", "load_manager_class"],
        *[f"{name}_percent" for name in RESOURCES],
        *[f"{name}_weight" for name in RESOURCES],
        "weighted_usage",
        *[F.expr(f"coalesce(sum_{name}, if(owned_bundles = 0, 0.0D, null))").alias(name) for name in FIGURES],
        *[F.expr(f"if(has_report, {name}, null)").alias(f"reported_{name}") for name in FIGURES],
        F.expr("coalesce(sum_topics, 0)").alias("topics"),
        F.expr("if(has_report, topics, null)").alias("reported_topics"),
        F.expr("coalesce(bundles_owned, 0)").alias("bundles"),
        *[_time_average(name) for name in AVERAGES],
    )


def bundle_sums_of_brokers(reports: DataFrame, bundles: DataFrame) -> DataFrame:
    """Per broker sums over the bundles that it owns and over those that its report names.

    `bundles_owned`, `sum_topics` and `sum_*` (used figures, as far as they are known) go over the owned ones;
    `owned_*` and `named_*` are the short- and long-term averages (TimeAverageBrokerData). A named bundle that is not
    known counts with Pulsar's default figures, as it does there. `reports` have has_report and bundles.
    """
    named = reports.where("has_report").select(
        *CYCLE, "broker", F.explode(F.array_distinct("bundles")).alias("bundle"), F.lit(True).alias("is_named")
    )
    owned = bundles.where("owner is not null").select(
        *CYCLE, F.col("owner").alias("broker"), "bundle", F.lit(False).alias("is_named")
    )
    known = bundles.select(*CYCLE, "bundle", "topics", *[f"used_{figure}" for figure in FIGURES], *AVERAGES)
    is_named, is_owned = F.col("is_named"), ~F.col("is_named")
    return (
        named.unionByName(owned)
        .join(known, [*CYCLE, "bundle"], how="left")
        .groupBy(*CYCLE, "broker")
        .agg(
            F.count_if(is_owned).alias("bundles_owned"),
            F.sum(F.when(is_owned, F.col("topics"))).alias("sum_topics"),
            *[exact_sum(F.when(is_owned, F.col(f"used_{name}"))).alias(f"sum_{name}") for name in FIGURES],
            *[exact_sum(F.when(is_owned, F.col(name))).alias(f"owned_{name}") for name in AVERAGES],
            *[
                exact_sum(F.when(is_named, F.coalesce(F.col(name), F.lit(default_average(name))))).alias(
                    f"named_{name}"
                )
                for name in AVERAGES
            ],
        )
    )


def _time_average(name: str) -> Column:
    """Over the bundles of the report; over those it owns where it names none (the extensible manager's do not)."""
    summed = f"coalesce(if(named is null, owned_{name}, named_{name}), 0.0D)"
    return F.expr(f"if(has_report, {summed}, null)").alias(name)


def reports_once(reports: DataFrame) -> DataFrame:
    """One report per broker: the one asked for last where a broker answered twice."""
    last = Window.partitionBy(*CYCLE, "broker").orderBy(
        F.col("asked_at").desc_nulls_last(), F.col("report_at").desc_nulls_last(), F.to_json(F.struct("*"))
    )
    return reports.withColumn("nth", F.row_number().over(last)).where("nth = 1").drop("nth")


def _judged(reports: DataFrame, rejected: DataFrame | None) -> DataFrame:
    """The reports with `has_report`, and state `rejected` where validate set the report aside."""
    if rejected is None:
        return reports.withColumn("has_report", F.col("state") == "reported")
    named = rejected.where("rejected_from = 'broker_reports' and record_key is not null")
    broker = F.expr("get_json_object(record_key, '$[0]')").alias("broker")
    refused = named.select(*CYCLE, broker, F.lit(True).alias("is_refused")).distinct()
    state = F.expr(f"if(is_refused and state = 'reported', '{REJECTED_STATE}', state)")
    judged = reports.join(refused, [*CYCLE, "broker"], how="left").withColumn("state", state)
    return judged.withColumn("has_report", F.col("state") == "reported")


# A broker's usage in percent and its weighted usage, in Pulsar's 32-bit arithmetic, as Spark SQL.
#
# Pulsar (ResourceUsage.percentUsage) divides two 32-bit floats and multiplies by 100 in 32 bits, so 30 of 100 is
# 30.000002 %. Thresholds are compared with that figure, so it is reproduced to the bit.

RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")

# The modular manager never looks at heap memory (LocalBrokerData.getMaxResourceUsageWithWeight); the extensible one
# does, with a weight of its own (BrokerLoadData.getWeightedMaxResourceUsage).
MODULAR_RESOURCES = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")


def percent(usage: Column, limit: Column) -> Column:
    """Usage in percent of the limit, as a double that holds a 32-bit value; 0 without a limit, NULL if not known."""
    ratio = F.try_divide(usage.cast("float").cast("double"), limit.cast("float").cast("double")).cast("float")
    share = (ratio.cast("double") * F.lit(100.0)).cast("float").cast("double")
    return F.when(usage.isNull() | limit.isNull(), None).when(limit > 0, share).otherwise(F.lit(0.0))


def weighted_usage(is_extensible: Column) -> Column:
    """The largest of percent x weight, as a fraction, of the columns `<resource>_percent` and `<resource>_weight`.

    NULL if a resource that has a weight is not known. Units: fraction, 1.0 is full.
    """
    return F.when(is_extensible, _largest(RESOURCES)).otherwise(_largest(MODULAR_RESOURCES))


def _largest(resources: tuple[str, ...]) -> Column:
    # Pulsar compares with `>`, so not-a-number (0 of a limit too small for 32 bits) never wins; in Spark it would.
    least = F.lit(float("-inf"))
    weighted = [F.nanvl(F.col(f"{name}_percent") * F.col(f"{name}_weight"), least) for name in resources]
    is_unknown = [(F.col(f"{name}_percent").isNull() & (F.col(f"{name}_weight") > 0)).cast("int") for name in resources]
    unknown = is_unknown[0]
    for flag in is_unknown[1:]:
        unknown = unknown + flag
    return F.when(unknown == 0, F.greatest(*weighted) / F.lit(100.0))
