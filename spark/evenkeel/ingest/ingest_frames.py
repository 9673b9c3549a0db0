"""The frames that ingest appends: small rows from this process, topic-sized ones by Spark alone.

A table is one frame, whatever the number of cycles. Conditions select the rows of one cycle. Those of many are selected
by a join with a list, since a plan with a condition for each would grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evenkeel.handover import CycleKey
from evenkeel.ingest.snapshot_intake import SnapshotIntake, without_rows
from evenkeel.lake.schemas import TABLES
from evenkeel.pulsar.answers import HTML_PAGE, UNREADABLE_JSON
from evenkeel.pulsar.topic_stats import (
    SIGHTINGS_TYPE,
    UNREADABLE_TOPIC,
    listed_topics,
    loaded_topics,
    sightings,
    sightings_of,
    topic_stats,
)
from evenkeel.settings import EffectiveSettings
from evenkeel.sources.landed_answers import LongAnswers
from evenkeel.sources.snapshot_requests import SnapshotRequest
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.session import keep
from evenkeel.spark.sql import is_one_of, iso, moment, united
from evenkeel.times import moment_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SHOWN = ("cluster", "cycle_at", "n", "broker", "path", "topic", "refused")
_REFUSED = (*_SHOWN, "snapshot", "rest")
_ONE_FILE_CHARACTERS = 32 << 20
_PART_CHARACTERS = 16 << 20
_FEW_CHARACTERS = 4 << 20
"""Most characters of answers and lists, a few thousand topics, that this process parses instead of two Spark jobs."""
# The least that a topic takes in an answer, as in `[1,2]`.
_TOPIC_CHARACTERS = 2
_REASONS = {
    HTML_PAGE: "it is an HTML page in place of JSON",
    UNREADABLE_JSON: "it is not JSON of the shape due, or ends too early",
    UNREADABLE_TOPIC: "this topic's name or object cannot be read; the others of the answer are kept",
}
_WAITING = ("broker_reports",)
RAW = "raw_answers"

Row = Mapping[str, Any]
Positions = Mapping[CycleKey, tuple[int, Sequence[int]]]
"""Cycle -> number of a snapshot, and positions of answers in it."""


def body_frame(spark: SparkSession, table: str, rows: Sequence[Row]) -> DataFrame:
    """Return rows of a table as a frame of one partition, hence one file; a column that a row lacks is NULL."""
    return _sent(spark, table, rows).coalesce(1)


def _sent(spark: SparkSession, table: str, rows: Sequence[Row]) -> DataFrame:
    schema = TABLES[table].body_type()
    names = schema.fieldNames()
    return spark.createDataFrame([tuple(_plain(row.get(name)) for name in names) for row in rows], schema)


class SmallRows:
    """Rows of the small `tables`, taken from intakes and sent to the Spark server piece by piece."""

    def __init__(self, spark: SparkSession, tables: Sequence[str]) -> None:
        self._spark, self._tables = spark, tables
        self._pieces: dict[str, list[DataFrame]] = {}

    def send(self, intakes: Sequence[SnapshotIntake]) -> None:
        """Send the rows of these intakes, so that this process can release them. Rows of brokers wait for the end."""
        for table in self._tables:
            if table not in _WAITING:
                self._send(table, rows_of(intakes, table))
        self._send("rejected", rejected_rows(intakes))
        for intake in intakes:
            without_rows(intake)

    def frames(self, intakes: Sequence[SnapshotIntake], always: Sequence[str]) -> dict[str, DataFrame]:
        """Return all rows, also of the intakes that were not sent, as a frame for each table with rows or in
        `always`."""
        unsent = {table: rows_of(intakes, table) for table in self._tables}
        unsent["rejected"] = rejected_rows(intakes)
        frames = {}
        for table, rows in unsent.items():
            pieces = self._pieces.get(table, [])
            if rows or (table in always and not pieces):
                pieces = [*pieces, _sent(self._spark, table, rows)]
            if pieces:
                frames[table] = united(pieces).coalesce(_files(intakes) if table == RAW else 1)
        return frames

    def _send(self, table: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._pieces.setdefault(table, []).append(_sent(self._spark, table, rows))


def _files(intakes: Iterable[SnapshotIntake]) -> int:
    """Return the number of files to which the small answers of cycles are written."""
    return 1 + sum(intake.texts for intake in intakes) // _ONE_FILE_CHARACTERS


def rows_of(intakes: Iterable[SnapshotIntake], table: str) -> list[dict[str, Any]]:
    """Return the rows of a small table in the intakes."""
    if table == RAW:
        return [_raw_row(intake, request) for intake in intakes for request in intake.requests if not request.is_left]
    return [
        _stamp(intake) | row
        for intake in intakes
        if intake.observed is not None and not (intake.is_sent and table not in _WAITING)
        for row in intake.observed.rows[table]
    ]


def rejected_rows(intakes: Iterable[SnapshotIntake]) -> list[dict[str, Any]]:
    """Return rows of rejected: the intakes' rejected records, each once."""
    return [
        _stamp(intake) | {"file": file} | asdict(rejection)
        for intake in intakes
        for file, rejection in dict.fromkeys(intake.rejections)
    ]


def settings_frame(spark: SparkSession, intakes: Iterable[SnapshotIntake]) -> DataFrame:
    """Return rows of settings: a cycle has one per key, and many cycles have equal ones, which are sent once."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    resolved = [(intake, intake.settings) for intake in intakes if intake.settings is not None]
    distinct = list({id(settings): settings for _, settings in resolved}.values())
    if len(distinct) == len(resolved):
        return body_frame(spark, "settings", [_stamp(i) | row for i, settings in resolved for row in _keys(settings)])
    numbers = {id(settings): number for number, settings in enumerate(distinct)}
    of_cycle = {"cluster", "cycle_at"}
    own_fields = StructType([field for field in TABLES["settings"].body_type().fields if field.name not in of_cycle])
    rows = [
        (number, *(_plain(row.get(name)) for name in own_fields.names))
        for number, settings in enumerate(distinct)
        for row in _keys(settings)
    ]
    values = spark.createDataFrame(rows, StructType([StructField("number", IntegerType()), *own_fields.fields]))
    cycles = _cycles(spark, [(numbers[id(settings)], *intake.key) for intake, settings in resolved], "number int")
    return values.join(cycles, "number").drop("number").coalesce(1)


def _keys(settings: EffectiveSettings) -> list[dict[str, Any]]:
    return [{"settings_digest": settings.digest} | row for row in settings.rows()]


def _stamp(intake: SnapshotIntake) -> dict[str, Any]:
    return {"cluster": intake.cluster, "cycle_at": intake.cycle.at}


def _plain(value: Any) -> Any:
    """Return text that UTF-8 can hold: half a surrogate pair, which JSON can hold, becomes a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value


def answers_at(requests: DataFrame, wanted: Positions) -> DataFrame:
    """Return the answers, or topics in them, at these positions, with cluster and `cycle_at`."""
    from pyspark.sql import functions as F

    if len(wanted) == 1:
        ((key, (number, positions)),) = wanted.items()
        literals = F.lit(key[0]).alias("cluster"), moment(key[1]).alias("cycle_at")
        return requests.where(_stands_at(number, positions)).select(*literals, "*")
    named = [(number, n, *key) for key, (number, positions) in wanted.items() for n in sorted(set(positions))]
    return requests.join(_cycles(requests.sparkSession, named, "snapshot int, n int"), ["snapshot", "n"])


def _read_once(long: LongAnswers, wanted: Positions, characters: int) -> DataFrame:
    """Return the answers at these positions, each once, for any number of cycles.

    `characters` is the longest snapshot's text. Only one core can read the lines of a file, so a large one is
    repartitioned over all of them.
    """
    from pyspark.sql import functions as F

    places = {(number, n) for number, positions in wanted.values() for n in positions}
    numbers = sorted({number for number, _ in places})
    requests = long.of(numbers)
    if len(numbers) == 1:
        answers = requests.where(_stands_at(numbers[0], sorted(n for _, n in places)))
    else:
        wanted_places = long.spark.createDataFrame(sorted(places), "snapshot int, n int")
        answers = requests.join(F.broadcast(wanted_places), ["snapshot", "n"], "left_semi")
    return answers.repartition(1 + characters // _PART_CHARACTERS) if characters >= _ONE_FILE_CHARACTERS else answers


def _cycles(spark: SparkSession, named: Sequence[tuple[Any, ...]], key: str) -> DataFrame:
    """Return a small frame that names cycles by `key`."""
    from pyspark.sql import functions as F

    cycles = spark.createDataFrame(named, f"{key}, cluster string, at string")
    return F.broadcast(cycles.withColumn("cycle_at", F.to_timestamp("at")).drop("at"))


def _stands_at(number: int, positions: Sequence[int]) -> Column:
    from pyspark.sql import functions as F

    if not positions:
        return F.lit(False)
    return (F.col("snapshot") == number) & F.col("n").isin(list(positions))


@dataclass(frozen=True, slots=True)
class TopicFrames:
    """Rows of topic_stats; rejected topics and answers, if any; the answers rejected as a whole."""

    topic_stats: DataFrame
    refused: DataFrame | None
    unreadable: Mapping[CycleKey, tuple[tuple[int, str], ...]]
    """n and broker of each."""
    too_many: Mapping[CycleKey, int]
    """Cycles that name more topics than they may, and how many; the frames hold nothing of theirs."""


def topic_frames(long: LongAnswers, intakes: Sequence[SnapshotIntake]) -> TopicFrames:
    """Return the topics of cycles, by their figures and the lists of them. `intakes`: those with rows.

    Figures are needed three times: for the table, for the rejected ones, and to find topics that are shown twice or
    nowhere. They are read once and stay with the server until the frame is gone. The names of a large snapshot are
    cached once more, without the figures and texts that are most of it, and so are lists of topics; reading short ones
    again costs less.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    seen = [(intake, intake.observed) for intake in intakes if intake.observed is not None]
    figures = {
        intake.key: (_number(long, intake, lent=False), seen_intake.topic_figures) for intake, seen_intake in seen
    }
    lists = {
        intake.key: (_number(long, intake, lent=seen_intake.lists_are_lent), seen_intake.topic_lists)
        for intake, seen_intake in seen
    }
    longest = max((seen_intake.topic_characters for _, seen_intake in seen), default=0)
    read = keep(loaded_topics(_read_once(long, figures, longest)), StorageLevel.DISK_ONLY)
    loaded = answers_at(read, figures)
    listed = None
    if any(positions for _, positions in lists.values()):
        longest = max(seen_intake.listed_characters for _, seen_intake in seen)
        listed = answers_at(listed_topics(_read_once(long, lists, longest)), lists)
    characters = sum(seen_intake.topic_characters for _, seen_intake in seen)
    shown = loaded.select(*_SHOWN)
    if characters >= _ONE_FILE_CHARACTERS:
        shown = keep(shown, StorageLevel.DISK_ONLY)
    if listed is not None and sum(seen_intake.listed_characters for _, seen_intake in seen) >= _ONE_FILE_CHARACTERS:
        listed = keep(listed, StorageLevel.DISK_ONLY)
    too_many = _too_many(shown, listed, intakes)
    if too_many:
        loaded, shown = (frame.where(~is_one_of(too_many)) for frame in (loaded, shown))
        listed = listed.where(~is_one_of(too_many)) if listed is not None else None
    of = ("cluster",) if len({key[0] for key in figures}) == len(figures) else ("cluster", "cycle_at")
    refused = _refused(loaded, listed, _REFUSED)
    where = ("cluster", iso("cycle_at").alias("at"), "n", "broker", F.col("topic").isNull().alias("as_a_whole"))
    is_figures = F.col("path").rlike("/broker-stats/topics").alias("is_figures")
    if of == ("cluster",) and are_few(intakes):
        rows = _all_of(shown, listed).select(*where, is_figures, "topic", "refused", "is_listed").collect()
        odd = shown.sparkSession.createDataFrame(sightings_of(row.asDict() for row in rows), schema_of(SIGHTINGS_TYPE))
        marks = [row for row in rows if row["refused"] is not None]
    else:
        odd = keep(sightings(shown, listed, of))
        marks = _refused(shown, listed, _SHOWN).select(*where, is_figures).distinct().collect()
    unreadable: dict[CycleKey, list[tuple[int, str]]] = {}
    for row in marks:
        if row["as_a_whole"] and row["is_figures"]:
            unreadable.setdefault((row["cluster"], row["at"]), []).append((row["n"], row["broker"]))
    topics = topic_stats(loaded, listed, odd, of)
    if characters < _ONE_FILE_CHARACTERS or len(seen) > 1:
        topics = topics.coalesce(1 + characters // _ONE_FILE_CHARACTERS)
    unreadable_by_cycle = {key: tuple(sorted(set(seen_intake))) for key, seen_intake in unreadable.items()}
    return TopicFrames(topics, refused if marks else None, unreadable_by_cycle, too_many)


def are_few(intakes: Iterable[SnapshotIntake]) -> bool:
    """Return True if the topics of the cycles are some thousands at most."""
    seen = [intake.observed for intake in intakes if intake.observed is not None]
    return sum(seen_intake.topic_characters + seen_intake.listed_characters for seen_intake in seen) < _FEW_CHARACTERS


def _all_of(shown: DataFrame, listed: DataFrame | None) -> DataFrame:
    """Return the rows of both, with `is_listed` as their origin."""
    from pyspark.sql import functions as F

    rows = shown.select(*_SHOWN, F.lit(False).alias("is_listed"))
    return rows if listed is None else rows.unionByName(listed.select(*_SHOWN, F.lit(True).alias("is_listed")))


def _refused(loaded: DataFrame, listed: DataFrame | None, columns: Sequence[str]) -> DataFrame:
    refused = loaded.where("refused is not null").select(*columns)
    return refused if listed is None else refused.unionByName(listed.where("refused is not null").select(*columns))


def _too_many(loaded: DataFrame, listed: DataFrame | None, intakes: Sequence[SnapshotIntake]) -> dict[CycleKey, int]:
    """Return the cycles with more topics than they may have, in figures or in lists.

    They are counted only if their text has room for so many.
    """
    from pyspark.sql import functions as F

    most = {
        intake.key: intake.limits.topics
        for intake in intakes
        if intake.observed is not None
        and max(intake.observed.topic_characters, intake.observed.listed_characters)
        > _TOPIC_CHARACTERS * intake.limits.topics
    }
    if not most:
        return {}
    topics = loaded.select("cluster", "cycle_at", F.lit(True).alias("is_loaded"))
    if listed is not None:
        topics = topics.unionByName(listed.select("cluster", "cycle_at", F.lit(False).alias("is_loaded")))
    by = ("cluster", iso("cycle_at").alias("at"), "is_loaded")
    counts = topics.where(is_one_of(most)).groupBy(*by).count().collect()
    counted = sorted(((row["cluster"], row["at"]), row["count"]) for row in counts)
    return {key: count for key, count in counted if count > most[key]}


def refused_topics(refused: DataFrame, long: LongAnswers) -> DataFrame:
    """Return rows of rejected."""
    from pyspark.sql import functions as F

    unknown = F.lit(None).cast("string")
    named = long.spark.createDataFrame(
        [(number, str(path)) for number, path in long.files.items()], "snapshot int, file string"
    )
    reason = unknown
    for rule, words in _REASONS.items():
        reason = F.when(F.col("refused") == rule, F.lit(words)).otherwise(reason)
    place = F.concat_ws(" ", "broker", "path", "topic")
    return refused.join(F.broadcast(named), "snapshot", "left").select(
        "cluster",
        "cycle_at",
        F.lit("topic_stats").alias("rejected_from"),
        "file",
        place.alias("place"),
        F.col("refused").alias("rule"),
        F.concat(place, F.lit(": "), reason, F.lit("; unknown in this cycle")).alias("reason"),
        F.substring("rest", 1, 2000).alias("record"),
        F.lit(None).cast("string").alias("record_key"),
    )


def _number(long: LongAnswers, intake: SnapshotIntake, *, lent: bool) -> int:
    landed = intake.lent if lent and intake.lent is not None else intake.own
    assert landed is not None
    return long.number(landed.path)


def raw_answers(
    long: LongAnswers,
    small: DataFrame | None,
    intakes: Sequence[SnapshotIntake],
    unreadable: Mapping[CycleKey, Sequence[tuple[int, str]]],
) -> DataFrame:
    """Return rows of raw_answers: `small`, whose texts this process has read, and those that it has not read whole.

    Only figures that went into topic_stats leave their text out; unreadable or superseded ones keep it.
    """
    from pyspark.sql import functions as F

    left: dict[CycleKey, tuple[int, tuple[int, ...]]] = {}
    rows: list[dict[str, Any]] = []
    for intake in intakes:
        if intake.observed is None:
            continue
        refused = {n for n, _ in unreadable.get(intake.key, ())}
        lost = tuple(request.n for request in intake.figures if request.n in refused)
        if intake.left or lost:
            left[intake.key] = _number(long, intake, lent=False), (*intake.left, *lost)
        rows += [{**_raw_row(intake, request), "body": None} for request in intake.figures if request.n not in refused]
    frames = [_sent(long.spark, RAW, rows), *([small] if small is not None else [])]
    if left:
        answers = answers_at(long.of(number for number, _ in left.values()), left)
        names = TABLES[RAW].body_type().fieldNames()
        frames.append(answers.withColumn("at", F.try_to_timestamp("at")).select(*names))
    return united(frames).coalesce(_files(intakes))


def _raw_row(intake: SnapshotIntake, request: SnapshotRequest) -> dict[str, Any]:
    return _stamp(intake) | {
        "n": request.n,
        "broker": request.broker,
        "method": request.method,
        "path": request.path,
        "status": request.status,
        "at": moment_in(request.at),
        "elapsed_ms": request.elapsed_ms,
        "location": request.location,
        "body": request.body if request.unread is None else request.unread,
    }
