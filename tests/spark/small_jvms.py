"""Small JVMs without Spark, in which the server's own Java classes are compiled and called."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway

from evenkeel.spark import local_files
from evenkeel.spark.java import delta_jars, server_java, spark_home


@contextmanager
def running(
    classes: Path, source: str = local_files.SOURCE, jars: Sequence[Path] = (), options: Sequence[str] = ()
) -> Iterator[Any]:
    """A gateway into a JVM with pyspark's jars, Delta's and these, and the source compiled into the folder."""
    own = spark_home() / "jars"
    (py4j,) = own.glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join([f"{own}/*", *map(str, delta_jars()), *map(str, jars), str(classes)]),
        java_path=str(server_java()),
        javaopts=["-Xmx256m", *options],
        die_on_exit=True,
        enable_auth=True,
    )
    try:
        local_files.compile_into(gateway.jvm, classes, source)
        yield gateway
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()
        gateway.java_process.wait()


@contextmanager
def frozen(gateway: Any) -> Iterator[None]:
    """The JVM stands still for a `with` block, in which this process must not tell it which objects it has dropped."""
    gc.collect()
    gc.disable()
    gateway.java_process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        gateway.java_process.send_signal(signal.SIGCONT)
        gc.enable()
