"""Command line and environment of the Connect server: its settings, and the reason for each.

The server is started as plain `java`, not through spark-submit, which demands a module that the JVM from PyPI lacks.
The command needs `spark.gateway` beside it, which makes the JVM serve.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evenkeel.errors import EngineError, visible
from evenkeel.secret import text_given
from evenkeel.spark import SESSION_SETTINGS, file_systems, gateway
from evenkeel.spark.code import SUITES_VARIABLE, source_root
from evenkeel.spark.home import login
from evenkeel.spark.jars import delta_jars, object_store_jars, server_java, spark_home

MEMORY_VARIABLE = "EVENKEEL_SERVER_MEMORY"
CORES_VARIABLE = "EVENKEEL_SERVER_CORES"
TOKEN_VARIABLE = "EVENKEEL_SPARK_TOKEN"
HOST = "127.0.0.1"
CLIENT_HOST = "localhost"
"""The only host name for which a client shows a token without TLS."""
_ROOMY_MEGABYTES = 3072  # from this heap on memory that was used once is kept rather than given back
DAEMON = "evenkeel.spark.daemon"
"""The module that Spark forks its Python workers from."""

_TOKEN = re.compile(r"[A-Za-z0-9_.~-]{16,512}")
_HEAP = re.compile(r"(\d{1,6})([gGmM])")
_SPARKS_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# The variables that Java and Python workers need of this process's environment. Every query with a Python function
# could read all others, such as tokens of clusters and keys of stores.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TMPDIR", "LD_LIBRARY_PATH", SUITES_VARIABLE)

OPENED_PACKAGES = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)

# The same on every engine, so that a table looks alike whichever engine wrote it.
SQL_SETTINGS = {
    **SESSION_SETTINGS,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # No writer of ours writes log compactions (`*.compacted.json`), so an existing one is forged.
    "spark.databricks.delta.deltaLog.minorCompaction.useForReads": "false",
    # Tables that no query reads any more are forgotten after ten minutes; the default is an hour.
    "spark.databricks.delta.delta.log.cacheRetentionMinutes": "10",
    # Listing files with the default of 10,000 tasks made VACUUM of five files take 100 s; with 4 it took 2 s.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # Below this bound, which is 0, Spark measures all vectors again with every row that it sends to a Python worker.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.ui.enabled": "false",
    # Spark keeps the data of its web page, a thousand queries with their plans, even if the page is off.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    # A day's distinct queries fit; with the default of 1,000 compiled ones were evicted and compiled again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Java's garbage collection frees what a finished grouped map kept, and a small heap seldom needs one.
    "spark.cleaner.periodicGC.interval": "5min",
}

# The driver's ports beside Spark Connect, for every master that is one process on this machine: they accept serialised
# objects from any client. For such a master Spark makes the secret itself.
LOCAL_SETTINGS = {"spark.authenticate": "true", "spark.driver.host": HOST, "spark.driver.bindAddress": HOST}

# Warnings only: at INFO every query leaves a page, and the server may run for months. The errors that ErrorUtils logs
# reach the client anyway, or concern results that it has read. A refused commit in an object store is a conflict, which
# is tried again.
LOG_SETTINGS = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss'Z'}{UTC} %p %c{1}: %m%n%ex
logger.errors.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.errors.level = off
logger.refused.name = org.apache.hadoop.fs.s3a.S3ABlockOutputStream
logger.refused.level = error
"""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings in which two servers may differ; a server with other settings is not reused.

    `memory` is Java's heap (`2g`), `cores` the threads of the local master, `python_path` further folders that workers
    import from, `spark` further Spark settings, `java` further options of Java. The last two override this module's.
    """

    memory: str = field(default_factory=lambda: os.environ.get(MEMORY_VARIABLE, "2g"))
    cores: int = field(default_factory=lambda: int(os.environ.get(CORES_VARIABLE, "2")))
    python_path: tuple[str, ...] = ()
    spark: tuple[tuple[str, str], ...] = ()
    java: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, with what the process inherits and cannot change later."""
        inherited = {"python": sys.executable, "source_root": str(source_root())}
        body = {**asdict(self), **inherited, "java_sources": file_systems.sources_digest()}
        plain: dict[str, Any] = json.loads(json.dumps(body))
        return plain


def server_command(
    port: int, folder: Path, settings: ServerSettings, address: str = HOST, *, brief: bool = False
) -> list[str]:
    """Return the command that serves Spark Connect on `address`:`port`, with its scratch files below `folder`.

    `brief` is for a server that soon ends and has little to do: compiling for speed takes more time than it saves.
    """
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(LOG_SETTINGS, encoding="utf-8")
    scratch = folder / "scratch"
    classes = gateway.classes_folder(folder)
    classes.mkdir(parents=True, exist_ok=True)  # Java looks once whether a place on the class path is a folder
    # Java takes a class from the first jar that has it: Spark's own before those for S3.
    class_path = [*delta_jars(), spark_home() / "jars" / "*", *object_store_jars(), classes]
    spark = {
        **SQL_SETTINGS,
        **file_systems.settings(folder),
        "spark.master": f"local[{settings.cores}]",
        "spark.app.name": "evenkeel",
        **LOCAL_SETTINGS,
        "spark.connect.grpc.binding.address": address,
        "spark.connect.grpc.binding.port": str(port),
        # Spark keeps the last query of each ended session with its rows, 10,000 by default, for a client that might ask
        # for its answer again.
        "spark.connect.execute.manager.abandonedTombstonesSize": "100",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.daemon.module": DAEMON,
        # Else each session has Python workers of its own (`gateway`). Clients send this server no files that other
        # sessions must not see, and workers check that their code is the caller's.
        "spark.sql.artifact.isolation.enabled": "false",
        **dict(settings.spark),
    }
    return [
        str(server_java()),
        *("-cp", os.pathsep.join(map(str, class_path))),
        *(f"-Xmx{settings.memory}", "-Xss4m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=256m"),
        *_heap_options(settings.memory),
        # A server whose heap is full loses messages of its own scheduler, and then its clients wait for ever.
        "-XX:+ExitOnOutOfMemoryError",
        # The second compiler tier pays after a dozen cycles, which it makes a fifth faster. Over the start and one
        # cycle it and its figures take 24 of 60 CPU seconds.
        *(("-XX:TieredStopAtLevel=1",) if brief else ()),
        *("-XX:+UnlockExperimentalVMOptions", "-XX:TrimNativeHeapInterval=60000", "-XX:+IgnoreUnrecognizedVMOptions"),
        *settings.java,
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        *("-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"),
        f"-Dlog4j2.configurationFile={log_settings}",
        *(f"-Djava.io.tmpdir={scratch}", "-XX:-UsePerfData"),
        f"-Devenkeel.writer={_as_writer(folder)}",
        *(f"-D{key}={value}" for key, value in sorted(spark.items())),
        gateway.MAIN_CLASS,
    ]


def _as_writer(folder: Path) -> str:
    """Return the one line by which the server names itself to others that would write the same lake."""
    return visible(f"{login()} on {socket.gethostname()}, server of {folder}")


def _heap_options(memory: str) -> list[str]:
    size = _HEAP.fullmatch(memory)  # Java reports an invalid one
    megabytes = int(size[1]) * (1024 if size[2] in "gG" else 1) if size else 0
    # Each time the heap grows, all of it is collected first: a heap that may be little empty grows and shrinks with
    # each task. Of six days in windows that took 11 s of 190 with 10 and 30 percent, and 4 s with 40 and 50. With
    # Java's own limit for shrinking (70) the default heap grows to its maximum and stays there, and so does the memory
    # of Java's compilers and class loading. A user who sets more than the default can spare it.
    shrunk = ["-XX:MaxHeapFreeRatio=50"] if megabytes < _ROOMY_MEGABYTES else []
    # A quarter is for young objects. With 256 MB windows of three days spend 14 % of their time on garbage collection,
    # with 512 MB 9 %.
    return [*shrunk, "-XX:-ShrinkHeapInSteps", f"-Xmn{max(64, min(768, megabytes // 4))}m"]


def server_environment(settings: ServerSettings, token: str) -> dict[str, str]:
    """Return the environment of the server and, through it, of its Python workers: their needs, and no secrets.

    `token` is what clients have to show. It is never on the command line, which every user of the machine can read.
    """
    python_path = [str(source_root()), *settings.python_path]
    return {
        **inherited_environment(),
        _SPARKS_TOKEN_VARIABLE: token,
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        # Java's compilers allocate in many threads, and glibc keeps an arena of freed memory for each: 100 MB and more.
        "MALLOC_ARENA_MAX": "2",
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
    }


def inherited_environment() -> dict[str, str]:
    """Return the variables that the server's processes inherit from this one."""
    return {key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith("LC_")}


def connect_url(port: int, token: str) -> str:
    """Return the URL of a server on this machine, with the token: a secret, not to be shown."""
    return f"sc://{CLIENT_HOST}:{port}/;token={token}"


def without_token(url: str) -> str:
    """Return a connection string fit to be shown: without parameters, user and password."""
    return re.sub("//[^/]*@", "//", url).partition("/;")[0]


def token_given(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token in EVENKEEL_SPARK_TOKEN, or in the file that EVENKEEL_SPARK_TOKEN_FILE names."""
    given = text_given(TOKEN_VARIABLE, environment)
    token = "" if given is None else given[0].strip()
    if token and not _TOKEN.fullmatch(token):
        raise EngineError(
            f"the token in {TOKEN_VARIABLE} is too short or holds signs that a URL cannot: make one with "
            "`openssl rand -hex 32`"
        )
    return token or None
