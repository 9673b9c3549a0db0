"""A standalone cluster of Spark on this machine: a master, two workers of one core each, and a Connect server in front.

It is made of pyspark's own jars and a full JDK, as an operator would start it: nothing in it is Evenkeel's but the
settings that the documentation names. Each process listens on a port that the system chooses and says which in its log.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.short_sessions import heap_contents
from evenkeel.spark.command import HOST, OPENED_PACKAGES, SQL_SETTINGS, connect_url, inherited_environment
from evenkeel.spark.jars import classic_java, delta_jars, spark_home

TOKEN = "a-token-of-the-cluster-0123456789"
START_SECONDS = 900.0
TICK_SECONDS = 0.2
WORKERS = 2
SMALL_CACHES = {
    "spark.sql.codegen.cache.maxEntries": "100",
    "spark.connect.ui.retainedSessions": "20",
    "spark.connect.ui.retainedStatements": "20",
    "spark.connect.session.manager.closedSessionsTombstonesSize": "20",
}
"""What Spark itself keeps of sessions that have ended, up to a bound, is full after some dozens of them."""
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SESSION_HOLDER = "org.apache.spark.sql.connect.service.SessionHolder"

_LOG = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.serving.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.serving.level = info
"""
# `make setup` links the package into the environment; this takes it off the path of the workers' Python again.
_WITHOUT_THE_PACKAGE = """
import os, sys
found = lambda path: os.path.isdir(os.path.join(path, "evenkeel"))
sys.path[:] = [path for path in sys.path if path == {installed!r} or not found(path)]
"""


@dataclass
class Part:
    """A process of the cluster and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> re.Match[str]:
        """The first match in the log; waits for it, and fails where the process ends or time is up."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            found = re.search(pattern, self.log.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                return found
            assert self.process.poll() is None, f"{self.log.name} ended: {self.tail()}"
            time.sleep(TICK_SECONDS)
        raise AssertionError(f"{self.log.name} did not say {pattern!r} within {START_SECONDS:.0f} s: {self.tail()}")

    def tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends the process and whatever it has started, at once with SIGKILL."""
        started = self.children()
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(started, 20)


class StandaloneCluster:
    """The parts, and what is asked of them. `local_folders`: the scratch folders of workers that have one of their own.

    The workers' Python finds the packages of this environment without Evenkeel, and what is put into `installed`.
    """

    def __init__(self, folder: Path, local_folders: Mapping[int, Path] = {}) -> None:
        self.folder, self.installed = folder, folder / "installed"
        self._java, self._local_folders = str(classic_java()), dict(local_folders)
        self._number = 0
        self._parts: list[Part] = []
        self.workers: dict[int, Part] = {}
        self.port = 0
        for name in ("bare", "installed", "events", "local-server", "temporary"):
            (folder / name).mkdir(parents=True)
        (folder / "bare" / "sitecustomize.py").write_text(_WITHOUT_THE_PACKAGE.format(installed=str(self.installed)))
        (folder / "log4j2.properties").write_text(_LOG)

    def start(self) -> None:
        """Starts all parts, and waits until the server takes connections."""
        self.master = self._java_part("master", MASTER, ["--host", HOST, "--port", "0", "--webui-port", "0"], "256m")
        found = self.master.said(rf"Starting Spark master at (spark://{re.escape(HOST)}:\d+)")
        self.address = found[1]
        for number in range(WORKERS):
            self.start_worker(number)
        self.start_server()

    def start_worker(self, number: int) -> None:
        """A worker of one core, and waits until the master knows it."""
        work = self.folder / f"work-{number}"
        options = ["--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "640m"]
        local = self._local_folders.get(number, self.folder / f"local-{number}")
        local.mkdir(exist_ok=True)
        more = {"SPARK_LOCAL_DIRS": str(local)}
        part = self._java_part(
            f"worker-{number}", WORKER, [*options, "--work-dir", str(work), self.address], "256m", more
        )
        self.workers[number] = part
        part.said("Successfully registered with master")

    def start_server(self) -> None:
        """A Connect server, which is the driver, and waits until it takes connections."""
        settings = {
            **SQL_SETTINGS,
            **SMALL_CACHES,
            "spark.master": self.address,
            "spark.app.name": "evenkeel-tests",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": "0",
            "spark.jars": ",".join(map(str, delta_jars())),
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, (self.installed, self.folder / "bare"))),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (self.folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "java.io.tmpdir": str(self.folder / "temporary"),
        }
        more = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN, "SPARK_LOCAL_DIRS": str(self.folder / "local-server")}
        self.server = self._java_part("server", CONNECT, [], "768m", more, settings)
        self.port = int(self.server.said(r"Spark Connect server started at: \S*?:(\d+)")[1])

    @property
    def url(self) -> str:
        """The Connect server's URL, with its token."""
        return connect_url(self.port, TOKEN)

    def live(self, kind: str) -> int:
        """How many objects of a class are live in the server, after a collection."""
        return heap_contents(self.server.process.pid).objects.get(kind, 0)

    def open_sessions(self) -> int:
        """How many sessions the server keeps: those of clients that were killed go after an hour."""
        return self.live(SESSION_HOLDER)

    def kill_server(self) -> None:
        """Kills the driver."""
        self.server.end(signal.SIGKILL)

    def kill_worker(self, number: int) -> None:
        """Kills a worker with its executors and their Python."""
        self.workers[number].end(signal.SIGKILL)

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        return [child for worker in self.workers.values() for child in worker.children() if child.name() == "java"]

    def pythons(self) -> list[psutil.Process]:
        """The executors' Python daemons and workers."""
        return [child for worker in self.workers.values() for child in worker.children() if child.name() != "java"]

    def end(self) -> None:
        """Ends every process that was started."""
        for part in reversed(self._parts):
            part.end()

    def tasks(self) -> Counter[str]:
        """How many tasks each executor has ended well, by all event logs."""
        return Counter(
            str(event["Task Info"]["Executor ID"])
            for event in self.events("SparkListenerTaskEnd")
            if event["Task End Reason"]["Reason"] == "Success"
        )

    def events(self, kind: str) -> Iterator[dict[str, object]]:
        """Events of that kind in the event logs of all Connect servers so far."""
        for file in sorted((self.folder / "events").iterdir()):
            for line in file.read_text(encoding="utf-8").splitlines():
                if f'"Event":"{kind}"' in line:
                    with suppress(ValueError):  # the last line of one that was killed
                        yield json.loads(line)

    def _java_part(
        self,
        name: str,
        main: str,
        arguments: Sequence[str],
        heap: str,
        more: Mapping[str, str] = {},
        settings: Mapping[str, str] = {},
    ) -> Part:
        self._number += 1
        log = self.folder / f"{name}-{self._number}.log"
        class_path = [str(jar) for jar in delta_jars()] if settings else []
        command = [
            *(self._java, "-cp", os.pathsep.join([*class_path, f"{spark_home()}/jars/*"])),
            *(f"-Xmx{heap}", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
            *("-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            *(f"-D{key}={value}" for key, value in sorted(settings.items())),
            *(main, *arguments),
        ]
        environment = {
            **inherited_environment(),
            "JAVA_HOME": str(Path(self._java).parent.parent),
            "SPARK_HOME": str(spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            # Without it a worker looks for the folders of a build of Spark, which the package from PyPI lacks.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": HOST,
            "TZ": "UTC",
            "MALLOC_ARENA_MAX": "2",
            "PYTHONHASHSEED": "0",
            **more,
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        part = Part(process, log)
        self._parts.append(part)
        return part
