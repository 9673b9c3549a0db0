"""A store that speaks S3, on loopback: s3proxy, run by the same Java as the Connect server.

It is good for conditional writes with If-None-Match, checks signatures and checksums, and knows multipart uploads; its
If-Match is not to be trusted.
"""

import contextlib
import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evenkeel.spark.jars import Jar, resolve, server_java

S3PROXY = Jar(
    "org.gaul",
    "s3proxy",
    "4.1.0",
    "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d",
    classifier="jar-with-dependencies",
)
ACCESS_KEY = "landing"
SECRET_KEY = "a-secret-that-no-text-may-show"
START_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class StandIn:
    """A running store: its port on 127.0.0.1, and the folder that holds its buckets as folders, objects as files."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[StandIn]:
    """The store over an empty `folder`; it ends with this block, and with this process however that dies."""
    store, port = folder / "store", free_port()
    store.mkdir(parents=True)
    properties = folder / "s3proxy.properties"
    properties.write_text(
        "s3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={ACCESS_KEY}\ns3proxy.credential={SECRET_KEY}\n"
        f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={store}\n"
    )
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [str(server_java()), *options, "-jar", str(resolve([S3PROXY])[0]), "--properties", str(properties)]
    with (folder / "s3proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
    try:
        await_port(process, port, folder / "s3proxy.log")
        yield StandIn(port, store)
    finally:
        process.kill()
        process.wait()


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the store does not answer: {log.read_text()[-2000:]}")
