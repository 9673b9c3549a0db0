"""The broker- and bundle-sized answers of a run, collected: what `evenkeel.pulsar` reads as rows.

Topic-sized bodies stay where they are; of them only the first 2,000 characters come along.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from evenkeel.engine.keeping import keep
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.reading import RECORD_CHARACTERS
from evenkeel.sources.landed import utc_or_none

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FIGURES_PATH = r"/broker-stats/topics/?(\?.*)?$"
_NOT_NEEDED_WHOLE = rf"{_FIGURES_PATH}|^/admin/v2/(persistent|non-persistent)/|^/metrics"


def holds_topic_figures() -> Column:
    """Whether a request asks for the figures of all topics loaded on a broker."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col("path").rlike(_FIGURES_PATH), F.lit(False))


def set_apart(requests: DataFrame) -> DataFrame:
    """The requests with the figures of topics cut to 2,000 characters, and the `size` of every body.

    They are read from the snapshot here and stay with the server: with a million topics each reading costs seconds.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    body = F.when(holds_topic_figures(), F.substring("body", 1, RECORD_CHARACTERS)).otherwise(F.col("body"))
    sized = requests.withColumn("size", F.length("body")).withColumn("body", body)
    return keep(sized, StorageLevel.DISK_ONLY)


def collect_answers(apart: DataFrame) -> tuple[dict[tuple[str, str], Answers], dict[str, list[Any]]]:
    """(cluster, source) → answers, and per cluster the rows whose request cannot be read (`unread`, n, source)."""
    from pyspark.sql import functions as F

    is_large = F.col("path").rlike(_NOT_NEEDED_WHOLE)
    body = F.when(is_large, F.substring("body", 1, RECORD_CHARACTERS)).otherwise(F.col("body"))
    columns = ("cluster", "source", "n", "broker", "method", "path", "status", "at", "location", "size")
    unread_text = F.substring("unread", 1, RECORD_CHARACTERS)
    rows = apart.select(*columns, body.alias("body"), unread_text.alias("unread"))
    answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    unread: dict[str, list[Any]] = defaultdict(list)
    for row in rows.collect():
        if row["unread"] is not None:
            unread[row["cluster"]].append(row)
        else:
            answers[row["cluster"], row["source"]].append(_answer(row))
    return {key: Answers(found) for key, found in answers.items()}, dict(unread)


def _answer(row: Any) -> Answer:
    return Answer(
        n=row["n"],
        broker=row["broker"] or "",
        path=row["path"],
        status=row["status"],
        body=row["body"],
        at=utc_or_none(row["at"]),
        location=row["location"],
        method=row["method"],
        size=row["size"] or 0,
    )
