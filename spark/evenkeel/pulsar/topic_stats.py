"""`/broker-stats/topics` and topic lists as Spark rows: one per topic and broker that shows it.

The answer nests namespace, range, domain and topic; the last level is the topic's own object. All of it is Spark SQL:
there may be millions of topics. The object's text is kept whole; the JSON reader rewrites it with the same members and
values, without the blanks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenkeel.pulsar.answers import HTML_PAGE, RECORD_CHARACTERS, UNREADABLE_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pyspark.sql import Column, DataFrame

LOADED = "loaded"
LISTED = "listed"
UNREADABLE_TOPIC = "unreadable_topic"

_ANSWER_TYPE = "map<string, map<string, map<string, map<string, string>>>>"
_UNREAD = "_unread"
# Only the existence of a consumer is needed.
_SUBSCRIPTIONS = "map<string, struct<msgBacklog: bigint, consumers: array<struct<consumerName: string>>>>"
_FIGURES = {
    "msg_rate_in": ("msgRateIn", "double"),
    "msg_rate_out": ("msgRateOut", "double"),
    "msg_throughput_in": ("msgThroughputIn", "double"),
    "msg_throughput_out": ("msgThroughputOut", "double"),
    "producers": ("producerCount", "bigint"),
    "storage_size": ("storageSize", "bigint"),
    "backlog_size": ("backlogSize", "bigint"),
}
_SUMS = {"consumers": "bigint", "subscriptions": "bigint", "msg_backlog": "bigint"}
_TOPIC_TYPE = ", ".join(
    [
        *(f"{member} {kind}" for member, kind in _FIGURES.values()),
        f"subscriptions {_SUBSCRIPTIONS}",
        f"{_UNREAD} string",
    ]
)
_TOPIC_NAME = r"^(persistent|non-persistent)://([^/]+/[^/]+(?:/[^/]+)?)/[^/]+$"
# Of Pulsar 5's scalable topics, whose local names may have slashes.
_SCALABLE_NAME = r"^(topic|segment)://([^/]+/[^/]+)/.+$"


_PLACE = ("snapshot", "n", "broker", "path")


def loaded_topics(answers: DataFrame) -> DataFrame:
    """Return topics with their figures, and unreadable ones, from answers (snapshot, n, broker, path, body).

    Columns: those of the answers without `body`; topic, namespace, domain, bundle_range, the figures and `rest`; and
    `refused`, the rule that rejects the row. In a rejected row `rest` is the record; without a topic it is the whole
    unreadable answer. A missing figure is NULL; NaN and negative ones are kept.
    """
    keys = [*_PLACE]
    read = answers.select(*keys, "body", F.from_json("body", _ANSWER_TYPE).alias("namespaces"))
    refused_body = F.when(
        F.col("namespaces").isNull(), F.substring(F.coalesce("body", F.lit("")), 1, RECORD_CHARACTERS)
    )
    level = read.select(
        *keys, refused_body.alias("refused_body"), F.explode_outer("namespaces").alias("namespace", "ranges")
    )
    keys = [*keys, "refused_body", "namespace"]
    level = level.select(*keys, F.explode_outer("ranges").alias("bundle_range", "domains"))
    keys = [*keys, "bundle_range"]
    level = level.select(*keys, F.explode_outer("domains").alias("domain", "topics"))
    keys = [*keys, "domain"]
    topics = level.select(*keys, F.explode_outer("topics").alias("topic", "rest"))
    topics = topics.where(F.col("topic").isNotNull() | F.col("refused_body").isNotNull())
    figures = F.from_json("rest", _TOPIC_TYPE, {"columnNameOfCorruptRecord": _UNREAD}).alias("figures")
    return _topic_rows(topics.select("*", figures))


def listed_topics(answers: DataFrame) -> DataFrame:
    """Return topics of lists (snapshot, n, broker, path, body): the columns without body, topic, namespace, domain,
    `refused` and `rest`.

    A list may be lent to many cycles, so it is read before it is joined with them. As in `loaded_topics`, `refused`
    rows hold in `rest` what cannot be read: a whole list, or a name in it.
    """
    keys = _PLACE
    read = answers.select(*keys, "body", F.from_json("body", "array<string>").alias("topics"))
    refused_body = F.when(F.col("topics").isNull(), F.substring(F.coalesce("body", F.lit("")), 1, RECORD_CHARACTERS))
    names = read.select(*keys, refused_body.alias("refused_body"), F.explode_outer("topics").alias("topic"))
    # An empty list gives one row without a topic, and so does a null in a list.
    names = names.where(F.col("topic").isNotNull() | F.col("refused_body").isNotNull())
    is_scalable = F.col("topic").rlike(_SCALABLE_NAME)
    is_name = is_scalable | F.col("topic").rlike(_TOPIC_NAME)

    def part(number: int) -> Column:
        usual, scalable = (F.regexp_extract("topic", name, number) for name in (_TOPIC_NAME, _SCALABLE_NAME))
        return F.when(is_scalable, scalable).otherwise(usual)

    refused = F.when(F.col("refused_body").isNotNull(), _rule_of("refused_body")).when(
        ~is_name, F.lit(UNREADABLE_TOPIC)
    )
    return names.select(
        *keys,
        "topic",
        part(2).alias("namespace"),
        part(1).alias("domain"),
        refused.alias("refused"),
        F.coalesce("refused_body", "topic").alias("rest"),
    )


def sightings(loaded: DataFrame, listed: DataFrame | None, of: Sequence[str] = ("cluster",)) -> DataFrame:
    """Return topics that are not simply loaded on one broker.

    Columns: topic, `brokers` that show it (0: only listed), and the columns that tell the cycles apart (`of`).
    """
    by = [*of, "topic"]
    seen = loaded.where("refused is null").select(*by, F.lit(1).alias("shown"))
    if listed is not None:
        seen = seen.unionByName(listed.where("refused is null").select(*by, F.lit(0).alias("shown")))
    odd = seen.groupBy(*by).agg(F.sum("shown").alias("shown")).where("shown <> 1")
    # Counted by broker only if it shows more than once: that is rare, and a broker may name a topic twice.
    doubled = loaded.where("refused is null").join(F.broadcast(odd.where("shown > 1")), by, "left_semi")
    counted = doubled.groupBy(*by).agg(F.count_distinct("broker").cast("int").alias("brokers"))
    return odd.where("shown = 0").select(*by, F.lit(0).alias("brokers")).unionByName(counted)


SIGHTINGS_TYPE = "cluster string, topic string, brokers int"
"""Type of the entries of `sightings_of`."""


def sightings_of(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Return `sightings` of one cycle of each cluster, from rows with cluster, topic, broker, refused and
    `is_listed`."""
    brokers: dict[tuple[str, str], list[str | None]] = {}
    for row in rows:
        if row["refused"] is None and row["topic"] is not None:
            shown = brokers.setdefault((row["cluster"], row["topic"]), [])
            shown += [] if row["is_listed"] else [row["broker"]]
    return [(*key, len({*shown} - {None})) for key, shown in brokers.items() if len(shown) != 1]


def topic_stats(
    loaded: DataFrame, listed: DataFrame | None, odd: DataFrame, of: Sequence[str] = ("cluster",)
) -> DataFrame:
    """Return rows of `topic_stats` from loaded and listed topics and their sightings (`odd`, few rows)."""
    by = [*of, "topic"]
    shown = loaded.where("refused is null").join(F.broadcast(odd.where("brokers > 0")), by, "left")
    rows = shown.select(*_columns(F.lit(LOADED), F.col("broker"), F.coalesce("brokers", F.lit(1)), loaded.columns))
    if listed is None:
        return rows
    unseen = odd.where("brokers = 0").select(*by)
    only = listed.where("refused is null").join(unseen, by, "left_semi")
    only = only.dropDuplicates(by).drop("broker", "rest")
    return rows.unionByName(only.select(*_columns(F.lit(LISTED), F.lit(None).cast("string"), F.lit(0), only.columns)))


def _topic_rows(topics: DataFrame) -> DataFrame:
    whole = F.col("refused_body").isNotNull()
    leaf = F.col("rest").isNull() | F.col(f"figures.{_UNREAD}").isNotNull()
    refused = F.when(whole, _rule_of("refused_body")).when(leaf, F.lit(UNREADABLE_TOPIC))
    columns = [F.col(f"figures.{member}").alias(column) for column, (member, _) in _FIGURES.items()]
    subscriptions = F.map_values("figures.subscriptions")
    return topics.select(
        *(*_PLACE, "topic", "namespace", "domain", "bundle_range"),
        *columns,
        _sum(subscriptions, lambda subscription: F.size(subscription["consumers"])).alias("consumers"),
        F.size(subscriptions).cast("bigint").alias("subscriptions"),
        _sum(subscriptions, lambda subscription: subscription["msgBacklog"]).alias("msg_backlog"),
        refused.alias("refused"),
        F.coalesce("refused_body", "rest").alias("rest"),
    )


def _sum(items: Column, figure) -> Column:  # type: ignore[no-untyped-def]
    """Return the sum over an array; NULL if the array or one of its figures is NULL."""
    return F.aggregate(items, F.lit(0).cast("bigint"), lambda total, item: total + figure(item))


def _rule_of(text: str) -> Column:
    return F.when(F.ltrim(text).startswith("<"), F.lit(HTML_PAGE)).otherwise(F.lit(UNREADABLE_JSON))


def _columns(observation: Column, broker: Column, seen_on: Column, known: list[str]) -> list[Column]:
    def column(name: str, kind: str) -> Column:
        return (F.col(name) if name in known else F.lit(None).cast(kind)).alias(name)

    return [
        *(F.col(name) for name in ("cluster", "cycle_at", "topic", "namespace", "domain")),
        F.crc32(F.col("topic").cast("binary")).alias("hash"),
        observation.alias("observation"),
        broker.alias("broker"),
        seen_on.cast("int").alias("seen_on"),
        column("bundle_range", "string"),
        *(column(name, kind) for name, (_, kind) in _FIGURES.items()),
        *(column(name, kind) for name, kind in _SUMS.items()),
        column("rest", "string"),
    ]
