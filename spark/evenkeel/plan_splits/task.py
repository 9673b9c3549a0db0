"""Splits by Pulsar's rule, manual requests or the planner, with their cuts; and Evenkeel's own plan.

Reads: `bundle_load`, `broker_load` (aggregate), `broker_reports`, `namespace_bundles`, `cluster_policies`, of
`topic_stats` the topics of the chosen bundles if the algorithm or the planner needs them, and the predecessor's
`strategy_state` under the extensible manager or for the planner. Writes: `split_decisions`, a row per bundle
considered; under the extensible manager `strategy_state`; and unless evenkeelPlanner is off `planner_targets`,
`planner_models`, `planner_findings` and `strategy_state`. Skips: cycles that are not open, and cycles whose strategies
do not go together. Never fails on data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.cycle.fold import REMEMBERED, STATE
from evenkeel.cycle.frames import has_planner, read_checked, undecidable
from evenkeel.cycle.reading import EXTENSIBLE
from evenkeel.cycle.runner import RoundInputs, decide_rounds
from evenkeel.handover import ClusterCycle, Handover
from evenkeel.lake.plain_rows import rows_at_hand
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.lake.store import Lake
from evenkeel.manual_requests.wish_schema import HOT, LARGEST
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits import round as split_round
from evenkeel.planner.round import ON, bundles_wanted_split
from evenkeel.settings import settings_in
from evenkeel.spark.column_types import schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INPUTS = ("bundle_load", "broker_load", "broker_reports", "namespace_bundles", "cluster_policies")
OUTPUTS = ("split_decisions", "strategy_state")
TOPICS_TYPE = (
    "cluster string, bundle string, hashes array<bigint>, "
    "loaded_hashes array<bigint>, loaded_rates array<double>, loaded_throughputs array<double>"
)
PERSISTENT_TYPE = "cluster string, bundle string, topics bigint"
TASK = "plan_splits"
_CYCLE = ("cluster", "cycle_at")
_LOADED = {"hash": "hashes", "rate": "rates", "throughput": "throughputs"}


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Decide on splits in every open cycle."""
    handover = handover.leave_out(undecidable(handover))
    lake = Lake(handover.lake)
    inputs = RoundInputs(spark, lake, handover, *INPUTS, is_whole=False)
    for name, frame in persistent_topics(spark, lake, handover, inputs.frame("bundle_load")).items():
        inputs.add(name, frame)
    plans = has_planner(handover)
    remembers = plans or any(cycle.manager == EXTENSIBLE for cycle in handover.open_cycles())
    reads = inputs.add_state(handover, needed=remembers)
    handover = _with_topic_hashes(inputs, handover)
    decide = split_round.decide_and_plan_cycles if plans else split_round.decide_cycles
    outputs = (*OUTPUTS, *PLANNER_TABLES) if plans else OUTPUTS
    if plans:
        lake.ensure_tables(spark, PLANNER_TABLES)
    rows, handover = decide_rounds(handover, inputs, decide, outputs, TASK)
    # The modular rule keeps no state, and a planner may find nothing: no empty commit.
    frames = rows.frames(OUTPUTS if remembers else OUTPUTS[:1])
    frames |= rows.frames(rows.filled(PLANNER_TABLES) if plans else ())
    writes = lake.append(spark, frames, handover=handover, task=TASK, reads=reads)
    # A cluster of the same run whose planner is off lists none of its tables.
    return handover.with_writes(write for write in writes if write.rows or write.table not in PLANNER_TABLES)


def inputs_of_rule(inputs: RoundInputs, handover: Handover, bundles: DataFrame) -> None:
    """Add the inputs of the split rule beside loads, reports and boundaries, while the loads of a window are made.

    `bundles` are those in force (see `split_round.chosen_type`): the chosen ones are not known yet.
    """
    cycles = handover.open_cycles()
    inputs.add_stored("cluster_policies", handover.open_writes("cluster_policies"))
    inputs.add_state(handover, needed=any(open_cycle.manager == EXTENSIBLE for open_cycle in cycles))
    inputs.add_empty("topic_hashes", schema_of(f"cycle_at timestamp, {TOPICS_TYPE}"))
    if any(asks_by_topics(cycle) for cycle in cycles):
        topics = read_checked(inputs.lake, inputs.spark, handover, "topic_stats")
        inputs.add("topic_hashes", hashes_in(bundles, topics, _CYCLE))
    for name, frame in persistent_topics(inputs.spark, inputs.lake, handover, bundles).items():
        inputs.add(name, frame)


def asks_by_topics(cycle: ClusterCycle) -> bool:
    """Return True if topics decide which bundles a cycle requests to split, and not only where they are cut.

    They do for manual requests, which are refused if the algorithm finds no cut. They do under the extensible manager,
    whose hit counts depend on the cuts. The modular manager's rule decides before the cut, and drops the averages in
    either case.
    """
    settings = settings_in(cycle.settings)
    if cycle.manager == EXTENSIBLE:
        return split_round.cuts_by_topics(settings, cycle.wishes)
    return split_round.wishes_cut_by_topics(settings, cycle.wishes)


def _with_topic_hashes(inputs: RoundInputs, handover: Handover) -> Handover:
    """Add the topics of each chosen bundle, if its algorithm or the planner reads topics: `TOPICS_TYPE` with
    the moment of the cycle. Gives the hand-over without cycles that failed over it."""
    inputs.add_empty("topic_hashes", schema_of(f"cycle_at timestamp, {TOPICS_TYPE}"))
    cycles = handover.open_cycles()
    by_algorithm = any(split_round.cuts_by_topics(settings_in(cycle.settings), cycle.wishes) for cycle in cycles)
    if not by_algorithm and not _planner_wants_splits(inputs, handover):
        return handover
    rows, left = decide_rounds(handover, inputs, split_round.choose_cycles, {"chosen": split_round.chosen_type()}, TASK)
    if not rows.is_empty("chosen"):
        topics = read_checked(inputs.lake, inputs.spark, left, "topic_stats")
        inputs.add("topic_hashes", hashes_in(rows.frame("chosen"), topics, _CYCLE))
    return left


def _planner_wants_splits(inputs: RoundInputs, handover: Handover) -> bool:
    """Return True if a planner that decides may want bundles to be split: in a window that is not known before."""
    if not has_planner(handover, ON):
        return False
    known = None if handover.is_window() else rows_at_hand(inputs.lake, REMEMBERED, inputs.stored[STATE])
    return known is None or bool(bundles_wanted_split(known))


def hashes_in(chosen: DataFrame, topic_stats: DataFrame, key: Sequence[str] = ("cluster",)) -> DataFrame:
    """Return the topics of each chosen bundle (see `split_round.chosen_type`), of those of `topic_stats`.

    `hashes` are those of all its topics, ascending. The `loaded_…` arrays belong together: hash, msg/s and byte/s of
    the topics that its owner has loaded, by hash and name. `key`: the columns of both that separate clusters, or
    cycles.
    """
    from pyspark.sql import functions as F

    inside = (F.col("hash") >= F.col("lower")) & ((F.col("hash") < F.col("upper")) | F.col("is_last"))
    topics = topic_stats.join(F.broadcast(chosen), on=[*key, "namespace"], how="inner")
    # A moving topic is reported twice: it counts once, with the figures of the bundle's owner.
    shown = F.when((F.col("observation") == "loaded") & (F.col("broker") == F.col("owner")), _load())
    one_each = topics.where(inside).groupBy(*key, "bundle", "topic", "hash").agg(F.max(shown).alias("load"))
    loaded = F.sort_array(F.collect_list(F.when(F.col("load").isNotNull(), F.struct("hash", "topic", "load.*"))))
    gathered = one_each.groupBy(*key, "bundle").agg(
        F.sort_array(F.collect_list("hash")).alias("hashes"), loaded.alias("loaded")
    )
    arrays = [F.col(f"loaded.{name}").alias(f"loaded_{plural}") for name, plural in _LOADED.items()]
    return gathered.select(*key, "bundle", "hashes", *arrays)


def picks_by_topics(wish: Mapping[str, Any]) -> bool:
    """Return True if a manual request names no bundle, but the largest or the hottest of its namespace."""
    return wish["bundle"] in (LARGEST, HOT)


def persistent_topics(spark: SparkSession, lake: Lake, handover: Handover, bundles: DataFrame) -> dict[str, DataFrame]:
    """cluster, cycle, bundle, persistent topics: of namespaces whose LARGEST or HOT bundle is to be split, if any."""
    wished = {
        (*cycle.key, wish["namespace"])
        for cycle in handover.open_cycles()
        for wish in cycle.wishes
        if picks_by_topics(wish)
    }
    if not wished:
        return {}
    from pyspark.sql.functions import to_timestamp

    asked = spark.createDataFrame(sorted(wished), "cluster string, cycle_at string, namespace string")
    asked = asked.withColumn("cycle_at", to_timestamp("cycle_at"))
    topics = read_checked(lake, spark, handover, "topic_stats")
    return {"persistent_topics": persistent_in(asked, topics, bundles, _CYCLE)}


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
    """Return a loaded topic's rate and throughput, in and out; a missing figure counts as 0."""
    from pyspark.sql import functions as F

    def total(figure: str) -> Column:
        ins, outs = (F.coalesce(F.col(f"msg_{figure}_{end}"), F.lit(0.0)) for end in ("in", "out"))
        return ins + outs

    return F.struct(total("rate").alias("rate"), total("throughput").alias("throughput"))
