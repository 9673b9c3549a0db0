"""A broker's row: usage in percent, weighted usage, sums over the bundles it owns, averages of those it reports."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.aggregation.bundle_averages import AVERAGES, default_average
from evenkeel.aggregation.bundle_sums import FIGURES
from evenkeel.aggregation.exact import exact_sum
from evenkeel.aggregation.topic_to_bundle import CYCLE
from evenkeel.aggregation.usage import RESOURCES, percent, weighted_usage

REJECTED_STATE = "rejected"


def broker_load(reports: DataFrame, rejected: DataFrame | None, bundles: DataFrame, weights: DataFrame) -> DataFrame:
    """Rows of broker_load, one for each broker of `reports`.

    `reports` are all rows of broker_reports; `rejected` the rows of `rejected`, None if there are none; `bundles` rows
    of bundle_load; `weights` has cluster, is_extensible and one `<resource>_weight` per resource. A broker whose report
    was set aside keeps its row, with state `rejected` and nothing known of its usage.
    """
    judged = _judged(_once(reports), rejected)
    measured = judged.join(F.broadcast(weights), "cluster", how="inner").withColumns(
        {
            f"{name}_percent": F.when(F.col("has_report"), percent(F.col(f"{name}_usage"), F.col(f"{name}_limit")))
            for name in RESOURCES
        }
    )
    summed = (
        measured.withColumn("weighted_usage", weighted_usage(F.col("is_extensible")))
        .join(owned_sums(bundles), [*CYCLE, "broker"], how="left")
        .join(time_averages(judged, bundles), [*CYCLE, "broker"], how="left")
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
        *[F.expr(f"if(has_report, coalesce({name}, 0.0D), null)").alias(name) for name in AVERAGES],
    )


def owned_sums(bundles: DataFrame) -> DataFrame:
    """Per owner: `sum_*` over the used figures of its bundles as far as known, `sum_topics`, `bundles_owned`."""
    return (
        bundles.where("owner is not null")
        .groupBy(*CYCLE, F.col("owner").alias("broker"))
        .agg(
            *[exact_sum(f"used_{figure}").alias(f"sum_{figure}") for figure in FIGURES],
            F.sum("topics").alias("sum_topics"),
            F.count(F.lit(1)).alias("bundles_owned"),
        )
    )


def time_averages(reports: DataFrame, bundles: DataFrame) -> DataFrame:
    """Per broker the sums of the short- and long-term averages of the bundles in its report (TimeAverageBrokerData).

    A bundle that is not known counts with Pulsar's default figures, as it does there. A broker whose report names no
    bundles (the extensible manager's has no such list) counts those that it owns. Without a report: NULL.
    `reports` have has_report and bundles.
    """
    named = reports.where("has_report and bundles is not null").select(
        *CYCLE, "broker", F.explode(F.array_distinct("bundles")).alias("bundle")
    )
    owning = reports.where("has_report and bundles is null").select(*CYCLE, "broker")
    owned = bundles.select(*CYCLE, F.col("owner").alias("broker"), "bundle").join(
        F.broadcast(owning), [*CYCLE, "broker"], how="left_semi"
    )
    counted = (
        named.unionByName(owned)
        .join(bundles.select(*CYCLE, "bundle", *AVERAGES), [*CYCLE, "bundle"], how="left")
        .withColumns({name: F.coalesce(F.col(name), F.lit(default_average(name))) for name in AVERAGES})
    )
    return counted.groupBy(*CYCLE, "broker").agg(*[exact_sum(name).alias(name) for name in AVERAGES])


def _once(reports: DataFrame) -> DataFrame:
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
