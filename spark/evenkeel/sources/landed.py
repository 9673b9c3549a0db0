"""Landed snapshots as rows of Spark: one row per request, whatever the layout."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle
from evenkeel.json_text import values_in
from evenkeel.pulsar.answers import RECORD_CHARACTERS, Answer, Answers
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.sources.recordings import (
    Header,
    demand_packed,
    line_too_long,
    longest_line,
    open_bytes,
    packed_bytes,
    parts_of,
    read_header,
)
from evenkeel.spark.session import keep
from evenkeel.spark.sql import first_of, united

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


OWN = "own"
LENT = "lent"
"""Whose request it is: the snapshot's own, or of the earlier snapshot that lends configuration and topic lists."""

_MEMBERS = ("n", "broker", "method", "path", "status", "at", "elapsed_ms", "location", "body")
_UNREAD = "_unread"
_REQUEST_TYPE = ", ".join(f"{name} string" for name in (*_MEMBERS, _UNREAD))
# How long a text may be is for the limits to say: the reader of JSON would end at twenty million characters.
_ANY_LENGTH = {"maxStringLen": str(2**31 - 1)}
_OPTIONS = {"columnNameOfCorruptRecord": _UNREAD, **_ANY_LENGTH}
_CHUNK = 1 << 20
_SEE = "see what wrote it"
_GLOB_SIGNS = re.compile(r"([\\\[\]{}*?])")


@dataclass(frozen=True, slots=True)
class Landed:
    """A snapshot that can be read: its header, and parts of it that break off (their complete lines are read)."""

    path: Path
    header: Header
    broken_parts: tuple[tuple[Path, str], ...] = ()


def open_landed(path: str, limits: Limits = DEFAULT) -> Landed:
    """Looks at a landed snapshot before Spark does; `BadInput` if nothing of it can be read, or if it is beyond
    `limits`."""
    place = Path(path)
    if not place.exists():
        raise BadInput(f"there is no snapshot at {path}")
    header = read_header(place, limits)
    broken = []
    parts = parts_of(place) if place.is_dir() else []
    demand_packed(place.name, packed_bytes(parts), limits)
    look = _PartReader(limits)
    for part in parts:
        try:
            reason = look.at(part)
        except OSError as error:
            raise BadInput(f"{part.name} cannot be read ({error.strerror or error})") from error
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
    requests = reader.options(**_ANY_LENGTH).json(_literal(landed.path))
    lines = requests.select(F.posexplode("requests").alias("position", "line"))
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


class _PartReader:
    """Goes through the parts of a snapshot and adds up what they unpack to; what is beyond a limit is `BeyondLimit`.

    A line that is too long for the Spark server ends there, and with it every other cluster's cycle.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = self._lines = 0

    def at(self, part: Path) -> str | None:
        """Why the part breaks off, or None; only packed parts can hide it from whoever reads lines."""
        try:
            self._go_through(part)
        except EOFError:
            return "the gzip file ends too early; the lines before the break are read"
        except (gzip.BadGzipFile, zlib.error) as error:
            return f"the gzip file cannot be unpacked to its end ({error}); the lines before the break are read"
        return None

    def _go_through(self, part: Path) -> None:
        longest, number, length = longest_line(self._limits), 1, 0
        with open_bytes(part) as stream:
            while chunk := stream.read(_CHUNK):
                ends = chunk.count(b"\n")
                length += len(chunk) if not ends else chunk.index(b"\n")
                if length > longest:
                    raise line_too_long(part, number, self._limits)
                if ends:
                    length = len(chunk) - chunk.rindex(b"\n") - 1
                number += ends
                self._add(part, len(chunk), ends)

    def _add(self, part: Path, size: int, lines: int) -> None:
        self._bytes, self._lines = self._bytes + size, self._lines + lines
        what = f"up to {part.name} the snapshot has {self._bytes:,} bytes, unpacked"
        self._limits.demand("snapshot_mib", self._bytes, what, _SEE)
        what = f"up to {part.name} the snapshot has {self._lines:,} requests"
        self._limits.demand("requests", self._lines, what, _SEE)


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


@dataclass(slots=True)
class CollectedAnswers:
    """The answers of one cluster by source (own or lent), and the rows whose request cannot be read (`unread`, n,
    source). `size` is what their texts take in this process. `beyond` says which limit they are beyond: then they are
    left where they are."""

    answers: dict[str, Answers]
    unread: list[Any]
    size: int = 0
    beyond: str | None = None


def collect_answers(apart: DataFrame, limits: Mapping[str, Limits]) -> Iterator[tuple[str, CollectedAnswers]]:
    """The answers of each cluster of `limits`, one cluster after the other: the caller is to let go of each.

    All come at once where they are small together, as they nearly always are; else cluster by cluster.
    """
    from pyspark.sql import functions as F

    rows = _answer_rows(apart, limits)
    if len(limits) > 1:
        few = _collected(rows, limits, at_most=_FEW)
        if few is not None:
            yield from few.items()
            return
        del few
    for cluster in sorted(limits):
        found = _collected(rows.where(F.col("cluster") == cluster), {cluster: limits[cluster]})
        if found is not None:
            yield from found.items()
        del found  # before the next cluster's come


_FEW = Limits(small_answers_mib=64, requests=50_000)
"""What the answers of all clusters together may be for them to come at once."""


def _answer_rows(apart: DataFrame, limits: Mapping[str, Limits]) -> DataFrame:
    from pyspark.sql import functions as F

    is_large = F.col("path").rlike(_NOT_NEEDED_WHOLE)
    usual = DEFAULT.bytes_of("small_answer_mib")
    own = {cluster: one.bytes_of("small_answer_mib") for cluster, one in limits.items()}
    cases = ((F.col("cluster") == cluster, most) for cluster, most in own.items() if most != usual)
    most = first_of(cases, F.lit(usual))
    cut = is_large | (F.octet_length("body") > most)
    body = F.when(cut, F.substring("body", 1, RECORD_CHARACTERS)).otherwise(F.col("body"))
    columns = ("cluster", "source", "n", "broker", "method", "path", "status", "at", "location", "size")
    unread_text = F.substring("unread", 1, RECORD_CHARACTERS)
    is_cut = F.coalesce(cut & ~F.coalesce(is_large, F.lit(False)), F.lit(False))
    return apart.select(*columns, body.alias("body"), unread_text.alias("unread"), is_cut.alias("is_cut"))


def _collected(
    rows: DataFrame, limits: Mapping[str, Limits], *, at_most: Limits | None = None
) -> dict[str, CollectedAnswers] | None:
    """The answers of each cluster; None where those of all clusters together are more than `at_most`."""
    found = {cluster: _Collecting(one) for cluster, one in limits.items()}
    size = count = 0
    for row in rows.toLocalIterator():
        found[row["cluster"]].take(row)
        size, count = size + _size(row), count + 1
        if at_most is not None and (size > at_most.bytes_of("small_answers_mib") or count > at_most.requests):
            return None
        if len(found) == 1 and found[row["cluster"]].beyond is not None:
            break
    return {cluster: collecting.end() for cluster, collecting in found.items()}


class _Collecting:
    """Takes the rows of one cluster up to its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        self._unread: list[Any] = []
        self._size = self._values = self._requests = 0
        self.beyond: str | None = None

    def take(self, row: Any) -> None:
        if self.beyond is not None:
            return
        self._requests += 1
        self._size += _size(row)
        if row["body"] is not None:
            self._values += values_in(row["body"])
        try:
            self._demand()
        except BeyondLimit as error:
            self.beyond = str(error)
            self._answers.clear()
            self._unread.clear()
            return
        if row["unread"] is not None:
            self._unread.append(row)
        else:
            self._answers[row["source"]].append(_answer(row))

    def end(self) -> CollectedAnswers:
        answers = {source: Answers(found) for source, found in self._answers.items()}
        return CollectedAnswers(answers, self._unread, self._size, self.beyond)

    def _demand(self) -> None:
        answers = "its answers, those of topics left aside,"
        demand = self._limits.demand
        demand("requests", self._requests, f"the snapshot has {self._requests:,} requests and more", _SEE)
        demand("small_answers_mib", self._size, f"{answers} have {self._size:,} bytes and more", _SEE)
        demand("json_values", self._values, f"{answers} hold {self._values:,} values of JSON and more", _SEE)


def _size(row: Any) -> int:
    """Bytes that a row's texts take in this process: a text with one emoji takes four for every character."""
    return sum(sys.getsizeof(row[name]) for name in ("body", "unread") if row[name] is not None)


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
        is_cut=row["is_cut"],
    )
