"""The frames that ingest appends: small rows from this process, topic-sized ones by Spark alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenkeel.lake.schemas import TABLES
from evenkeel.pulsar.answers import HTML_PAGE, UNREADABLE_JSON
from evenkeel.pulsar.observed_rows import Observed
from evenkeel.pulsar.topic_stats import UNREADABLE_TOPIC, listed_topics, loaded_topics, sightings, topic_stats
from evenkeel.sources.landed import LENT, OWN
from evenkeel.spark.session import keep
from evenkeel.spark.sql import any_of, first_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_REFUSED = ("cluster", "cycle_at", "n", "broker", "path", "topic", "refused", "rest")
_ONE_FILE_CHARACTERS = 32 << 20
_REASONS = {
    HTML_PAGE: "it is an HTML page in place of JSON",
    UNREADABLE_JSON: "it is no JSON of the shape due, or ends too early",
    UNREADABLE_TOPIC: "this topic's name or object cannot be read; the others of the answer are kept",
}


def body_frame(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of a table as a frame of one partition, hence one file; a column that a row lacks is NULL."""
    schema = TABLES[table].body_type()
    names = schema.fieldNames()
    return spark.createDataFrame([tuple(_plain(row.get(name)) for name in names) for row in rows], schema).coalesce(1)


@dataclass(frozen=True, slots=True)
class TopicFrames:
    """Rows of topic_stats; topics and answers that are refused, if any; the answers refused as a whole."""

    topic_stats: DataFrame
    refused: DataFrame | None
    unreadable: tuple[tuple[str, int, str], ...]
    """cluster, n and broker of each."""


def topic_frames(requests: DataFrame, apart: DataFrame, observed: Mapping[str, Observed]) -> TopicFrames:
    """Reads the topics once; they stay with the server until the frames are gone.

    They are needed three times: for the table, for what is refused, and to see which topic shows twice or nowhere.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    figures = [(cluster, OWN, found.topic_figures) for cluster, found in observed.items()]
    lists = [(c, LENT if found.lists_are_lent else OWN, found.topic_lists) for c, found in observed.items()]
    loaded = keep(loaded_topics(requests.where(_is_one_of(figures))), StorageLevel.DISK_ONLY)
    listed = listed_topics(apart.where(_is_one_of(lists))) if any(found for _, _, found in lists) else None
    odd = keep(sightings(loaded, listed))
    refused = loaded.where("refused is not null").select(*_REFUSED, F.lit(OWN).alias("source"))
    if listed is not None:
        lent = [cluster for cluster, found in observed.items() if found.lists_are_lent]
        source = F.when(F.col("cluster").isin(lent), F.lit(LENT)).otherwise(F.lit(OWN))
        refused = refused.unionByName(listed.where("refused is not null").select(*_REFUSED, source.alias("source")))
    where = ("cluster", "n", "broker", "source", "is_figures", F.col("topic").isNull().alias("as_a_whole"))
    is_figures = F.col("path").rlike("/broker-stats/topics").alias("is_figures")
    marks = refused.select("*", is_figures).select(*where).distinct().collect()
    unreadable = tuple(sorted((row[0], row[1], row[2]) for row in marks if row["as_a_whole"] and row["is_figures"]))
    topics = topic_stats(loaded, listed, odd)
    if sum(found.topic_characters for found in observed.values()) < _ONE_FILE_CHARACTERS:
        topics = topics.coalesce(1)
    return TopicFrames(topics, refused if marks else None, unreadable)


def refused_topics(refused: DataFrame, files: Mapping[tuple[str, str], str]) -> DataFrame:
    """Rows of rejected: `files` names the file by cluster and source."""
    from pyspark.sql import functions as F

    unknown = F.lit(None).cast("string")
    cases = [
        ((F.col("cluster") == cluster) & (F.col("source") == source), path) for (cluster, source), path in files.items()
    ]
    file = first_of(cases, unknown)
    reason = first_of(((F.col("refused") == rule, words) for rule, words in _REASONS.items()), unknown)
    place = F.concat_ws(" ", "broker", "path", "topic")
    return refused.select(
        "cluster",
        "cycle_at",
        F.lit("topic_stats").alias("rejected_from"),
        file.alias("file"),
        place.alias("place"),
        F.col("refused").alias("rule"),
        F.concat(place, F.lit(": "), reason, F.lit("; unknown in this cycle")).alias("reason"),
        F.substring("rest", 1, 2000).alias("record"),
        F.lit(None).cast("string").alias("record_key"),
    )


def raw_answers(
    requests: DataFrame,
    apart: DataFrame,
    observed: Mapping[str, Observed],
    unreadable: Iterable[tuple[str, int, str]],
) -> DataFrame:
    """Rows of raw_answers: every request of the snapshots.

    Only figures that went into topic_stats leave their text out; those that cannot be read, or that another answer
    supersedes, keep it.
    """
    from pyspark.sql import functions as F

    refused = {(cluster, n) for cluster, n, _ in unreadable}
    kept: list[tuple[str, str, list[int]]] = []
    read: list[tuple[str, str, list[int]]] = []
    for cluster, found in observed.items():
        lost = [n for n in found.topic_figures if (cluster, n) in refused]
        kept.append((cluster, OWN, [*lost, *found.superseded_figures]))
        read.append((cluster, OWN, [n for n in found.topic_figures if n not in lost]))
    rows = apart.where((F.col("source") == OWN) & ~_is_one_of(kept)).drop("size")
    rows = rows.withColumn("body", F.when(~_is_one_of(read), F.coalesce("body", "unread")))
    if any(positions for _, _, positions in kept):
        rows = rows.unionByName(requests.where(_is_one_of(kept)))
    return rows.select(
        *("cluster", "cycle_at", "n", "broker", "method", "path", "status"),
        F.try_to_timestamp("at").alias("at"),
        *("elapsed_ms", "location", "body"),
    )


def _is_one_of(wanted: Iterable[tuple[str, str, Sequence[int]]]) -> Column:
    from pyspark.sql import functions as F

    return any_of(
        (F.col("cluster") == cluster) & (F.col("source") == source) & F.col("n").isin(list(positions))
        for cluster, source, positions in wanted
        if positions
    )


def _plain(value: Any) -> Any:
    """Text that UTF-8 can hold: half a surrogate pair, which JSON can, becomes a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value
