"""Landed snapshots as rows of Spark: one row per request, whatever the layout."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle
from evenkeel.pulsar.answers import RECORD_CHARACTERS, Answer, Answers
from evenkeel.sources.recordings import Header, open_bytes, parts_of, read_header
from evenkeel.spark.session import keep
from evenkeel.spark.sql import united

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


OWN = "own"
LENT = "lent"
"""Whose request it is: the snapshot's own, or of the earlier snapshot that lends configuration and topic lists."""

_MEMBERS = ("n", "broker", "method", "path", "status", "at", "elapsed_ms", "location", "body")
_UNREAD = "_unread"
_REQUEST_TYPE = ", ".join(f"{name} string" for name in (*_MEMBERS, _UNREAD))
_OPTIONS = {"columnNameOfCorruptRecord": _UNREAD}
_CHUNK = 1 << 20
_GLOB_SIGNS = re.compile(r"([\\\[\]{}*?])")


@dataclass(frozen=True, slots=True)
class Landed:
    """A snapshot that can be read: its header, and parts of it that break off (their complete lines are read)."""

    path: Path
    header: Header
    broken_parts: tuple[tuple[Path, str], ...] = ()


def open_landed(path: str) -> Landed:
    """Looks at a landed snapshot before Spark does; `BadInput` if nothing of it can be read."""
    place = Path(path)
    if not place.exists():
        raise BadInput(f"there is no snapshot at {path}")
    header = read_header(place)
    broken = []
    for part in parts_of(place) if place.is_dir() else []:
        reason = _broken(part)
        if reason is not None:
            broken.append((part, reason))
    return Landed(place, header, tuple(broken))


def requests_of_cycles(spark: SparkSession, cycles: Iterable[tuple[ClusterCycle, Landed, Landed | None]]) -> DataFrame:
    """Rows of all requests: cluster, cycle_at, source (own or lent), the request's members, `unread`.

    `at` is text as it came, `status` 0 where it is missing. A line that cannot be read stands in `unread`, with
    nothing else known of it. `n` is the position in the snapshot, or a stand-in where a line does not tell it.
    """
    frames = []
    for cycle, own, lent in cycles:
        frames.append(_of_cycle(_rows(spark, own), cycle, OWN))
        if lent is not None:
            frames.append(_of_cycle(_rows(spark, lent), cycle, LENT))
    return united(frames)


def _of_cycle(rows: DataFrame, cycle: ClusterCycle, source: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.select(
        F.lit(cycle.cluster).alias("cluster"),
        F.to_timestamp(F.lit(cycle.cycle_at)).alias("cycle_at"),
        F.lit(source).alias("source"),
        "*",
    )


def _rows(spark: SparkSession, landed: Landed) -> DataFrame:
    return _of_folder(spark, landed) if landed.path.is_dir() else _of_document(spark, landed)


def _of_document(spark: SparkSession, landed: Landed) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema("requests array<string>").option("multiLine", True).option("encoding", "UTF-8")
    lines = reader.json(_literal(landed.path)).select(F.posexplode("requests").alias("position", "line"))
    # Request by request, so that an odd one does not take the others with it.
    request = F.from_json("line", _REQUEST_TYPE, _OPTIONS).alias("request")
    return _typed(lines.select("position", "line", request).select("position", "line", "request.*"), F.col("position"))


def _of_folder(spark: SparkSession, landed: Landed) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema(_REQUEST_TYPE).options(**_OPTIONS).option("encoding", "UTF-8")
    if landed.broken_parts:
        reader = reader.option("ignoreCorruptFiles", True)
    rows = reader.json([_literal(part) for part in parts_of(landed.path)])
    # A line without its position still needs a name that a second reading gives it again.
    stand_in = F.pmod(F.xxhash64("broker", "method", "path", "at", "body", _UNREAD), F.lit(2**31)).cast("int")
    return _typed(
        rows.withColumn("line", F.coalesce(_UNREAD, F.to_json(F.struct(*_MEMBERS)))),
        F.coalesce(F.expr("try_cast(n as int)"), stand_in),
    )


def _typed(rows: DataFrame, n: Column) -> DataFrame:
    from pyspark.sql import functions as F

    is_request = F.col("path").isNotNull() & F.col(_UNREAD).isNull()
    return rows.select(
        n.alias("n"),
        "broker",
        F.coalesce("method", F.lit("GET")).alias("method"),
        "path",
        F.coalesce(F.expr("try_cast(status as int)"), F.lit(0)).alias("status"),
        "at",
        F.expr("try_cast(elapsed_ms as double)").alias("elapsed_ms"),
        "location",
        "body",
        F.when(~is_request, F.coalesce("line", F.lit("null"))).alias("unread"),
    )


def _literal(path: Path) -> str:
    """The path with what Hadoop takes for wildcards taken literally."""
    return _GLOB_SIGNS.sub(r"\\\1", str(path.resolve()))


def _broken(part: Path) -> str | None:
    """Why a part breaks off, or None; only packed parts can hide it from whoever reads lines."""
    if not part.name.endswith(".gz"):
        return None
    try:
        with open_bytes(part) as stream:
            while stream.read(_CHUNK):
                pass
    except EOFError:
        return "the gzip file ends too early; the lines before the break are read"
    except (OSError, zlib.error) as error:
        return f"the gzip file cannot be unpacked to its end ({error}); the lines before the break are read"
    return None


def utc_or_none(text: str | None) -> datetime | None:
    """A request's time, or None where it has none."""
    from evenkeel.sources.recordings import utc

    try:
        return utc(text)
    except BadInput:
        return None


# The broker- and bundle-sized answers of a run, collected: what `evenkeel.pulsar` reads as rows.
#
# Topic-sized bodies stay where they are; of them only the first 2,000 characters come along.

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
