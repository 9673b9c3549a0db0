"""Landed snapshots as rows of Spark: one row per request, whatever the layout."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput
from evenkeel.pulsar.answers import RECORD_CHARACTERS
from evenkeel.pulsar.limits import DEFAULT, Limits
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

_MEMBERS = ("n", "broker", "method", "path", "status", "at", "elapsed_ms", "location", "body")
_UNREAD = "_unread"
_REQUEST_TYPE = ", ".join(f"{name} string" for name in (*_MEMBERS, _UNREAD))
# How long a text may be is for the limits to say: the reader of JSON would end at twenty million characters.
_ANY_LENGTH = {"maxStringLen": str(2**31 - 1)}
_OPTIONS = {"columnNameOfCorruptRecord": _UNREAD, **_ANY_LENGTH}
# A packed file that Java cannot unpack to its end ends its own reading alone, not that of all snapshots; of lines those
# before the break count. Parts that break off were looked at, but Python passes over zeros behind the end, which some
# copies leave.
_FILES = {"encoding": "UTF-8", "ignoreCorruptFiles": "true"}
_CHUNK = 1 << 20
_FEW_SNAPSHOTS = 8
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


def requests_of_snapshots(spark: SparkSession, snapshots: Sequence[Landed]) -> DataFrame:
    """Rows of all requests: `snapshot` (its place among those given), the request's members, `unread`.

    `at` is text as it came, `status` 0 where it is missing. A line that cannot be read stands in `unread`, with
    nothing else known of it. `n` is the position in the snapshot, or a stand-in where a line does not tell it. However
    many snapshots there are, those of a layout are one reading.
    """
    layouts: dict[Callable[..., DataFrame], list[tuple[int, Landed]]] = defaultdict(list)
    for number, landed in enumerate(snapshots):
        layouts[_of_folders if landed.path.is_dir() else _of_documents].append((number, landed))
    return united(read(spark, found) for read, found in layouts.items())


_Numbered = Sequence[tuple[int, "Landed"]]


def _of_documents(spark: SparkSession, found: _Numbered) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema("requests array<string>").option("multiLine", True).options(**_FILES, **_ANY_LENGTH)
    documents = reader.json([_literal(landed.path) for _, landed in found])
    requests = _numbered(documents, found, _file())
    lines = requests.select("snapshot", F.posexplode("requests").alias("position", "line"))
    # Request by request, so that an odd one does not take the others with it.
    request = F.from_json("line", _REQUEST_TYPE, _OPTIONS).alias("request")
    read = lines.select("snapshot", "position", "line", request)
    return _typed(read.select("snapshot", "position", "line", "request.*"), F.col("position"))


def _of_folders(spark: SparkSession, found: _Numbered) -> DataFrame:
    from pyspark.sql import functions as F

    reader = spark.read.schema(_REQUEST_TYPE).options(**_FILES, **_OPTIONS)
    lines = reader.json([_literal(part) for _, landed in found for part in parts_of(landed.path)])
    rows = _numbered(lines, found, F.regexp_replace(_file(), r"/[^/]*\z", ""))
    # A line without its position still needs a name that a second reading gives it again.
    stand_in = F.pmod(F.xxhash64("broker", "method", "path", "at", "body", _UNREAD), F.lit(2**31)).cast("int")
    return _typed(
        rows.withColumn("line", F.coalesce(_UNREAD, F.to_json(F.struct(*_MEMBERS)))),
        F.coalesce(F.expr("try_cast(n as int)"), stand_in),
    )


def _file() -> Column:
    """The path of the file that a row is read from."""
    from pyspark.sql import functions as F

    # A URI: a plus sign stands for itself there, as it does not in what `url_decode` reads.
    uri = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
    return F.regexp_replace(F.url_decode(uri), "^file:/+", "/")


def _numbered(rows: DataFrame, found: _Numbered, place: Column) -> DataFrame:
    """The rows with the number of their snapshot: `place` is its path."""
    from pyspark.sql import functions as F

    if len(found) == 1:
        return rows.withColumn("snapshot", F.lit(found[0][0]))
    numbers = [(str(landed.path.resolve()), number) for number, landed in found]
    placed = rows.select("*", place.alias("_place"))
    if len(dict(numbers)) == len(numbers) <= _FEW_SNAPSHOTS:
        number = first_of(((F.col("_place") == path, number) for path, number in numbers), F.lit(None).cast("int"))
        return placed.withColumn("snapshot", number).drop("_place")
    named = rows.sparkSession.createDataFrame(numbers, "_place string, snapshot int")
    return placed.join(F.broadcast(named), "_place", "left").drop("_place")


def _typed(rows: DataFrame, n: Column) -> DataFrame:
    from pyspark.sql import functions as F

    is_request = F.col("path").isNotNull() & F.col(_UNREAD).isNull()
    return rows.select(
        "snapshot",
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


# What of it stays with the server: topic-sized bodies are cut to their first 2,000 characters.

FIGURES_PATH = r"/broker-stats/topics/?(\?.*)?$"


def holds_topic_figures() -> Column:
    """Whether a request asks for the figures of all topics loaded on a broker."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col("path").rlike(FIGURES_PATH), F.lit(False))


def set_apart(requests: DataFrame) -> DataFrame:
    """The requests with the figures of topics cut to 2,000 characters, and the `size` of every body in bytes.

    They are read from the snapshots here and stay with the server: with a million topics each reading costs seconds.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    body = F.when(holds_topic_figures(), F.substring("body", 1, RECORD_CHARACTERS)).otherwise(F.col("body"))
    sized = requests.withColumn("size", F.octet_length("body")).withColumn("body", body)
    return keep(sized, StorageLevel.DISK_ONLY)
