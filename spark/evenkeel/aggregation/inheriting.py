"""What a split's children inherit: the figures that their topics had in the cycle before, when they could be trusted.

A child has no row of its own in the cycle before, and for two stats periods after the split its figures are doubled or
missing. Its topics were there before, each in its parent, so their last trusted figures are summed by the new ranges.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.aggregation.bundle_sums import FIGURES, bundle_sums, topics_once
from evenkeel.aggregation.topic_to_bundle import CYCLE, with_bundle


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
