"""Which bundles to split, by Pulsar's rule or an operator's wish, and where to cut them.

Reads: `bundle_load`, `broker_load` (aggregate), `broker_reports`, `namespace_bundles`, `cluster_policies`, of
`topic_stats` the topics of the chosen bundles where the algorithm asks for them, and under the extensible manager the
predecessor's `strategy_state`. Writes: `split_decisions`, a row per bundle considered, and under the extensible manager
`strategy_state`. Skips: clusters that are not open, and those whose strategies do not go together. Fails: never for
what it finds in the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.handover import CycleKey, Handover
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.manual_requests.wish_schema import HOT, LARGEST
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits import round as split_round
from evenkeel.rounds.frames import decide_rounds, read_checked, round_inputs, state_before
from evenkeel.rounds.reading import EXTENSIBLE
from evenkeel.settings import settings_in
from evenkeel.settings.compatibility import why_undecidable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OUTPUTS = ("split_decisions", "strategy_state")
TOPICS_TYPE = (
    "cluster string, bundle string, hashes array<bigint>, "
    "loaded_hashes array<bigint>, loaded_rates array<double>, loaded_throughputs array<double>"
)
PERSISTENT_TYPE = "cluster string, bundle string, topics bigint"
_LOADED = {"hash": "hashes", "rate": "rates", "throughput": "throughputs"}


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Decides on splits for every open cluster."""
    handover = handover.leave_out(undecidable(handover))
    lake = Lake(handover.lake)
    inputs = round_inputs(spark, lake, handover, "bundle_load", "broker_load", "broker_reports")
    inputs |= round_inputs(spark, lake, handover, "namespace_bundles", "cluster_policies")
    inputs |= persistent_topics(spark, lake, handover, inputs["bundle_load"])
    remembers = any(cycle.manager == EXTENSIBLE for cycle in handover.open_cycles())
    inputs["state"], reads = state_before(spark, lake, handover, needed=remembers)
    inputs["topic_hashes"] = topic_hashes(spark, lake, handover, inputs)
    decided = decide_rounds(inputs, split_round.decide, [TABLES[name] for name in OUTPUTS])
    if not remembers:
        del decided["strategy_state"]  # the modular rule remembers nothing: no empty commit
    return handover.with_writes(lake.append(spark, decided, handover=handover, task="plan_splits", reads=reads))


def undecidable(handover: Handover) -> dict[CycleKey, str]:
    """Cycles whose strategies do not go together, or whose load manager is not known, with what to do about it."""
    found = {cycle.key: why_undecidable(settings_in(cycle.settings), cycle.manager) for cycle in handover.open_cycles()}
    return {key: reason for key, reason in found.items() if reason}


def topic_hashes(spark: SparkSession, lake: Lake, handover: Handover, inputs: dict[str, DataFrame]) -> DataFrame:
    """The topics of each bundle chosen, only where its algorithm looks at topics: see `TOPICS_TYPE`."""
    empty = spark.createDataFrame([], TOPICS_TYPE)
    cycles = handover.open_cycles()
    if not any(split_round.cuts_by_topics(settings_in(cycle.settings), cycle.wishes) for cycle in cycles):
        return empty
    rounds = {**inputs, "topic_hashes": empty}
    chosen = decide_rounds(rounds, split_round.choose, {"chosen": split_round.chosen_type()})["chosen"]
    return empty if chosen.isEmpty() else hashes_in(chosen, read_checked(lake, spark, handover, "topic_stats"))


def hashes_in(chosen: DataFrame, topic_stats: DataFrame, key: Sequence[str] = ("cluster",)) -> DataFrame:
    """The topics of each chosen bundle (see `split_round.chosen_type`), of those of `topic_stats`.

    `hashes` are those of all its topics, ascending. The `loaded_…` arrays go together: hash, msg/s and byte/s of the
    topics that its owner has loaded, by hash and name. `key`: the columns of both that tell clusters, or cycles, apart.
    """
    from pyspark.sql import functions as F

    inside = (F.col("hash") >= F.col("lower")) & ((F.col("hash") < F.col("upper")) | F.col("is_last"))
    topics = topic_stats.join(F.broadcast(chosen), on=[*key, "namespace"], how="inner")
    # A topic that moves is shown twice: it counts once, with what the bundle's owner shows of it.
    shown = F.when((F.col("observation") == "loaded") & (F.col("broker") == F.col("owner")), _load())
    one_each = topics.where(inside).groupBy(*key, "bundle", "topic", "hash").agg(F.max(shown).alias("load"))
    loaded = F.sort_array(F.collect_list(F.when(F.col("load").isNotNull(), F.struct("hash", "topic", "load.*"))))
    gathered = one_each.groupBy(*key, "bundle").agg(
        F.sort_array(F.collect_list("hash")).alias("hashes"), loaded.alias("loaded")
    )
    arrays = [F.col(f"loaded.{name}").alias(f"loaded_{plural}") for name, plural in _LOADED.items()]
    return gathered.select(*key, "bundle", "hashes", *arrays)


def picks_by_topics(wish: Mapping[str, Any]) -> bool:
    """Whether a wish names no bundle, but the largest or the hottest of its namespace."""
    return wish["bundle"] in (LARGEST, HOT)


def persistent_topics(spark: SparkSession, lake: Lake, handover: Handover, bundles: DataFrame) -> dict[str, DataFrame]:
    """cluster, bundle, persistent topics: of the namespaces whose LARGEST or HOT bundle is to be split, if any."""
    wished = {
        (cycle.cluster, wish["namespace"])
        for cycle in handover.open_cycles()
        for wish in cycle.wishes
        if picks_by_topics(wish)
    }
    if not wished:
        return {}
    asked = spark.createDataFrame(sorted(wished), "cluster string, namespace string")
    return {"persistent_topics": persistent_in(asked, read_checked(lake, spark, handover, "topic_stats"), bundles)}


def persistent_in(
    asked: DataFrame, topic_stats: DataFrame, bundles: DataFrame, key: Sequence[str] = ("cluster",)
) -> DataFrame:
    """Persistent topics per bundle, loaded or not, of the namespaces asked for; `key` as in `hashes_in`."""
    from pyspark.sql import functions as F

    topics = topic_stats.where(F.col("domain") == "persistent").select(*key, "namespace", "topic", "hash").distinct()
    topics = topics.join(F.broadcast(asked), on=[*key, "namespace"])
    ranges = bundles.select(*key, "namespace", "bundle", "lower", "upper")
    inside = (F.col("hash") >= F.col("lower")) & (
        (F.col("hash") < F.col("upper")) | (F.col("upper") == F.lit(HIGHEST_HASH))
    )
    placed = topics.join(F.broadcast(ranges), on=[*key, "namespace"]).where(inside)
    return placed.groupBy(*key, "bundle").agg(F.count("*").alias("topics"))


def _load() -> Column:
    """A loaded topic's rate and throughput, in and out; a figure that is missing counts for nothing."""
    from pyspark.sql import functions as F

    def total(figure: str) -> Column:
        ins, outs = (F.coalesce(F.col(f"msg_{figure}_{end}"), F.lit(0.0)) for end in ("in", "out"))
        return ins + outs

    return F.struct(total("rate").alias("rate"), total("throughput").alias("throughput"))
