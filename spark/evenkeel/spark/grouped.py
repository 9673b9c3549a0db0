"""Grouped maps: pure code in Spark gets rows of several tables, group by group.

`grouped_map(…, by=["cluster"], decide=shed, …)` calls `shed(key, rows)` once for each cluster, in a Python worker, with
that cluster's rows of every input, and returns its answers as DataFrames. Rows arrive sorted by their content, so their
order in the tables cannot matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.errors import DecideFailed, EngineError, StaleCode
from evenkeel.spark.cluster_faults import cluster_fault
from evenkeel.spark.code import runtime_of
from evenkeel.spark.column_types import Columns, columns_of
from evenkeel.spark.packing import Packing
from evenkeel.spark.rows import TIMESTAMP_FORMAT
from evenkeel.spark.session import ISOLATION, keep, ship_code
from evenkeel.spark.sql import united
from evenkeel.spark.worker import KEY, MARK, Job, group_function

_KEY_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": TIMESTAMP_FORMAT, "timeZone": "UTC"}
RAISED = re.compile(r"[A-Za-z_.]+(Error|Exception): ")  # the last line of a Python traceback

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def grouped_map(
    inputs: Mapping[str, DataFrame],
    *,
    by: Sequence[str],
    decide: Callable[..., Mapping[str, list[dict[str, Any]]]],
    outputs: Mapping[str, StructType],
    parameters: Mapping[str, Any] | None = None,
    schemas: Mapping[str, StructType] | None = None,
    on_disk: bool = False,
    partitions: int | None = None,
) -> dict[str, DataFrame]:
    """Call `decide(key, {kind: rows})` for each value of the `by` columns and return one DataFrame for each output.

    `decide` is a function at module level of a module that the workers can import; it is sent as its import path. If
    `parameters` (JSON values) are given, it is called with `parameters=` as well. Values are as the module `rows` says.
    A `by` column that an output has and a returned row lacks is filled from the key. A key that only some inputs have
    gets empty lists for the others. `schemas` are those of inputs whose columns and types are already known: asking the
    server for them takes as long as a small query. `partitions` is the number of groups of work, however small, to
    which keys are assigned (`partition_of`); by default Spark decides.

    The functions run before this returns, once. The result stays with the server, in memory or `on_disk`, for as long
    as the DataFrames (or anything derived from them) are in use. Raises DecideFailed with the first line of an error in
    `decide`, StaleCode if a worker has other code than this process for `decide`, and EngineError if a value does not
    fit its column.
    """
    types = {kind: (schemas or {}).get(kind) or rows.schema for kind, rows in sorted(inputs.items())}
    packing = Packing({kind: columns_of(schema, f"input {kind}") for kind, schema in types.items()})
    results = Packing({name: columns_of(schema, f"output {name}") for name, schema in sorted(outputs.items())})
    _refuse_other_keys(packing.tables, by)
    path = import_path(decide)
    runtime = runtime_of(path.partition(":")[0])
    job = Job(
        decide=path,
        code=runtime.digest,
        files=runtime.files,
        by=tuple(by),
        inputs=tuple((kind, schema.json()) for kind, schema in types.items()),
        outputs=tuple((name, schema.json()) for name, schema in sorted(outputs.items())),
        parameters=None if parameters is None else json.dumps(dict(parameters), sort_keys=True),
    )
    key = F.to_json(F.struct(*by), _KEY_OPTIONS).alias(KEY)
    packed = united([packing.packed(kind, inputs[kind], key) for kind in types])
    if partitions is not None:
        packed = packed.repartition(partitions, KEY)
    kept = run_kept(packed.groupBy(F.col(KEY)).applyInArrow(group_function(job), results.ddl), on_disk=on_disk)
    return {name: results.unpacked(name, kept) for name in outputs}


def partition_of(by: Sequence[str], partitions: int) -> Column:
    """Return the number of the partition, out of `partitions`, to which a key with these columns is sent."""
    return F.pmod(F.hash(F.to_json(F.struct(*by), _KEY_OPTIONS)), F.lit(partitions))


def import_path(function: Callable[..., Any]) -> str:
    """Return `package.module:function`; raises EngineError for a function that a worker cannot import by that path."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise EngineError(
            f"{function!r} cannot be imported by a worker: it must be a function at module level, in a module that is "
            "not run as a script."
        )
    return f"{module}:{name}"


def _refuse_other_keys(inputs: Mapping[str, Columns], by: Sequence[str]) -> None:
    if not inputs or not by:
        raise EngineError("grouped_map needs at least one input and at least one column to group by.")
    for kind, columns in inputs.items():
        missing = [column for column in by if column not in columns]
        if missing:
            raise EngineError(f"Input {kind} has no column {', '.join(missing)}, by which its rows are grouped.")
    if len({tuple(columns[column] for column in by) for columns in inputs.values()}) > 1:
        raise EngineError(f"The columns {', '.join(by)} have different types in {', '.join(inputs)}.")


def run_kept(decided: DataFrame, *, on_disk: bool = False) -> DataFrame:
    """Run the workers' computation once and keep its result, in memory or `on_disk`.

    Raises an error that a worker marked as its own type.
    """
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException

    ship_code(decided.sparkSession)
    try:
        return keep(decided, StorageLevel.DISK_ONLY if on_disk else None)
    except PySparkException as error:
        raise _translated(str(error)) from None


def marked_error(text: str) -> EngineError | None:
    """Read the error that a worker marked from Spark's text around it; return None if it marked none."""
    for line in text.splitlines():
        _, mark, fact_text = line.partition(MARK)
        if mark:
            fact, _ = json.JSONDecoder().raw_decode(fact_text)
            if fact["type"] == StaleCode.__name__:
                return StaleCode(fact["text"])
            return DecideFailed(f"{fact['context']}: {fact['type']}: {fact['text']}")
    return None


def _translated(text: str) -> EngineError:
    marked = marked_error(text)
    if marked is not None:
        return marked
    if "No module named 'evenkeel" in text:
        return EngineError(
            "The workers of this endpoint cannot import evenkeel: put this version of it on their path, or have the "
            f"server keep sessions apart ({ISOLATION}=true), and each gets it sent."
        )
    befallen = cluster_fault(text)
    if befallen is not None:
        return befallen
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if RAISED.match(line)] or lines or ["no text"]
    return EngineError(f"Spark could not run the decisions: {telling[-1]}")
