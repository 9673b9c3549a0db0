"""Asks a Spark endpoint its version, and its workers whether they have this client's code; a process of its own."""

from __future__ import annotations

import os
from typing import Any

from evenkeel.doctor.aside import Answer, answer_aside
from evenkeel.spark.session import close, connect

_PARTITIONS = 8


def answer(question: dict[str, Any]) -> Answer:
    """`version`: the server's; `workers`, where they are asked for: "" where they have the same code, else why not."""
    spark = connect(question["url"], "evenkeel doctor")
    try:
        found: Answer = {"version": spark.version, "answered": spark.range(1).count() == 1}
        if question.get("workers"):
            found["workers"] = _workers(spark)
        return found
    finally:
        close(spark)


def _workers(spark: Any) -> str:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    from evenkeel.lake.root_worker import DIGEST, PLACE, ROOTED_DDL, root_function
    from evenkeel.spark.code import runtime_of
    from evenkeel.spark.grouped import marked_error

    runtime = runtime_of("evenkeel.lake.root_worker")
    rows = spark.range(0, _PARTITIONS, 1, _PARTITIONS)
    rows = rows.select(F.lit(0).cast("bigint").alias(PLACE), F.unhex(F.lit("00" * 32)).alias(DIGEST))
    try:
        rows.mapInArrow(root_function(runtime.digest, runtime.files), ROOTED_DDL).collect()
    except PySparkException as error:
        return str(marked_error(str(error)) or str(error).splitlines()[0])
    return ""


if __name__ == "__main__":
    answer_aside(answer)
    os._exit(0)  # a client whose server goes may wait for minutes as it ends
