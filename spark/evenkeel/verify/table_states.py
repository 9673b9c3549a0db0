"""Comparison of two descriptions of a table's version, and of data files with the `add` actions of commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.schema import Table
from evenkeel.lake.table_files import TableFiles, arrow_source
from evenkeel.lake.table_log import Action, TableState

_MILLISECOND = timedelta(milliseconds=1)
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_METADATA = ("id", "schemaString", "partitionColumns", "configuration", "format")
_VERSIONS = ("minReaderVersion", "minWriterVersion")
_FEATURES = ("readerFeatures", "writerFeatures")


def state_faults(commits: TableState, other: TableState) -> Iterator[str]:
    """Yield a phrase for each difference of a checkpoint or checksum (`other`) from the state by the commits."""
    if missing := sorted(commits.files.keys() - other.files.keys()):
        yield f"it lacks {_some(missing)}"
    if added := sorted(other.files.keys() - commits.files.keys()):
        yield f"it has {_some(added)}, which no commit has there"
    shared = sorted(commits.files.keys() & other.files.keys())
    if changed := [path for path in shared if not _same_file(commits.files[path], other.files[path])]:
        yield f"it gives other sizes, partitions or statistics for {_some(changed)}"
    if different := [name for name in _METADATA if _plain(commits.metadata, name) != _plain(other.metadata, name)]:
        yield f"its metadata differs ({', '.join(different)})"
    if _protocol(commits.protocol) != _protocol(other.protocol):
        yield "its protocol differs"


def _some(paths: list[str]) -> str:
    return f"file {paths[0]}" if len(paths) == 1 else f"{len(paths)} files ({paths[0]}, …)"


def _same_file(ours: Action, theirs: Action) -> bool:
    """Return False if readers would read the two `add`s differently; missing statistics make no difference."""
    if ours.get("size") != theirs.get("size") or dict(ours["partitionValues"]) != dict(theirs["partitionValues"]):
        return False
    if theirs.get("deletionVector"):
        return False
    stats, others = ours.get("stats"), theirs.get("stats")
    if others and others != stats and _statistics(others) != _statistics(stats):
        return False
    typed = theirs.get("partitionValues_parsed")
    if typed is not None and any(_text(typed.get(name)) != value for name, value in ours["partitionValues"].items()):
        return False
    return theirs.get("stats_parsed") is None or _includes(_statistics(stats), _canonical(theirs["stats_parsed"]))


def _statistics(text: object) -> Any:
    """Return statistics in one form, None without any."""
    try:
        return _canonical(parse_json(str(text))) if text else None
    except NotJson:
        return text


def _canonical(value: Any) -> Any:
    """Return a value with moments as whole milliseconds since 1970, as in commits."""
    if isinstance(value, Mapping):
        return {name: _canonical(part) for name, part in value.items() if part is not None}
    if isinstance(value, str) and value.endswith("Z"):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / _MILLISECOND)
    return value.isoformat() if isinstance(value, date) else value


def _includes(whole: Any, part: Any) -> bool:
    """Return True if every value of `part` is the same in `whole`; checkpoints have typed statistics of few columns."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(_includes(whole.get(name), value) for name, value in part.items())
    return bool(whole == part)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _plain(metadata: Action, name: str) -> Any:
    value = metadata.get(name)
    if name == "schemaString":
        try:
            return parse_json(str(value))
        except NotJson:
            return value
    if name == "format":
        return (value or {}).get("provider")
    return dict(value or {}) if name == "configuration" else value


def _protocol(protocol: Action) -> tuple[Any, ...]:
    return (
        *(protocol.get(name) for name in _VERSIONS),
        *(frozenset(protocol.get(name) or ()) for name in _FEATURES),
    )


def file_fault(table: Table, add: Action) -> str | None:
    """Return the fault of an `add`'s path or partition, None without one."""
    path, values = unquote(add["path"]), add.get("partitionValues")
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        return f"it adds {path}, a file outside the table's folder"
    if add.get("deletionVector"):
        return f"it hides rows of {path} by a deletion vector, which no writer of Evenkeel leaves"
    if not isinstance(values, dict) or {*values} != {*table.partition}:
        return f"it adds {path} for other partitions than the table has"
    parts = (folder.partition("=") for folder in path.split("/")[:-1])
    folders = [f"{name}={unquote(value)}" for name, _, value in parts]
    listed = [f"{name}={_NULL_FOLDER if values[name] is None else values[name]}" for name in table.partition]
    if folders != listed:
        return f"it adds {path} for {', '.join(listed) or 'no partition'}: its rows are taken for those of another one"
    return None


def statistics_fault(files: TableFiles, table: Table, add: Action) -> str | None:
    """Return the first statistic of an `add` that the rows of its file contradict; None without one.

    Limits may be wider than the values, as those of long texts are. A file that is gone has no fault here.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        statistics = parse_json(add["stats"]) if add.get("stats") else None
    except NotJson:
        return "its statistics are no JSON"
    if not isinstance(statistics, dict):
        return None
    limits = {kind: statistics.get(kind) or {} for kind in ("minValues", "maxValues", "nullCount")}
    try:
        with ParquetFile(arrow_source(files.full(unquote(add["path"])))) as opened:
            count = opened.metadata.num_rows
            if statistics.get("numRecords") not in (None, count):
                return f"its statistics say {statistics['numRecords']} rows, and the file has {count}"
            columns = {column.name: column for column in table.columns if column.name in opened.schema_arrow.names}
            plain = [name for name, column in columns.items() if column.type in _VALUES or column.type in _ONLY_NULLS]
            wanted = [name for name in plain if any(name in known for known in limits.values())]
            rows = opened.read(columns=wanted, use_threads=False)
    except (FileNotFoundError, ArrowException, OSError):
        return None  # a file that is gone or damaged is another fault
    for name in wanted:
        if not _holds(rows.column(name), columns[name].type, {kind: known.get(name) for kind, known in limits.items()}):
            return f"its statistics of {name} are not those of its rows"
    return None


_VALUES: dict[str, Any] = {
    "string": str,
    "int": int,
    "bigint": int,
    "double": float,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
}
_ONLY_NULLS = frozenset({"boolean"})


def _holds(column: Any, kind: str, limits: Mapping[str, Any]) -> bool:
    """Return True if the values of a column lie within its limits and the number of nulls is right."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if limits["nullCount"] is not None and limits["nullCount"] != column.null_count:
        return False
    if kind in _ONLY_NULLS or column.null_count == len(column):
        return True
    if kind == "timestamp":
        column = column.cast(pa.timestamp("us", tz="UTC"))
    ends = pc.min_max(column).as_py()
    try:
        least = ends["min"] if limits["minValues"] is None else _VALUES[kind](limits["minValues"])
        most = ends["max"] if limits["maxValues"] is None else _VALUES[kind](limits["maxValues"])
        if kind == "timestamp":
            most += _MILLISECOND  # commits have whole milliseconds, rounded down
        return bool(least <= ends["min"] and ends["max"] <= most)
    except (TypeError, ValueError):
        return False
