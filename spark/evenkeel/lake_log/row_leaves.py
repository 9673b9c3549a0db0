"""Leaves of rows that no manifest lists: approvals, controls, wishes, commands, outcomes, upkeeps, anchors and proofs.

A leaf names a table, a cluster and a UTC date, and the SHA-256 of each row that was new there when it was logged. Rows
of `commands` and `outcomes` are under their write: the leaf has the digest of the write's id, number of rows and Merkle
root. Rows are hashed as JSON without what is NULL, so that a column that joins a table changes no row that was there
before.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from evenkeel.errors import DamagedLog
from evenkeel.lake.merkle import root_of
from evenkeel.lake_log.leaves import parse_leaf
from evenkeel.transparency.keys import base64_text
from evenkeel.transparency.leaf import MOST_LEAF_BYTES, LogLeaf, canonical

ROWS = "rows"
"""The kind of these leaves."""
_DIGEST_BYTES, _OTHER_BYTES = 45, 260  # of a leaf's kilobyte: a digest with its blank, and all but digests and cluster


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A table whose rows have leaves of their own.

    `moment`: the column by which a row is on a date, and by which upkeep drops it if `expires`. `made`: the column that
    says when the row was made, and `apart` how much earlier than its commit that may be; None where the maker may give
    another time. `by_write`: rows stand under their writes.
    """

    name: str
    moment: str
    made: str | None
    apart: timedelta = timedelta(hours=1)
    expires: bool = True
    by_write: bool = False


# An upkeep of a large lake takes hours, and some of its rows bear the time of its beginning.
_A_DAY = timedelta(days=1)
LOGGED_TABLES = {
    table.name: table
    for table in (
        LoggedTable("anchors", "made_at", "made_at", _A_DAY, expires=False),
        LoggedTable("approvals", "at", "at"),
        LoggedTable("commands", "cycle_at", None, by_write=True),
        LoggedTable("controls", "at", "at"),
        LoggedTable("outcomes", "cycle_at", "seen_at", by_write=True),
        LoggedTable("proofs", "proven_at", "proven_at", _A_DAY, expires=False),
        LoggedTable("upkeeps", "begun_at", "begun_at", _A_DAY, expires=False),
        LoggedTable("wishes", "made_at", None),
    )
}
"""The tables by name."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a leaf holds a digest of: a row, or a write's rows.

    `cluster` is empty where the table has none. `made_at`: of the oldest row, None where it does not say. `words`: what
    it is, for people. `row`: the row itself, empty for a write.
    """

    table: str
    cluster: str
    day: str
    digest: str
    made_at: datetime | None
    words: str
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowsLeaf:
    """What a leaf of rows says: the digests (base64) of the rows of a table that were new on a date."""

    table: str
    cluster: str
    day: str
    digests: tuple[str, ...]


def units_of(table: LoggedTable, rows: Iterable[Mapping[str, Any]]) -> list[Unit]:
    """The units of some rows, which have the table's columns; the rows of a write must come together."""
    if table.by_write:
        return [*_writes(table, rows)]
    return [
        Unit(
            table.name,
            str(row.get("cluster") or ""),
            _day(row[table.moment]),
            _digest(row),
            None if table.made is None else in_utc(row[table.made]),
            _words(table, row),
            row,
        )
        for row in rows
    ]


def leaves_of(units: Iterable[Unit]) -> Iterator[LogLeaf]:
    """The leaves of units: by table, cluster and date, and of each by digest."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for unit in units:
        found.setdefault((unit.table, unit.cluster, unit.day), []).append(unit.digest)
    for (table, cluster, day), digests in sorted(found.items()):
        room = MOST_LEAF_BYTES - _OTHER_BYTES - len(canonical(cluster))
        most = max(1, room // _DIGEST_BYTES)
        digests.sort()
        for begin in range(0, len(digests), most):
            part = digests[begin : begin + most]
            fields: dict[str, str | int] = {"table": table, "cluster": cluster, "day": day, "rows": len(part)}
            yield LogLeaf(ROWS, {**fields, "digests": " ".join(part)})


def parse_rows_leaf(entry: bytes) -> RowsLeaf | None:
    """What a leaf of rows says; None for a leaf of another kind. Raises DamagedLog where it is not a leaf."""
    if b'"kind":"rows"' not in entry:
        return None
    found = parse_leaf(entry)
    if found["kind"] != ROWS:
        return None
    said = [found.get(name) for name in ("table", "cluster", "day", "digests")]
    if not all(isinstance(one, str) for one in said) or said[0] not in LOGGED_TABLES:
        raise DamagedLog(f"a leaf of rows holds what none has: {entry[:200]!a}")
    table, cluster, day, digests = map(str, said)
    try:
        date.fromisoformat(day)
    except ValueError:
        raise DamagedLog(f"a leaf of rows has no date: {entry[:200]!a}") from None
    return RowsLeaf(table, cluster, day, tuple(digests.split()))


def _writes(table: LoggedTable, rows: Iterable[Mapping[str, Any]]) -> Iterator[Unit]:
    by_write: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_write.setdefault((str(row["cluster"]), str(row["write_id"])), []).append(row)
    for (cluster, write_id), own in sorted(by_write.items()):
        root = root_of(sorted(hashlib.sha256(_text(row)).digest() for row in own)).hex()
        made = None if table.made is None else min(in_utc(row[table.made]) for row in own)
        day = min(_day(row[table.moment]) for row in own)
        digest = _digest({"write_id": write_id, "rows": len(own), "root": root})
        yield Unit(table.name, cluster, day, digest, made, f"write {write_id} of {len(own)} rows")


_NAMES = ("kind", "plan_id", "wish_id", "answer", "sequence", "upkeep_id", "state", "table_name", "by", "made_by")


def _words(table: LoggedTable, row: Mapping[str, Any]) -> str:
    known = [str(row[name]) for name in _NAMES if row.get(name) not in (None, "")]
    return f"{' '.join(known)} at {in_utc(row[table.moment]).isoformat()}"


def _digest(row: Mapping[str, Any]) -> str:
    return base64_text(hashlib.sha256(_text(row)).digest())


def _text(row: Mapping[str, Any]) -> bytes:
    return json.dumps(_plain(row), sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _plain(value: Any) -> Any:
    """A value of a row in JSON's own kinds: the same for equal values, whatever read them."""
    kind = type(value)
    make = _PLAIN.get(kind)
    return value if make is None else make(value)


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(one) for name, one in value.items() if one is not None}


def _items(value: Sequence[Any]) -> list[Any]:
    made = [_plain(one) for one in value]
    # A map comes as pairs, in whatever order its file has them.
    is_map = bool(value) and all(type(one) is tuple for one in value)
    return sorted(made, key=json.dumps) if is_map else made


def _figure(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


def in_utc(moment: datetime) -> datetime:
    """A moment of a row with its time zone: what reads a file leaves it away, and means UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _day(value: date) -> str:
    return (in_utc(value).date() if isinstance(value, datetime) else value).isoformat()


_PLAIN: dict[type, Callable[[Any], Any]] = {
    dict: _fields,
    list: _items,
    tuple: _items,
    float: _figure,
    datetime: lambda moment: in_utc(moment).isoformat(timespec="microseconds"),
    date: lambda day: day.isoformat(),
    bytes: lambda value: value.hex(),
}
