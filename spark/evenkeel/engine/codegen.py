"""Whether Spark compiles queries and plans them anew while they run: worth it for a million rows, not for a thousand.

Spark turns each query into Java source and compiles it. Over the tables of a small cluster that costs more than the
queries themselves: a cycle of 300 topics took 67 CPU seconds of a busy machine with it and 29 without. Planning anew
after each stage (adaptive execution) took another tenth. Sessions decide for themselves: tasks of one run may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compile_queries(spark: SparkSession, *, compiled: bool) -> None:
    """From here on this session compiles its queries and adapts their plans, or does neither."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.adaptive.enabled", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")
