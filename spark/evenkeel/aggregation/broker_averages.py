"""Averages of a broker's load as the extensible manager keeps them (Pulsar: BrokerLoadData.update).

There a broker averages its own usage and throughput every five seconds: average * h + (1 - h) * now, h being
loadBalancerHistoryResourcePercentage, and its very first figure counts as it is. Seen from outside, cycles apart, the
figure of this cycle stands for all the ticks since the cycle before: h to the power of their number. Where the broker
publishes its average of usage, that one counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

TICK_SECONDS = 5.0
# Of the cycle before, by broker.
_BEFORE = {"cycle_at": "averaged_at", "weighted_max_ema": "usage_before", "msg_throughput_ema": "throughput_before"}
AVERAGES = {"weighted_max_ema": "double", "ema_origin": "string", "msg_throughput_ema": "double"}


def with_averages(loads: DataFrame, before: DataFrame | None) -> DataFrame:
    """Adds weighted_max_ema (fraction), ema_origin and msg_throughput_ema (byte/s) to brokers of extensible clusters.

    `loads` have weighted_usage, published_ema, reported_msg_throughput_in/out, is_extensible and history (fraction);
    `before` rows of broker_load of the predecessor, None if no cluster is under the extensible manager. A broker
    without report has no average: Pulsar, too, has no load data of it.
    """
    if before is None:
        return loads.withColumns({name: F.lit(None).cast(kind) for name, kind in AVERAGES.items()})
    kept = before.select("cluster", "broker", *[F.col(name).alias(alias) for name, alias in _BEFORE.items()])
    joined = loads.join(F.broadcast(kept), ["cluster", "broker"], how="left")
    throughput = F.col("reported_msg_throughput_in") + F.col("reported_msg_throughput_out")
    published = F.col("published_ema")
    is_asked = F.col("is_extensible") & F.col("weighted_usage").isNotNull()
    averaged = F.coalesce(published, _advanced(F.col("usage_before"), F.col("weighted_usage")))
    origin = (
        F.when(published.isNotNull(), F.lit("published"))
        .when(F.col("usage_before").isNull(), F.lit("first"))
        .otherwise(F.lit("averaged"))
    )
    return joined.withColumns(
        {
            "weighted_max_ema": F.when(is_asked, averaged),
            "ema_origin": F.when(is_asked, origin),
            "msg_throughput_ema": F.when(is_asked, _advanced(F.col("throughput_before"), throughput)),
        }
    ).drop(*_BEFORE.values())


def _advanced(before: Column, now: Column) -> Column:
    """The average carried on to this cycle; what is seen now where there was none, what there was where nothing is."""
    seconds = F.col("cycle_at").cast("double") - F.col("averaged_at").cast("double")
    share = F.pow(F.col("history"), seconds / F.lit(TICK_SECONDS))
    return F.coalesce(before * share + (F.lit(1.0) - share) * now, now, before)
