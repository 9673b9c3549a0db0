"""Code that runs inside a Python worker of Spark: one group in, the decide function's rows out.

The function is sent as its import path and is imported in the worker, never as pickled code. So the installed code
decides. The paths of the files that it needs and their expected digest are sent with it (`code.runtime_of`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from evenkeel.errors import EngineError, StaleCode
from evenkeel.spark.code import package_files, read_files, runtime_digest
from evenkeel.spark.column_types import columns_of
from evenkeel.spark.memory import look_for_circles_seldom, return_freed
from evenkeel.spark.packing import Packing

KEY = "key"
MARK = "evenkeel-error:"
_MANY = 20_000
"""Number of rows of a group whose memory is worth returning: the worker waits for the next group, perhaps for long."""

Rows = list[dict[str, Any]]
Decide = Callable[[Mapping[str, object], Mapping[str, Rows]], Mapping[str, Rows]]


@dataclass(frozen=True, slots=True)
class Job:
    """Work of a worker, as plain text, so that nothing of it depends on pickled classes.

    `code` is the digest of the `files` that decide (paths below the package). `by` names the columns of the key.
    `inputs` and `outputs` hold schemas as JSON, `parameters` JSON text or None.
    """

    decide: str
    code: str
    files: tuple[str, ...]
    by: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    parameters: str | None


def same_rows(_key: Mapping[str, object], rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
    """Return the rows of one group unchanged: the check of the workers' code decides nothing."""
    return rows


class MarkedError(Exception):
    """An error as one marked line, which the client can find in whatever text Spark wraps around it."""

    def __init__(self, error: Exception, context: str) -> None:
        lines = str(error).strip().splitlines() or [""]
        fact = {"type": type(error).__name__, "text": lines[0], "context": context}
        super().__init__(f"{MARK}{json.dumps(fact)}")


def group_function(job: Job) -> Callable[[pa.Table], pa.Table]:
    """Return the function that Spark sends to the workers: nothing but this call.

    It is a nested function rather than a partial, whose type hints pyspark fails to read.
    """

    def decide_one(table: pa.Table) -> pa.Table:
        return decide_group(job, table)

    return decide_one


def decide_group(job: Job, table: pa.Table) -> pa.Table:
    """Decide one group: Spark calls it with all rows of the group, as `KEY` (text) and packed; return packed rows."""
    key_text = table.column(KEY)[0].as_py()
    look_for_circles_seldom()
    try:
        demand_code(job.code, job.files)
        decided = _decided(job, table)
    except Exception as error:
        raise MarkedError(error, f"{job.decide} on {key_text}") from error
    if table.num_rows > _MANY:
        return_freed()
    return decided


def demand_code(expected: str, files: Sequence[str]) -> None:
    """Raise StaleCode unless these files, under this Python and pyspark, have the digest that the client expects.

    The files are checked as this process imported them and as they are on disk: a worker lives on, and may import a
    module after a change. The disk is read once for all groups of a Spark task; for each group it took as long as a
    small decision.
    """
    running = TaskContext.get()
    wanted = tuple(files)
    on_disk = runtime_digest(read_files(wanted)) if running is None else _on_disk(wanted, running.taskAttemptId())
    if _imported(wanted) != expected or on_disk != expected:
        raise StaleCode(
            "The server's workers run other code than this client: restart the server (`make stop`), or on a cluster "
            "install this version on the workers. Their Python and pyspark must have the client's minor versions, too."
        )


@cache
def _imported(files: tuple[str, ...]) -> str:
    known = package_files()
    return runtime_digest({path: known[path] for path in files if path in known})


@lru_cache(maxsize=1)
def _on_disk(files: tuple[str, ...], task_attempt: int) -> str:
    return runtime_digest(read_files(files))


def _decided(job: Job, table: pa.Table) -> pa.Table:
    rows = packing_of(job.inputs).rows(table)
    first = next(table_rows[0] for table_rows in rows.values() if table_rows)
    key = {column: first[column] for column in job.by}
    answer = _resolve(job)(key, rows)
    del rows, first  # the rows of a window take most of the memory, and packing the answer takes as much again
    unknown = sorted(set(answer) - {name for name, _ in job.outputs})
    if unknown:
        raise EngineError(f"{job.decide} returned rows for {', '.join(unknown)}, which is not an output of this call.")
    return packing_of(job.outputs).table(answer, key)


def _resolve(job: Job) -> Decide:
    module, _, name = job.decide.partition(":")
    decide: Callable[..., Mapping[str, Rows]] = getattr(import_module(module), name)
    return decide if job.parameters is None else partial(decide, parameters=json.loads(job.parameters))


@cache
def packing_of(tables: tuple[tuple[str, str], ...]) -> Packing:
    """Return the packing of tables, each a name and its schema as JSON."""
    types = {name: StructType.fromJson(json.loads(text)) for name, text in tables}
    return Packing({name: columns_of(schema, name) for name, schema in types.items()})
