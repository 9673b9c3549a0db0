"""Rows of many cycles on their way to a worker and back into the form that rounds read.

`bundle_load` is a thousand times larger than all else, so it travels in columns of its own; the other tables are small
and travel as JSON, as everywhere (`engine.bodies`). One table for all: a row has a `kind`, and either `body` or the
columns of `bundle_load`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.engine.bodies import TIMESTAMP_FORMAT, TO_JSON_OPTIONS, decoder, has_map
from evenkeel.rounds import reading
from evenkeel.rounds.looked_at import BUNDLE_COLUMNS, BUNDLES, columns_looked_at
from evenkeel.rounds.reading import Row
from evenkeel.rounds.shared import SharedRows, carry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

STANDING = {"namespace_bundles": (reading.boundaries, reading.bundle_counts), "cluster_policies": ()}
"""Tables that are most often as they were in the cycle before, and what is worked out of them alone."""


def pack(kind: str, rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows of a table as (`cycle_at`, `kind`, `body`, columns of `bundle_load`)."""
    from pyspark.sql import functions as F

    at = F.date_format("cycle_at", TIMESTAMP_FORMAT).alias("cycle_at")
    if kind == BUNDLES:
        body = F.lit(None).cast("string")
        own = [F.col(name) for name in BUNDLE_COLUMNS]
    else:
        body = F.to_json(F.struct(*columns_looked_at(kind, schema.names)), TO_JSON_OPTIONS)
        own = [F.lit(None).cast(_bundle_type(name)).alias(name) for name in BUNDLE_COLUMNS]
    return rows.select(at, F.lit(kind).alias("kind"), body.alias("body"), *own)


def _bundle_type(name: str) -> str:
    from evenkeel.lake.tables import TABLES

    return next(column.type for column in TABLES[BUNDLES].columns if column.name == name)


class Unpacked:
    """The cycles in a packed table, in the order of time, as rows for rounds.

    `schemas`: kind -> JSON of the Spark schema of the bodies. What stands as in the cycle before is parsed once.
    """

    def __init__(self, schemas: Mapping[str, str]) -> None:
        from pyspark.sql.types import StructType

        types = {kind: StructType.fromJson(json.loads(text)) for kind, text in schemas.items()}
        self._read: dict[str, Callable[[str], dict[str, Any]]] = {k: decoder(t) for k, t in types.items()}
        self._by_content = {kind for kind, t in types.items() if has_map(t)}
        self._last: dict[str, tuple[list[str], list[Row]]] = {}
        self._before: SharedRows | None = None

    def cycles(self, table: pa.Table) -> Iterator[tuple[str, SharedRows]]:
        """(`cycle_at` as text, rows by table) for every cycle."""
        import pyarrow.compute as pc

        is_bundle = pc.equal(table.column("kind"), BUNDLES)
        bodies: dict[str, dict[str, list[str]]] = {}
        small = table.filter(pc.invert(is_bundle))
        texts = (small.column(name).to_pylist() for name in ("cycle_at", "kind", "body"))
        for at, kind, body in zip(*texts, strict=True):
            bodies.setdefault(at, {}).setdefault(kind, []).append(body)
        bundles = table.filter(is_bundle).sort_by([("cycle_at", "ascending"), ("bundle", "ascending")])
        places = _places(bundles.column("cycle_at").combine_chunks())
        for at in sorted({*bodies, *places}):
            rows: dict[str, Sequence[Row]] = {
                kind: self._rows(kind, bodies.get(at, {}).get(kind, [])) for kind in self._read
            }
            rows[BUNDLES] = _bundle_rows(bundles.slice(*places[at])) if at in places else []
            yield at, self._sharing(rows)

    def _rows(self, kind: str, bodies: list[str]) -> list[Row]:
        ordered = sorted(bodies)
        if kind in STANDING and kind in self._last and self._last[kind][0] == ordered:
            return self._last[kind][1]
        rows: list[Row] = [self._read[kind](body) for body in ordered]
        if kind in self._by_content:
            rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
        self._last[kind] = (ordered, rows)
        return rows

    def _sharing(self, rows: dict[str, Sequence[Row]]) -> SharedRows:
        found, before = SharedRows(rows), self._before
        for kind, worked_out in STANDING.items():
            if before is not None and before.get(kind) is rows.get(kind):
                carry(before, found, worked_out)
        self._before = found
        return found


def _places(moments: Any) -> dict[str, tuple[int, int]]:
    """Moment -> where its rows begin and how many they are, in an ordered column."""
    found: dict[str, tuple[int, int]] = {}
    start = 0
    for run in moments.value_counts():
        moment, count = run["values"].as_py(), run["counts"].as_py()
        found[moment] = (start, count)
        start += count
    return found


def _bundle_rows(table: pa.Table) -> list[Row]:
    columns = [_values(table.column(name)) for name in BUNDLE_COLUMNS]
    return [dict(zip(BUNDLE_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    """As Python values; numbers without NULLs by way of numpy, which is ten times as fast."""
    import pyarrow as pa

    numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if numeric and column.null_count == 0:
        return list(column.to_numpy().tolist())
    return list(column.to_pylist())


def moment_of(text: str) -> datetime:
    """The moment that a packed row belongs to."""
    return datetime.fromisoformat(text)
