"""What runs inside a Python worker of Spark: a chunk of cycles in, what some variants make of them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from evenkeel.engine.bodies import encoder
from evenkeel.engine.worker import Refused, demand_code
from evenkeel.errors import LakeError
from evenkeel.replay.fold import Carried, Chosen, Fold, Recorded
from evenkeel.replay.packed import Unpacked, moment_of
from evenkeel.rounds.reading import Rows

RESULT_SCHEMA = "output string, body string"
CARRIED = "carried"
"""The output that the next chunk goes on from."""


def fold_function(job: str) -> Callable[[pa.Table], pa.Table]:
    """The function that Spark sends to the workers; `job` is JSON, so that nothing depends on pickled classes.

    It holds `code` and `files` (see `engine.worker.Job`), `cluster`, `limit`, `schemas` and `outputs` (kind or table ->
    schema as JSON), `cycles` (moment -> what the record says of it), `chosen` (what variants decide with, as a cycle
    names it) and `parts` (label -> its `variants`, what they carry, whether it tells of the record).
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
        fold = Fold(job["limit"], part["told"], carried, dict(part["owners"]))
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
        raise Refused(error, f"replay of {', '.join(part['variants'])} on {job['cluster']} at {at}") from error
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
