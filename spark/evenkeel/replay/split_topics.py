"""Topics that splits read, and numbers of topics for manual requests.

The topics are those of every bundle that a variant might cut, in every cycle of a chunk. The numbers are per bundle, if
a manual request was for the largest bundle. The bundles that a variant cuts follow from its state, which only the fold
knows. So the topics of all bundles over the lowest limit of any variant are gathered, and the fold takes those it has
chosen. Without a variant that cuts by topics nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.cycle.frames import without_rejected
from evenkeel.errors import LakeError
from evenkeel.lake.record import Attempt
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits.planner_wishes import looks_at_topics
from evenkeel.plan_splits.round import BY_RANGE
from evenkeel.plan_splits.rules.bundle_splitter_task import bandwidth_limit
from evenkeel.plan_splits.rules.planner_splits import HEAVY
from evenkeel.plan_splits.task import PERSISTENT_TYPE, TOPICS_TYPE, hashes_in, persistent_in, picks_by_topics
from evenkeel.settings import Settings
from evenkeel.spark.column_types import schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


_HEAVY, _NEARLY = "is_heavy", 0.999
TOPICS, PERSISTENT = "topic_hashes", "persistent_topics"
_KEY = ["cluster", "cycle_at"]


def topics_type() -> StructType:
    """Return the schema of the result of `topic_hashes`, without the moment of the cycle."""
    return schema_of(TOPICS_TYPE)


def persistent_type() -> StructType:
    """Return the schema of the result of `persistent_topics`, without the moment of the cycle."""
    return schema_of(PERSISTENT_TYPE)


def persistent_topics(
    spark: SparkSession, lake: Lake, cluster: str, wishes: Sequence[tuple[Attempt, Mapping[str, Any]]]
) -> DataFrame | None:
    """Return rows of `persistent_type` with `cycle_at`, or None without a request for the largest or the hottest
    bundle.

    `wishes`: the requests that the cycles took. Raises LakeError if topic figures are past their retention.
    """
    picking = [(attempt, wish["namespace"]) for attempt, wish in wishes if picks_by_topics(wish)]
    if not picking:
        return None
    cycles = list({attempt.attempt_id: attempt for attempt, _ in picking}.values())
    _demand(cycles, "a manual request was for the largest bundle of a namespace: leave that cycle out")

    wished = sorted({(cluster, attempt.cycle_at, namespace) for attempt, namespace in picking})
    asked = spark.createDataFrame(wished, "cluster string, cycle_at timestamp, namespace string")
    bundles = rows_of(spark, lake, cycles, "bundle_load")
    return persistent_in(asked, _topics(spark, lake, cycles), bundles, _KEY)


def topic_hashes(
    spark: SparkSession, lake: Lake, chunk: Sequence[Attempt], settings: Iterable[Settings]
) -> DataFrame | None:
    """Return rows of `topics_type` with `cycle_at`, or None if no variant needs topics. `settings`: of all variants.

    Raises LakeError if topic figures are past their retention; not if the planner alone needs them, which then splits
    nothing.
    """
    from pyspark.sql import functions as F

    every = [*settings]
    cutting = [
        variant_settings
        for variant_settings in every
        if variant_settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE
    ]
    planning = any(map(looks_at_topics, every))
    wished = any(attempt.planned["wishes"] for attempt in chunk)
    if not cutting and not wished and not planning:
        return None
    if cutting or wished:
        _demand(
            chunk,
            f"a variant cuts bundles by topics: set defaultNamespaceBundleSplitAlgorithm={BY_RANGE}, or begin later",
        )

    bundles = rows_of(spark, lake, chunk, "bundle_load")
    asked = bundles
    if not wished:
        over = _over_a_limit(cutting) if cutting else F.lit(False)
        asked = (_with_heavy(bundles) if planning else bundles.withColumn(_HEAVY, F.lit(False))).where(
            over | F.col(_HEAVY)
        )
    is_last = (F.col("upper") == F.lit(HIGHEST_HASH)).alias("is_last")
    chosen = asked.select(*_KEY, "namespace", "bundle", "owner", "lower", "upper", is_last)
    return hashes_in(chosen, _topics(spark, lake, chunk), _KEY)


def _with_heavy(bundles: DataFrame) -> DataFrame:
    """Return the bundles that the planner may look into, and perhaps a few more: these sums differ a little."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    of_broker = Window.partitionBy(*_KEY, "owner")
    is_heavy = F.lit(False)
    for figure in ("used_msg_throughput", "used_msg_rate"):
        ins, outs = (_counting(F.col(f"{figure}_{end}")) for end in ("in", "out"))
        traffic = ins + outs
        is_heavy |= (traffic > 0) & (traffic >= _NEARLY * HEAVY * F.sum(traffic).over(of_broker))
    return bundles.withColumn(_HEAVY, F.coalesce(is_heavy & F.col("owner").isNotNull(), F.lit(False)))


def _counting(figure: Column) -> Column:
    """Return a figure; NULL if it is unknown, or not a finite number above 0."""
    from pyspark.sql import functions as F

    return F.when((figure > 0) & (figure < float("inf")), figure).otherwise(0.0)


def _topics(spark: SparkSession, lake: Lake, cycles: Iterable[Attempt]) -> DataFrame:
    """The topic figures of these cycles, without those that were rejected."""
    rejected = [write for attempt in cycles for write in attempt.writes_of("rejected")]
    return without_rejected(lake, spark, rows_of(spark, lake, cycles, "topic_stats"), "topic_stats", rejected)


def rows_of(spark: SparkSession, lake: Lake, cycles: Iterable[Attempt], table: str) -> DataFrame:
    """Return the rows that these cycles wrote to a table."""
    return lake.read(spark, table, [write for attempt in cycles for write in attempt.writes_of(table)])


def _over_a_limit(settings: Sequence[Settings]) -> Column:
    """Return a column: True if a row of `bundle_load` exceeds the lowest limit in any figure that a rule reads."""
    from pyspark.sql import functions as F

    def both(name: str) -> Column:
        ins, outs = (F.coalesce(F.col(f"{name}_{end}"), F.lit(0.0)) for end in ("in", "out"))
        return ins + outs

    topics = min(setting.loadBalancerNamespaceBundleMaxTopics for setting in settings)
    sessions = min(setting.loadBalancerNamespaceBundleMaxSessions for setting in settings)
    rate = float(min(setting.loadBalancerNamespaceBundleMaxMsgRate for setting in settings))
    flow = float(min(bandwidth_limit(setting) for setting in settings))
    over = F.col("topics") > topics
    if sessions > 0:
        over |= F.coalesce("producers", F.lit(0)) + F.coalesce("consumers", F.lit(0)) > sessions
    for term in ("used", "long"):
        over |= (both(f"{term}_msg_rate") > rate) | (both(f"{term}_msg_throughput") > flow)
    return F.coalesce(over, F.lit(False))


def _demand(chunk: Sequence[Attempt], why: str) -> None:
    lacking = [attempt for attempt in chunk if not attempt.writes_of("topic_stats")]
    if lacking:
        raise LakeError(
            f"the cycle of {lacking[0].cluster} at {lacking[0].cycle_at.isoformat()} lists no topic figures, and {why}"
        )
