"""A few rows of strategy_state, and a hand-over to write them with."""

from pyspark.sql import functions as F

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot

AT = "2026-11-21T08:27:04.000000+00:00"


def handover(root: str, *clusters: str) -> Handover:
    cycles = tuple(ClusterCycle(name, AT, Snapshot("s", AT), {}) for name in clusters)
    return Handover(root, Run("cli", "run"), cycles)


def states(spark, *rows):
    frame = spark.createDataFrame(list(rows), "cluster string, subject string, value double")
    return frame.select(
        "cluster", F.to_timestamp(F.lit(AT)).alias("cycle_at"), F.lit("ThresholdShedder").alias("strategy"), "subject",
        F.lit("usage_average").alias("name"), "value", F.lit(None).cast("timestamp").alias("at"),
    )  # fmt: skip
