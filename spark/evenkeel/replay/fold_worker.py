"""What runs inside a Python worker of Spark: a chunk of cycles in, what some variants make of them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenkeel.cycle.projections import BUNDLE_COLUMNS, BUNDLES, columns_looked_at
from evenkeel.errors import LakeError
from evenkeel.replay.fold import Carried, Chosen, Fold, Recorded
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows, carry
from evenkeel.rounds.reading import Row, Rows
from evenkeel.spark.bodies import TIMESTAMP_FORMAT, TO_JSON_OPTIONS, decoder, encoder, has_map
from evenkeel.spark.worker import MarkedError, demand_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


RESULT_SCHEMA = "output string, body string"
CARRIED = "carried"
"""The output that the next chunk goes on from."""


def fold_function(job: str) -> Callable[[pa.Table], pa.Table]:
    """The function that Spark sends to the workers; `job` is JSON, so that nothing depends on pickled classes.

    It holds `code` and `files` (see `spark.worker.Job`), `cluster`, `limit`, `schemas` and `outputs` (kind or table ->
    schema as JSON), `cycles` (moment -> what the record says of it), `chosen` (what variants decide with, as a cycle
    names it) and `parts` (label -> its `variants`, what they carry, whether it gives the rows of the record).
    """

    def fold_one(table: pa.Table) -> pa.Table:
        return fold_part(json.loads(job), table)

    return fold_one


def fold_part(job: Mapping[str, Any], table: pa.Table) -> pa.Table:
    """Called by Spark with all rows of one part; gives rows (output, body)."""
    part = job["parts"][str(table.column("part")[0].as_py())]
    at = "the first cycle"
    outputs: list[str] = []
    bodies: list[str] = []
    try:
        demand_code(job["code"], job["files"])
        write = {name: encoder(_schema(text), name) for name, text in job["outputs"].items()}
        carried = {name: Carried.from_json(body) for name, body in part["carried"].items()}
        fold = Fold(job["limit"], part["with_recorded"], carried, dict(part["owners"]))
        unpacked = Unpacked(job["schemas"])
        found = unpacked.cycles(table)
        here: tuple[str, Rows] | None = next(found, None)
        for at in sorted(job["cycles"]):
            rows: Rows = {}
            if here is not None and here[0] == at:
                rows, here = here[1], next(found, None)
            _demand_rows(job["cycles"][at]["rows"], rows)
            for output, row in fold.step(_recorded(job, part, at), rows):
                outputs.append(output)
                bodies.append(write[output](row))
    except Exception as error:
        raise MarkedError(error, f"replay of {', '.join(part['variants'])} on {job['cluster']} at {at}") from error
    outputs.append(CARRIED)
    bodies.append(json.dumps(dict(_carried(part, fold)), ensure_ascii=False))
    return pa.table({"output": pa.array(outputs, pa.string()), "body": pa.array(bodies, pa.string())})


def _demand_rows(listed: Mapping[str, int], rows: Rows) -> None:
    for kind, expected in listed.items():
        found = len(rows.get(kind, ()))
        if found != expected:
            raise LakeError(
                f"{kind} holds {found} of the {expected} rows that the cycle's manifest lists: they are past their "
                "retention, or the table is damaged. Begin later (--from), or restore the table"
            )


def _carried(part: Mapping[str, Any], fold: Fold) -> Iterator[tuple[str, Any]]:
    yield "label", part["label"]
    yield "carried", {name: one.to_json() for name, one in fold.carried.items()}
    yield "owners", fold.owners


def _recorded(job: Mapping[str, Any], part: Mapping[str, Any], at: str) -> Recorded:
    cycle = job["cycles"][at]
    chosen = job["chosen"][cycle["chosen"]]
    known = dict(cycle["known"])
    if known.get("snapshot_at"):
        known["snapshot_at"] = moment_of(known["snapshot_at"])
    return Recorded(
        cluster=job["cluster"],
        cycle_at=moment_of(at),
        plan_id=cycle["plan_id"],
        manager=cycle["manager"],
        chosen={name: _chosen(chosen[name]) for name in part["variants"]},
        state=cycle["state"],
        known=known,
    )


def _chosen(body: Mapping[str, Any]) -> Chosen:
    return Chosen(body["settings"], body["digest"], body["manager"], body["is_recorded"])


def _schema(text: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(text))


# Rows of many cycles on their way to a worker and back into the form that rounds read.
#
# `bundle_load` is a thousand times larger than all else, so it travels in columns of its own; the other tables are
# small and travel as JSON, as everywhere (`engine.bodies`). One table for all: a row has a `kind`, and either `body` or
# the columns of `bundle_load`.

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
    from evenkeel.lake.schemas import TABLES

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
    """The column as Python values; numbers without NULLs by way of numpy, which is ten times as fast."""
    import pyarrow as pa

    numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if numeric and column.null_count == 0:
        return list(column.to_numpy().tolist())
    return list(column.to_pylist())


def moment_of(text: str) -> datetime:
    """The moment that a packed row belongs to."""
    return datetime.fromisoformat(text)
