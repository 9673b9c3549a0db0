"""Small JVMs without Spark, in which the server's own Java classes are compiled and called."""

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway

from evenkeel.spark import file_systems
from evenkeel.spark.jars import delta_jars, server_java, spark_home


@contextmanager
def running(classes: Path, s3_jars: Sequence[Path] = (), options: Sequence[str] = ()) -> Iterator[Any]:
    """A gateway into a JVM with pyspark's jars, Delta's and these for S3, and our Java compiled into the folder."""
    own = spark_home() / "jars"
    (py4j,) = own.glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join([f"{own}/*", *map(str, delta_jars()), *map(str, s3_jars), str(classes)]),
        java_path=str(server_java()),
        javaopts=["-Xmx256m", *options],
        die_on_exit=True,
        enable_auth=True,
    )
    try:
        file_systems.compile_into(gateway, classes, with_object_store=bool(s3_jars))
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
