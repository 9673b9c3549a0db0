"""ElasticMQ, a stand-in for SQS that behaves: FIFO order, deduplication for five minutes, stale receipts refused."""

import ctypes
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from filelock import FileLock, Timeout

from evenkeel.spark.jars import locked_jars, resolve, server_java

LOCK = Path(__file__).with_name("elasticmq.lock")
PORTS = range(23000, 23400)
_GIVEN: dict[int, FileLock] = {}
START_SECONDS = 60
CONFIGURATION = """
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {named}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
queues {{ {queues} }}
"""


@contextmanager
def running_elasticmq(folder: Path) -> Iterator[str]:
    """The URL of a server without queues, once it answers."""
    port = free_port()
    process = _started(folder, port, port, ())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()  # nothing in it is to be kept
        process.wait()


@contextmanager
def born_with(queues: Sequence[str], folder: Path, port: int) -> Iterator[None]:
    """A server that has these FIFO queues, empty, from the first moment that the port takes connections.

    By itself a server listens first and makes its queues then.
    """
    inner = free_port()
    process = _started(folder, inner, port, queues)
    try:
        for name in queues:
            wait_for(lambda name=name: knows(inner, name), f"the queue {name}")
        with Relay(port, inner):
            yield
    finally:
        process.kill()
        process.wait()


def _started(folder: Path, port: int, named: int, queues: Sequence[str]) -> subprocess.Popen[bytes]:
    """A server at `port` whose queues' URLs have the port `named`."""
    made = ", ".join(f'"{name}" {{ fifo = true }}' for name in queues)
    configuration = folder / "elasticmq.conf"
    configuration.write_text(CONFIGURATION.format(port=port, named=named, queues=made), encoding="utf-8")
    command = [str(server_java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    jars = ":".join(map(str, resolve(locked_jars(LOCK))))
    command += [f"-Dconfig.file={configuration}", "-cp", jars, "org.elasticmq.server.Main"]
    log = folder / "elasticmq.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=end_with_parent)
    try:
        wait_for(lambda: process.poll() is not None or answers(port), "ElasticMQ")
        if process.poll() is not None:
            raise RuntimeError("ElasticMQ ended")
    except RuntimeError as error:
        process.kill()
        raise RuntimeError(f"{error}: {log.read_text(errors='replace')[-2000:]}") from None
    return process


def wait_for(found: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not found():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} was not there in {START_SECONDS} s")
        time.sleep(0.05)


class Relay(socketserver.ThreadingTCPServer):
    """Passes what comes to one port of this machine on to another."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, to: int) -> None:
        self.to = to
        super().__init__(("127.0.0.1", port), _Passing)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Passing(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.to)) as there:
            back = threading.Thread(target=_pass_on, args=(there, self.request), daemon=True)
            back.start()
            _pass_on(self.request, there)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until either end closes; then nobody waits for the other."""
    try:
        while part := source.recv(65_536):
            target.sendall(part)
    except OSError:
        pass
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def free_port() -> int:
    """A port that is free now and that no call in this process or in another one that runs has given out."""
    for port in PORTS:
        if port in _GIVEN:
            continue
        lock = FileLock(Path(tempfile.gettempdir(), f"evenkeel-tests-port-{port}.lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                lock.release()
                continue
        _GIVEN[port] = lock
        return port
    raise RuntimeError(f"no port is free among {PORTS}")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def knows(port: int, queue: str) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/?Action=GetQueueUrl&QueueName={queue}", timeout=10):
            return True
    except HTTPError:
        return False


def end_with_parent() -> None:
    """The server does not outlive this process, however that ends (Linux; elsewhere the fixture ends it)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)
