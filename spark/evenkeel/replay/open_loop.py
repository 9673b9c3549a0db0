"""Open loop: other strategies or settings decide the recorded observations, cycle by cycle; no command takes effect.

Reads exactly the rows that the cycles' manifests list, in chunks of cycles, each in one Spark job; a chunk's state is
handed to the next one. Writes: `replay_cycles`, `replay_decisions`, and last `replay_runs`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenkeel.cycle.frames import without_rejected
from evenkeel.cycle.runner import fetched
from evenkeel.errors import LakeError
from evenkeel.handover import Write
from evenkeel.lake.record import Attempt, chunked
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import UNLOAD_TOPIC
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits.planner_wishes import looks_at_topics
from evenkeel.plan_splits.round import BY_RANGE
from evenkeel.plan_splits.rules.bundle_splitter_task import bandwidth_limit
from evenkeel.plan_splits.rules.planner_splits import HEAVY
from evenkeel.plan_splits.task import PERSISTENT_TYPE, TOPICS_TYPE, hashes_in, persistent_in, picks_by_topics
from evenkeel.publish.plan import GUARD_TABLE
from evenkeel.repetition import BUNDLES, OBSERVED, STATE, columns_looked_at
from evenkeel.replay.comparison import VariantComparison, planner_word
from evenkeel.replay.fold import CARRIED, CYCLES, DECISIONS, decide_part
from evenkeel.replay.history import OPEN_LOOP, TABLES_OF_REPLAYS, History, append, put_on_record, read_history
from evenkeel.replay.variants import Variant, check_limit, manager_of, notes_on, settings_of, variants_of
from evenkeel.settings import EffectiveSettings, Settings, settings_in
from evenkeel.spark.column_types import columns_of, schema_of, type_of
from evenkeel.spark.grouped import grouped_map, partition_of
from evenkeel.spark.row_order import in_content_order
from evenkeel.times import FROM_TO, utc_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


MOST_ROWS = 200_000
"""Rows of `bundle_load` in a chunk; some 300 MB in a worker."""
MOST_CYCLES = 1_500
_ACTING: Mapping[str, tuple[str, str]] = {
    "split_decisions": ("outcome", "split"),
    "unload_decisions": ("subject_kind", "topic"),
    "placement_decisions": ("outcome", "placed"),
    GUARD_TABLE: ("outcome", "held"),
}
"""Of the recorded decisions, those that act: table -> column and its value. Bundles that leave have placements."""
TOPICS, PERSISTENT = "topic_hashes", "persistent_topics"
_OF_TOPICS = {TOPICS: TOPICS_TYPE, PERSISTENT: PERSISTENT_TYPE}
Progress = Callable[[int, int], None]
Carried = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """A request. `limit`: usage (fraction) that counts as over the limit, None for the recorded one."""

    history: History
    variants: tuple[Variant, ...]
    limit: float | None = None
    most_rows: int = MOST_ROWS
    parts: int = field(default_factory=lambda: os.cpu_count() or 1)

    def chosen(self) -> dict[str, dict[str, Any]]:
        """Return each variant's settings for the settings in force of the cycles; SettingsError if one is refused."""
        known = {self.key(attempt): attempt for attempt in self.history.cycles}
        return {key: {v.name: self._chosen(v, attempt) for v in self.variants} for key, attempt in known.items()}

    @staticmethod
    def key(attempt: Attempt) -> str:
        """Return the key of a variant's settings: the recorded ones, and the load manager."""
        return f"{attempt.planned['settings_digest']} {attempt.planned['manager']}"

    def _chosen(self, variant: Variant, attempt: Attempt) -> dict[str, Any]:
        digest, manager = str(attempt.planned["settings_digest"]), attempt.planned["manager"]
        recorded = self.history.settings[digest]
        settings = settings_of(variant, recorded, manager, self.history.cluster)
        same = settings is recorded and manager_of(variant, recorded, manager) == manager
        # As they were recorded, without keys that have joined since: a plan's id covers the keys of its time.
        text = self.history.background.settings[digest] if same else settings.to_json()
        return {
            "settings": text,
            "digest": digest if same else settings.digest,
            "manager": manager_of(variant, recorded, manager),
            "is_recorded": same,
        }

    def limit_in_force(self) -> float:
        """The usage that counts as over the limit: the one asked for, else the last recorded overload threshold."""
        if self.limit is not None:
            return self.limit
        return self.last_settings().loadBalancerBrokerOverloadedThresholdPercentage / 100.0

    def last_settings(self) -> Settings:
        """Return the settings that the last recorded cycle was decided with."""
        return self.history.settings[str(self.history.cycles[-1].planned["settings_digest"])].settings


def replay(spark: SparkSession, asked: OpenLoop, progress: Progress) -> VariantComparison:
    """Run the replay, write its rows and return the comparison; `progress` gets cycles done and cycles in all."""
    from pyspark.sql import functions as F

    history = asked.history
    lake = Lake(history.lake)
    lake.ensure_tables(spark, TABLES_OF_REPLAYS)
    chosen, limit = asked.chosen(), asked.limit_in_force()
    replay_id = uuid.uuid4().hex
    words = {v.name: v.described() for v in asked.variants}
    caveats = notes_on((v.overrides for v in asked.variants), asked.last_settings().generation)
    comparison = VariantComparison(
        replay_id, history.cluster, words, limit, planner=planner_modes(chosen), caveats=caveats
    )
    parts = _parts(spark, asked.variants, asked.parts)
    writes: list[Write] = []
    done, last = 0, None
    for chunk in chunks(history.cycles, asked.most_rows):
        job = _job(spark, lake, asked, chosen, limit, chunk, parts, last)
        decided = _decided(spark, lake, asked, chosen, chunk, job, parts)
        frames = {table: decided[table].withColumn("replay_id", F.lit(replay_id)) for table in (CYCLES, DECISIONS)}
        writes += append(spark, lake, "replay", comparison, chunk[0].cycle_at, frames)
        rows = fetched({name: decided[name] for name in (CYCLES, CARRIED)})
        for row in in_content_order(columns_of(_result_types()[CYCLES], CYCLES), rows[CYCLES]):
            comparison.add(row)
        for row in rows[CARRIED].to_pylist():
            carried = json.loads(row["body"])
            parts[carried.pop("label")] |= carried
        done, last = done + len(chunk), chunk[-1].attempt_id
        progress(done, len(history.cycles))
    moments = [cycle.cycle_at for cycle in history.cycles]
    put_on_record(spark, lake, OPEN_LOOP, comparison, moments, writes)
    return comparison


def planner_modes(chosen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return variant -> evenkeelPlanner in its settings (see `OpenLoop.chosen`)."""
    modes: dict[str, set[str]] = {}
    for bodies in chosen.values():
        for name, body in bodies.items():
            modes.setdefault(name, set()).add(settings_in(body["settings"]).evenkeelPlanner)
    return {name: planner_word(variant_modes) for name, variant_modes in modes.items()}


def chunks(cycles: Sequence[Attempt], most_rows: int) -> Iterator[list[Attempt]]:
    """The cycles in order, cut so that a chunk holds no more bundles than that, but one cycle at least."""
    return chunked(cycles, lambda cycle: sum(write.rows for write in cycle.writes_of(BUNDLES)), most_rows, MOST_CYCLES)


def _parts(spark: SparkSession, variants: Sequence[Variant], most: int) -> dict[str, Carried]:
    """Return the variants in so many parts, each with a label that Spark sends to a partition of its own."""
    from pyspark.sql import functions as F

    number = max(1, min(most, len(variants)))
    labels: dict[int, int] = {}
    if number > 1:
        numbers = spark.range(64 * number).select(F.col("id").cast("int").alias("part"))
        for row in numbers.select("part", partition_of(["part"], number).alias("at")).collect():
            labels.setdefault(row["at"], row["part"])
    names = [[variant.name for variant in variants[n::number]] for n in range(number)]
    return {
        str(labels.get(n, n)): {
            "label": str(labels.get(n, n)),
            "variants": names_of,
            "with_recorded": n == 0,
            "carried": {},
            "owners": {},
        }
        for n, names_of in enumerate(names)
    }


def _job(
    spark: SparkSession,
    lake: Lake,
    asked: OpenLoop,
    chosen: Mapping[str, Any],
    limit: float,
    chunk: Sequence[Attempt],
    parts: Mapping[str, Carried],
    last: str | None,
) -> dict[str, Any]:
    """Return the workers' input for the chunk (`fold.decide_part`)."""
    states = _states(spark, lake, chunk, last)
    cycles = {
        utc_text(attempt.cycle_at): {
            "plan_id": attempt.plan_id,
            "manager": attempt.planned["manager"],
            "chosen": asked.key(attempt),
            "known": asked.history.known(attempt),
            "state": states.get(attempt.attempt_id),
            "rows": {table: sum(write.rows for write in attempt.writes_of(table)) for table in OBSERVED},
        }
        for attempt in chunk
    }
    return {"cluster": asked.history.cluster, "limit": limit, "cycles": cycles, "chosen": chosen, "parts": parts}


def _states(
    spark: SparkSession, lake: Lake, chunk: Sequence[Attempt], last: str | None
) -> dict[str, list[dict[str, Any]]]:
    """Return attempt -> the state it started from, for attempts that do not continue the previous one."""

    reads: dict[str, list[Write]] = {}
    for attempt in chunk:
        if attempt.planned["predecessor_attempt_id"] != last or last is None:
            reads[attempt.attempt_id] = [write for write in attempt.reads if write.table == STATE]
        last = attempt.attempt_id
    frame = lake.read(spark, STATE, [write for state_rows in reads.values() for write in state_rows])
    columns = columns_of(TABLES[STATE].body_type(), STATE)
    state_rows = frame.select("write_id", *columns).toArrow()
    rows = in_content_order({"write_id": type_of("string"), **columns}, state_rows)
    states: dict[str, list[dict[str, Any]]] = {}
    for attempt_id, writes in reads.items():
        ids = {write.write_id for write in writes}
        states[attempt_id] = [{name: row[name] for name in columns} for row in rows if row["write_id"] in ids]
    return states


def _decided(
    spark: SparkSession,
    lake: Lake,
    asked: OpenLoop,
    chosen: Mapping[str, Mapping[str, Any]],
    chunk: Sequence[Attempt],
    job: Mapping[str, Any],
    parts: Mapping[str, Carried],
) -> dict[str, DataFrame]:
    """Return the variants' results for the chunk, each part of them in a worker of its own."""
    from pyspark.sql import functions as F

    wishing = [attempt for attempt in chunk if attempt.planned["wishes"]]
    wishes = [(attempt, wish) for attempt in wishing for wish in asked.history.known(attempt)["wishes"]]
    about_topics = any(wish["kind"] == UNLOAD_TOPIC for _, wish in wishes)
    frames = {
        table: _rows(spark, lake, chunk, table)
        for table in (*OBSERVED, *_ACTING)
        if table != "unload_decisions" or about_topics
    }
    texts = {body["settings"] for key in {asked.key(cycle) for cycle in chunk} for body in chosen[key].values()}
    settings = [EffectiveSettings.from_json(text).settings for text in sorted(texts)]
    more = {
        TOPICS: topic_hashes(spark, lake, chunk, settings),
        PERSISTENT: persistent_topics(spark, lake, asked.history.cluster, wishes),
    }
    frames |= {name: frame for name, frame in more.items() if frame is not None}
    labels = F.explode(F.array(*(F.lit(int(label)) for label in parts))).alias("part")
    types = {name: _input_type(name) for name in frames}
    return grouped_map(
        {name: frame.select(labels, "cycle_at", *types[name].names) for name, frame in frames.items()},
        by=["part"],
        decide=decide_part,
        outputs=_result_types(),
        parameters=job,
        schemas={name: _of_part(schema) for name, schema in types.items()},
        partitions=len(parts),
    )


def _rows(spark: SparkSession, lake: Lake, cycles: Iterable[Attempt], table: str) -> DataFrame:
    """The rows that these cycles wrote to a table; of decided tables those that act."""
    from pyspark.sql import functions as F

    rows = lake.read(spark, table, [write for attempt in cycles for write in attempt.writes_of(table)])
    if table in _ACTING:
        column, value = _ACTING[table]
        rows = rows.where(F.col(column) == value)
    return rows


def _input_type(table: str) -> StructType:
    """The columns of an input that rounds read, without the moment of the cycle."""
    from pyspark.sql.types import StructType

    schema = schema_of(_OF_TOPICS[table]) if table in _OF_TOPICS else TABLES[table].struct_type()
    names = schema.names if table in _OF_TOPICS else columns_looked_at(table, schema.names)
    return StructType([field for field in schema.fields if field.name in names and field.name != "cycle_at"])


def _of_part(schema: StructType) -> StructType:
    from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

    stamp = [StructField("part", IntegerType()), StructField("cycle_at", TimestampType())]
    return StructType([*stamp, *schema.fields])


def _result_types() -> dict[str, StructType]:
    """The tables' columns as a worker fills them: which replay it is, is added afterwards."""
    from pyspark.sql.types import StringType, StructField, StructType

    filled = {
        table: StructType([field for field in TABLES[table].body_type().fields if field.name != "replay_id"])
        for table in (CYCLES, DECISIONS)
    }
    return {**filled, CARRIED: StructType([StructField("body", StringType())])}


def asked(
    lake: str,
    *,
    cluster: str | None,
    since: str | None,
    until: str | None,
    strategies: Sequence[str] = (),
    settings: Sequence[str] = (),
    variants: Sequence[str] = (),
    limit_percent: float | None = None,
    times: tuple[str, str] = FROM_TO,
    called: str = "--limit",
) -> OpenLoop:
    """Return the checked request: errors are raised before Spark has anything to do.

    `times` and `called` are the names of the range's ends and of the limit as the user gave them.
    """
    check_limit(limit_percent, called)
    chosen = variants_of(strategies, settings, variants)
    history = read_history(lake, cluster, since, until, options=times)
    request = OpenLoop(history, chosen, None if limit_percent is None else limit_percent / 100.0)
    request.chosen()
    return request


# Topics that splits read, and numbers of topics for manual requests.
#
# The topics are those of every bundle that a variant might cut, in every cycle of a chunk. The numbers are per bundle,
# if a manual request was for the largest bundle. The bundles that a variant cuts follow from its state, which only the
# fold knows. So the topics of all bundles over the lowest limit of any variant are gathered, and the fold takes those
# it has chosen. Without a variant that cuts by topics nothing is read.

_HEAVY, _NEARLY = "is_heavy", 0.999
_KEY = ["cluster", "cycle_at"]


def persistent_topics(
    spark: SparkSession, lake: Lake, cluster: str, wishes: Sequence[tuple[Attempt, Mapping[str, Any]]]
) -> DataFrame | None:
    """Return rows of `PERSISTENT_TYPE` with `cycle_at`, or None without a request for the largest or the hottest
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
    bundles = _rows(spark, lake, cycles, "bundle_load")
    return persistent_in(asked, _topics(spark, lake, cycles), bundles, _KEY)


def topic_hashes(
    spark: SparkSession, lake: Lake, chunk: Sequence[Attempt], settings: Iterable[Settings]
) -> DataFrame | None:
    """Return rows of `TOPICS_TYPE` with `cycle_at`, or None if no variant needs topics. `settings`: of all variants.

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

    bundles = _rows(spark, lake, chunk, "bundle_load")
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
    return without_rejected(lake, spark, _rows(spark, lake, cycles, "topic_stats"), "topic_stats", rejected)


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
