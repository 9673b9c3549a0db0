"""What runs inside a Python worker of Spark: a chunk of cycles in, what some variants make of them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenkeel.errors import LakeError
from evenkeel.replay.fold import Carried, Chosen, Fold, Recorded
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows, carry
from evenkeel.rounds.reading import Row, Rows
from evenkeel.spark.packing import KIND, Packing
from evenkeel.spark.rows import TIMESTAMP_FORMAT
from evenkeel.spark.worker import MarkedError, demand_code, packing_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


CARRIED = "carried"
"""The output that the next chunk goes on from: rows with a `body`, which is JSON."""


def fold_function(job: str) -> Callable[[pa.Table], pa.Table]:
    """The function that Spark sends to the workers; `job` is JSON, so that nothing depends on pickled classes.

    It holds `code` and `files` (see `spark.worker.Job`), `cluster`, `limit`, `inputs` and `outputs` (table -> schema as
    JSON), `cycles` (moment -> what the record says of it), `chosen` (what variants decide with, as a cycle
    names it) and `parts` (label -> its `variants`, what they carry, whether it gives the rows of the record).
    """

    def fold_one(table: pa.Table) -> pa.Table:
        return fold_part(json.loads(job), table)

    return fold_one


def fold_part(job: Mapping[str, Any], table: pa.Table) -> pa.Table:
    """Called by Spark with all rows of one part; gives packed rows."""
    part = job["parts"][str(table.column("part")[0].as_py())]
    at = "the first cycle"
    try:
        demand_code(job["code"], job["files"])
        made: dict[str, list[Mapping[str, Any]]] = {name: [] for name in job["outputs"]}
        carried = {name: Carried.from_json(body) for name, body in part["carried"].items()}
        fold = Fold(job["limit"], part["with_recorded"], carried, dict(part["owners"]))
        found = Unpacked(packing_of(tuple(job["inputs"].items()))).cycles(table)
        here: tuple[str, Rows] | None = next(found, None)
        for at in sorted(job["cycles"]):
            rows: Rows = {}
            if here is not None and here[0] == at:
                rows, here = here[1], next(found, None)
            _demand_rows(job["cycles"][at]["rows"], rows)
            for output, row in fold.step(_recorded(job, part, at), rows):
                made[output].append(row)
        made[CARRIED].append({"body": json.dumps(dict(_carried(part, fold)), ensure_ascii=False)})
        return packing_of(tuple(job["outputs"].items())).table(made, {})
    except Exception as error:
        raise MarkedError(error, f"replay of {', '.join(part['variants'])} on {job['cluster']} at {at}") from error


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


# Rows of many cycles on their way to a worker and back into the form that rounds read.

STANDING = {"namespace_bundles": (reading.boundaries, reading.bundle_counts), "cluster_policies": ()}
"""Tables that are most often as they were in the cycle before, and what is worked out of them alone."""


def pack(packing: Packing, table: str, rows: DataFrame) -> DataFrame:
    """The rows of a table as `cycle_at` (text) and packed."""
    from pyspark.sql import functions as F

    return packing.packed(table, rows, F.date_format("cycle_at", TIMESTAMP_FORMAT).alias("cycle_at"))


class Unpacked:
    """The cycles in a packed table, in the order of time, as rows for rounds.

    What stands as in the cycle before is read once.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._last: dict[str, tuple[list[pa.RecordBatch], list[Row]]] = {}
        self._before: SharedRows | None = None

    def cycles(self, table: pa.Table) -> Iterator[tuple[str, SharedRows]]:
        """(`cycle_at` as text, rows by table) for every cycle."""
        ordered = table.sort_by([("cycle_at", "ascending"), (KIND, "ascending")])
        start = 0
        for run in ordered.column("cycle_at").value_counts():
            at, count = run["values"].as_py(), run["counts"].as_py()
            parts = self._packing.parts(ordered.slice(start, count))
            start += count
            yield at, self._sharing({kind: self._rows(kind, parts.get(kind, [])) for kind in self._packing.tables})

    def _rows(self, kind: str, parts: list[pa.RecordBatch]) -> list[Row]:
        last = self._last.get(kind) if kind in STANDING else None
        if last is not None and last[0] == parts:
            return last[1]
        rows: list[Row] = [*self._packing.rows_of(kind, parts)]
        if last is not None and last[1] == rows:  # in another order
            rows = last[1]
        self._last[kind] = (parts, rows)
        return rows

    def _sharing(self, rows: dict[str, Sequence[Row]]) -> SharedRows:
        found, before = SharedRows(rows), self._before
        for kind, worked_out in STANDING.items():
            if before is not None and before.get(kind) is rows.get(kind):
                carry(before, found, worked_out)
        self._before = found
        return found


def moment_of(text: str) -> datetime:
    """The moment that a packed row belongs to."""
    return datetime.fromisoformat(text)
