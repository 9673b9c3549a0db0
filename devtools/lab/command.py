"""Command lines of the cluster's JVMs.

Pulsar runs on the JVM from PyPI. Its modules suffice for a broker, a bookie and ZooKeeper, and no compiler is needed,
since each of them has a main class.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from devtools.lab.conf import CLUSTER, metadata_store
from devtools.lab.ports import Ports, host
from evenkeel.spark.jars import server_java

# Modules that Pulsar's own start scripts open, as far as a broker of this kind uses them.
OPENED_PACKAGES = (
    *("java.base/java.lang", "java.base/java.nio", "java.base/jdk.internal.loader", "java.base/jdk.internal.misc"),
    *("java.base/jdk.internal.platform", "java.management/sun.management"),
    "jdk.management/com.sun.management.internal",
)
# A collector without its own threads, and only the quick compiler: most of a one-minute cluster is start-up.
LEAN = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:-UsePerfData")
# Without it each JVM moves the archive to another address, and 80 MB are not shared.
SAME_ADDRESS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
PROPERTIES = {
    "java.net.preferIPv4Stack": "true",
    "io.netty.tryReflectionSetAccessible": "true",
    "io.netty.leakDetectionLevel": "disabled",
    "zookeeper.preAllocSize": "1024",  # KiB; its log would start with 64 MB
    "bookkeeper.metadata.bookie.drivers": f"{DRIVERS}BookieDriver",
    "bookkeeper.metadata.client.drivers": f"{DRIVERS}ClientDriver",
}
DIRECT_MB = 256


@dataclass(frozen=True, slots=True)
class Java:
    """The JVM with Pulsar's jars: `class_path` in order, `archive` with the classes already read, if there is one.

    With `class_lists`, a folder, each JVM writes its loaded classes to it; an archive is made of these lists.
    """

    class_path: tuple[Path, ...]
    archive: Path | None = None
    class_lists: Path | None = None

    def zookeeper(self, home: Path) -> list[str]:
        return [
            *self._java("zookeeper", home, 64),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            f"{home}/zk.conf",
        ]

    def bookie(self, home: Path) -> list[str]:
        main = "org.apache.bookkeeper.server.Main"
        return [*self._java("bookie", home, 160, direct_mb=128), main, "--conf", f"{home}/bookie.conf"]

    def broker(self, name: str, home: Path, heap_mb: int) -> list[str]:
        main = "org.apache.pulsar.PulsarBrokerStarter"
        return [*self._java(name, home, heap_mb, direct_mb=DIRECT_MB), main, "-c", f"{home}/{name}.conf"]

    def metadata_setup(self, home: Path, ports: Ports) -> list[str]:
        """Write the metadata of an empty cluster into ZooKeeper, and end."""
        store = metadata_store(ports)
        command = [*self._java("setup", home, 128), "org.apache.pulsar.PulsarClusterMetadataSetup"]
        command += ["--cluster", CLUSTER, "--metadata-store", store, "--configuration-metadata-store", store]
        command += ["--web-service-url", f"http://{host(1)}:{ports.web}"]
        command += ["--broker-service-url", f"pulsar://{host(1)}:{ports.service}"]
        return [*command, "--default-namespace-bundle-number", "4", "--initial-num-stream-storage-containers", "0"]

    def _java(self, name: str, home: Path, heap_mb: int, direct_mb: int = 64) -> list[str]:
        command = [str(server_java()), f"-Xmx{heap_mb}m", f"-XX:MaxDirectMemorySize={direct_mb}m", *LEAN]
        if self.class_lists is not None:
            command += [f"-XX:DumpLoadedClassList={self.class_lists}/{name}"]
        elif self.archive is not None:
            command += ["-Xshare:auto", f"-XX:SharedArchiveFile={self.archive}", *SAME_ADDRESS]
        for package in OPENED_PACKAGES:
            command += ["--add-opens", f"{package}=ALL-UNNAMED"]
        settings = {**PROPERTIES, "log4j2.configurationFile": f"{home}/log4j2.xml"}
        command += [f"-D{key}={value}" for key, value in settings.items()]
        return [*command, "-cp", class_path_text(self.class_path)]


def class_path_text(class_path: tuple[Path, ...]) -> str:
    return os.pathsep.join(map(str, class_path))
