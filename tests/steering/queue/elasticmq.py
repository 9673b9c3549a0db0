"""ElasticMQ, a stand-in for SQS that behaves: FIFO order, deduplication for five minutes, stale receipts refused."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenkeel.spark.java import Jar, resolve, server_java

LOCK = Path(__file__).with_name("elasticmq.lock")
PORTS = range(23000, 23400)
_GIVEN: set[int] = set()
START_SECONDS = 60
CONFIGURATION = """
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
queues {{ {queues} }}
"""


@dataclass(frozen=True)
class Elasticmq:
    """A server that runs."""

    url: str
    port: int
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, port: int | None = None, queues: Sequence[str] = ()) -> Elasticmq:
        """Starts a server with these FIFO queues, empty, and waits until it answers."""
        port = port or free_port()
        made = ", ".join(f'"{name}" {{ fifo = true }}' for name in queues)
        configuration = folder / "elasticmq.conf"
        configuration.write_text(CONFIGURATION.format(port=port, queues=made), encoding="utf-8")
        command = [str(server_java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dconfig.file={configuration}", "-cp", ":".join(map(str, jars())), "org.elasticmq.server.Main"]
        log = folder / "elasticmq.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=end_with_parent)
        until = time.monotonic() + START_SECONDS
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise RuntimeError(f"ElasticMQ did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return cls(f"http://127.0.0.1:{port}", port, process)

    def stop(self) -> None:
        self.process.kill()  # nothing in it is to be kept
        self.process.wait()


def jars() -> list[Path]:
    """The server and all it needs, as pinned."""
    pinned = []
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        digest, coordinates = line.split()
        group, artifact, version = coordinates.split(":")
        pinned.append(Jar(group, artifact, version, digest))
    return resolve(pinned)


def free_port() -> int:
    """A port that is free now and that no earlier call in this process has given out."""
    for port in PORTS:
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _GIVEN.add(port)
        return port
    raise RuntimeError(f"no port is free among {PORTS}")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def end_with_parent() -> None:
    """The server does not outlive this process, however that ends (Linux; elsewhere the fixture ends it)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)
