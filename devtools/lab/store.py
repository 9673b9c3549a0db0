"""ZooKeeper and the bookie, which store the state of a cluster's brokers. A JVM each, both on loopback only."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO

from devtools.lab import conf
from devtools.lab.command import Java
from devtools.lab.errors import LabError
from devtools.lab.jvms import Jvm, tail
from devtools.lab.ports import Ports, host
from devtools.lab.waiting import takes_connections, wait_until

START_SECONDS = 90.0


def start_zookeeper(home: Path, java: Java, ports: Ports, *, owner: str | None, lock: IO[bytes]) -> None:
    """Start ZooKeeper over the files in `zookeeper/`, if there are any; its keeper holds the lock of the ports."""
    data = home / "zookeeper"
    data.mkdir(exist_ok=True)
    (home / "zk.conf").write_text(conf.zookeeper(ports, data))
    jvm = Jvm(home, "zookeeper")
    jvm.start(java.zookeeper(home), owner=owner, lock=lock)
    _await_port(jvm, ports.zookeeper)


def start_bookie(home: Path, java: Java, ports: Ports, *, owner: str | None) -> None:
    data = home / "bookie"
    data.mkdir(exist_ok=True)
    (home / "bookie.conf").write_text(conf.bookie(ports, data))
    jvm = Jvm(home, "bookie")
    jvm.start(java.bookie(home), owner=owner)
    _await_port(jvm, ports.bookie)


def set_up_metadata(home: Path, java: Java, ports: Ports, *, owner: str | None) -> None:
    """Have Pulsar write the metadata of an empty cluster."""
    jvm = Jvm(home, "setup")
    jvm.start(java.metadata_setup(home, ports), owner=owner)
    wait_until("Pulsar's set-up of metadata", lambda: jvm.identity() is None, seconds=START_SECONDS)
    if "setup correctly" not in jvm.log.read_text(encoding="utf-8", errors="replace"):
        raise LabError(f"Pulsar did not set its metadata up. {tail(jvm.log)}")


def copy_metadata(home: Path, to: Path) -> None:
    """Copy ZooKeeper's files; it must not run any more."""
    shutil.copytree(home / "zookeeper", to)


def _await_port(jvm: Jvm, port: int) -> None:
    def still_there() -> None:
        if jvm.identity() is None:
            raise LabError(f"{jvm.name} ended while it started. {tail(jvm.log)}")

    wait_until(
        f"{jvm.name} to listen on {port}",
        lambda: takes_connections(host(1), port),
        seconds=START_SECONDS,
        meanwhile=still_there,
        why=lambda: tail(jvm.log),
    )
