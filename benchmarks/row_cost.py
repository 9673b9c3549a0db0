"""What a row costs on its way from Spark to a rule and back: processor time of the server and its Python workers.

`python -m benchmarks row_cost [--rows 2000 100000]`. Rows of `bundle_load` and of `topic_stats`, out of a Parquet file,
go through a grouped map that returns none of them, and through one that returns all. Seeded, the best of three. No
goal.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.machine import description
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.grouped import grouped_map
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect
from evenkeel.spark.sql import compile_queries

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHECKOUT = Path(__file__).resolve().parent.parent
COMPILED_FROM = 10_000
Group = Mapping[str, list[dict[str, Any]]]


def drop(key: Mapping[str, object], rows: Group) -> Group:
    """Looks at the rows and returns none."""
    return {"out": rows["in"][:0]}


def echo(key: Mapping[str, object], rows: Group) -> Group:
    """Returns the rows."""
    return {"out": rows["in"]}


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per table, number of rows and way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks row_cost")
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 100_000])
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-rows-"))
    try:
        with engine_for(folder, settings=ServerSettings(python_path=(str(CHECKOUT),))) as engine:
            spark = connect(engine.url, "benchmark row_cost")
            for table in ("bundle_load", "topic_stats"):
                for count in given.rows:
                    _measure(spark, engine.pid, folder, table, count)
            close(spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(spark: SparkSession, server: int, folder: Path, table: str, count: int) -> None:
    path = str(folder / f"{table}-{count}")
    compile_queries(spark, compiled=count >= COMPILED_FROM)
    spark.range(count).select(*_columns(table)).write.parquet(path)
    rows, schema = spark.read.parquet(path), TABLES[table].struct_type()

    def seconds(decide: Callable[..., Group]) -> float:
        before = _cpu(server)
        made = grouped_map({"in": rows}, by=["cluster"], decide=decide, outputs={"out": schema}, schemas={"in": schema})
        _written_nowhere(made["out"])
        return _cpu(server) - before

    for decide, words in ((drop, "there"), (echo, "there and back")):
        seconds(decide)
        best = min(seconds(decide) for _ in range(3))
        each = 1e6 * best / count
        print(
            f"    {table:<12}{count:>8,} rows, {words:<15}{best:6.2f} s of processor, {each:6.1f} µs a row", flush=True
        )


def _columns(table: str) -> list[Column]:
    from pyspark.sql import functions as F

    number = F.col("id")
    by_type = {
        "string": F.concat(F.lit("x"), (number % 7).cast("string")),
        "double": F.rand(1) * 1e4,
        "bigint": number % 5_000,
        "int": (number % 10).cast("int"),
        "boolean": number % 3 == 0,
        "timestamp": F.lit("2026-11-21T09:15:00.123456+00:00").cast("timestamp"),
        "date": F.lit("2026-11-21").cast("date"),
    }
    name = F.concat(F.lit("tenant/ns"), (number % 300).cast("string"), F.lit("/0x"), F.lpad(F.hex(number), 8, "0"))
    by_name = {"cluster": F.lit("lab"), "write_id": F.lit("0" * 32), "bundle": name, "topic": name}
    return [by_name.get(one.name, by_type[one.type]).alias(one.name) for one in TABLES[table].columns]


def _written_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _cpu(pid: int) -> float:
    """Seconds of processor time of a process and its children, those that have ended too."""
    process = psutil.Process(pid)
    return sum(sum(one.cpu_times()[:4]) for one in (process, *process.children(recursive=True)))


if __name__ == "__main__":
    raise SystemExit(main())
