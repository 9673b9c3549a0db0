"""Answers of landed snapshots: short ones in the task's memory, long ones about topics as Spark reads their files."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle
from evenkeel.json_text import values_in
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.snapshot_files import SEE, Header, is_in_lines, read_header
from evenkeel.sources.snapshot_requests import SnapshotRequest, read_requests
from evenkeel.spark.sql import first_of, united
from evenkeel.times import moment_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Landed:
    """A snapshot that was read to its end: its file and its header."""

    path: Path
    header: Header


@dataclass
class SmallAnswers:
    """A landed snapshot's requests. `size`: bytes of their texts; `values`: an upper bound of their JSON values."""

    landed: Landed
    requests: list[SnapshotRequest]
    size: int
    values: int

    @cached_property
    def answers(self) -> Answers:
        """Return the answers by subject."""
        return Answers([_answer(request) for request in self.requests if request.unread is None])


def read_small_answers(path: str, limits: Limits = DEFAULT) -> SmallAnswers:
    """Read a landed snapshot, once through its file; raises `BadInput` if it is unreadable or beyond `limits`."""
    place = Path(path)
    if not place.exists():
        raise BadInput(f"no snapshot at {path}")
    landed = Landed(place, read_header(place, limits))
    requests: list[SnapshotRequest] = []
    size = values = 0
    for request in read_requests(place, limits):
        size += sum(sys.getsizeof(text) for text in (request.body, request.unread) if text is not None)
        values += values_in(request.body) if request.body is not None else 0
        requests.append(request)
        demand_few(len(requests), size, values, limits)
    return SmallAnswers(landed, requests, size, values)


def demand_few(requests: int, size: int, values: int, limits: Limits) -> None:
    """Raise `BeyondLimit` if the small answers of a cycle are more than this process may hold."""
    answers = "its answers, without those of topics,"
    limits.demand("requests", requests, f"the snapshot has {requests:,} requests and more", SEE)
    limits.demand("small_answers_mib", size, f"{answers} have {size:,} bytes and more", SEE)
    limits.demand("json_values", values, f"{answers} hold {values:,} values of JSON and more", SEE)


def _answer(request: SnapshotRequest) -> Answer:
    return Answer(
        n=request.n,
        broker=request.broker or "",
        path=request.path or "",
        status=request.status,
        body=request.body,
        at=moment_in(request.at),
        location=request.location,
        method=request.method,
        size=request.size,
        is_cut=request.is_left and not request.is_topic_sized,
    )


class SnapshotsOfRun:
    """The snapshots of a run's cycles. One that lends to many cycles is read once, and released after the last."""

    def __init__(self, cycles: Iterable[ClusterCycle]) -> None:
        self._uses = Counter(path for cycle in cycles for path in _paths(cycle))
        self._known: dict[tuple[str, Limits], SmallAnswers | BadInput] = {}

    def read(self, path: str, limits: Limits) -> SmallAnswers:
        """Return the snapshot's answers; raises `BadInput` if it cannot be read."""
        if (path, limits) not in self._known:
            try:
                self._known[path, limits] = read_small_answers(path, limits)
            except BadInput as error:
                self._known[path, limits] = error
        answers = self._known[path, limits]
        if isinstance(answers, BadInput):
            raise answers
        return answers

    def release(self, cycle: ClusterCycle) -> None:
        """Forget the snapshots that only this cycle still needed."""
        for path in _paths(cycle):
            self._uses[path] -= 1
            if self._uses[path] <= 0:
                for key in [key for key in self._known if key[0] == path]:
                    del self._known[key]


def _paths(cycle: ClusterCycle) -> set[str]:
    return {path for path in (cycle.snapshot.path, cycle.snapshot.configuration_path) if path}


_MEMBERS = ("n", "broker", "method", "path", "status", "at", "elapsed_ms", "location", "body")
_UNREAD = "_unread"
_REQUEST_TYPE = ", ".join(f"{name} string" for name in (*_MEMBERS, _UNREAD))
# The limits bound a text's length; the JSON reader's own limit is twenty million characters.
_ANY_LENGTH = {"maxStringLen": str(2**31 - 1)}
_OPTIONS = {"columnNameOfCorruptRecord": _UNREAD, **_ANY_LENGTH}
# The task's process has read each file to its end. A file damaged since then makes only its own reading fail.
_FILES = {"encoding": "UTF-8", "ignoreCorruptFiles": "true"}
_BEGINNING = 1 << 16
_FEW_SNAPSHOTS = 8
_GLOB_SIGNS = re.compile(r"([\\\[\]{}*?])")


class LongAnswers:
    """The requests of a run's snapshots, as Spark reads them; each file has a number."""

    def __init__(self, spark: SparkSession, snapshots: Iterable[Path]) -> None:
        self.spark = spark
        self.files = dict(enumerate(dict.fromkeys(snapshots)))
        self._numbers = {path: number for number, path in self.files.items()}

    def number(self, path: Path) -> int:
        """Return the number of a snapshot's file."""
        return self._numbers[path]

    def of(self, numbers: Iterable[int]) -> DataFrame:
        """Return the rows of all requests of some snapshots: `snapshot` (its number) and the request's members.

        `at` is text as it came, `status` 0 if it is missing, `n` as in `snapshot_requests`. If a line is malformed
        after its beginning, `body` is NULL.
        """
        files = [(number, self.files[number]) for number in sorted(set(numbers))]
        if not files:
            texts, times = "broker string, method string, path string", "at string, elapsed_ms double"
            columns = f"snapshot int, n int, {texts}, status int, {times}, location string, body string"
            return self.spark.createDataFrame([], columns)
        in_lines = [each for each in files if is_in_lines(each[1])]
        documents = [each for each in files if not is_in_lines(each[1])]
        frames = [
            read(self.spark, files_of_layout)
            for read, files_of_layout in ((_lines, in_lines), (_documents, documents))
            if files_of_layout
        ]
        rows = united(frames)
        _demand_seen(rows)
        return rows


def _demand_seen(rows: DataFrame) -> None:
    from pyspark.errors import AnalysisException

    try:
        _ = rows.schema
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        fault = str(error).splitlines()[0]
        raise BadInput(
            f"the Spark server does not see the snapshot that this task sees ({fault}): land it where both can read"
        ) from None


_Numbered = Sequence[tuple[int, Path]]


def _documents(spark: SparkSession, numbered: _Numbered) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema("requests array<string>").option("multiLine", True).options(**_FILES, **_ANY_LENGTH)
    documents = reader.json([_literal(path) for _, path in numbered])
    lines = _numbered(documents, numbered).select("snapshot", F.posexplode("requests").alias("position", "line"))
    # Request by request, so that a malformed one does not affect the others.
    request = F.from_json("line", _REQUEST_TYPE, _OPTIONS).alias("request")
    return _typed(lines.select("snapshot", "position", request).select("snapshot", "position", "request.*"), "position")


def _lines(spark: SparkSession, numbered: _Numbered) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema(_REQUEST_TYPE).options(**_FILES, **_OPTIONS)
    lines = _numbered(reader.json([_literal(path) for _, path in numbered]), numbered)
    # A line with a malformed body is known by its beginning, as in the task's process.
    begin = F.regexp_extract(F.substring(_UNREAD, 1, _BEGINNING), r'(?s)\A(.*?),\s*"body"\s*:', 1)
    known = F.from_json(F.concat(begin, F.lit("}")), _REQUEST_TYPE)
    members = [F.coalesce(F.col(name), F.col(f"_known.{name}")).alias(name) for name in _MEMBERS[:-1]]
    return _typed(lines.withColumn("_known", known).select("snapshot", *members, "body"), "n")


def _numbered(rows: DataFrame, numbered: _Numbered) -> DataFrame:
    """Return the rows with the number of the snapshot that each is read from."""
    from pyspark.sql import functions as F

    if len(numbered) == 1:
        return rows.withColumn("snapshot", F.lit(numbered[0][0]))
    # A URI: a plus sign is literal in it, unlike in the input of `url_decode`.
    uri = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
    placed = rows.select("*", F.regexp_replace(F.url_decode(uri), "^file:/+", "/").alias("_place"))
    numbers = [(str(path.resolve()), number) for number, path in numbered]
    if len(dict(numbers)) == len(numbers) <= _FEW_SNAPSHOTS:
        number = first_of(((F.col("_place") == path, number) for path, number in numbers), F.lit(None).cast("int"))
        return placed.withColumn("snapshot", number).drop("_place")
    named = rows.sparkSession.createDataFrame(numbers, "_place string, snapshot int")
    return placed.join(F.broadcast(named), "_place", "left").drop("_place")


def _typed(rows: DataFrame, n: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.where(F.col("path").isNotNull()).select(
        "snapshot",
        F.expr(f"try_cast({n} as int)").alias("n"),
        "broker",
        F.coalesce("method", F.lit("GET")).alias("method"),
        "path",
        F.coalesce(F.expr("try_cast(status as int)"), F.lit(0)).alias("status"),
        "at",
        F.expr("try_cast(elapsed_ms as double)").alias("elapsed_ms"),
        "location",
        "body",
    )


def _literal(path: Path) -> str:
    """Return the path with Hadoop's wildcard characters quoted."""
    return _GLOB_SIGNS.sub(r"\\\1", str(path.resolve()))
