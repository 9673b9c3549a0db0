"""Long answers of landed snapshots, figures and lists of topics, which Spark reads from their files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput
from evenkeel.sources.snapshot_files import is_in_lines
from evenkeel.spark.sql import first_of, united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
            return self.spark.createDataFrame([], _typed_schema())
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


def _typed_schema() -> str:
    texts = "broker string, method string, path string"
    return f"snapshot int, n int, {texts}, status int, at string, elapsed_ms double, location string, body string"


def _literal(path: Path) -> str:
    """Return the path with Hadoop's wildcard characters quoted."""
    return _GLOB_SIGNS.sub(r"\\\1", str(path.resolve()))
