"""What pyspark brings along: a whole Spark, and an Ivy among its jars. Found without importing pyspark."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from evenkeel.engine.errors import JarError


def spark_home() -> Path:
    """The folder of pyspark's own Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment; run `make setup`.")
    return Path(spec.origin).parent


def ivy_jar() -> Path:
    """The Ivy with which Spark fetches packages."""
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarError(f"no Ivy among pyspark's jars in {spark_home() / 'jars'}")
    return found[0]
