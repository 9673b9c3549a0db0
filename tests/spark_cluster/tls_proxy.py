"""nginx with the configuration of `docker/nginx.conf`, in front of a server on this machine."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenkeel.spark.command import HOST
from evenkeel.spark.server import free_port

CONFIGURATION = Path(__file__).resolve().parents[2] / "docker" / "nginx.conf"
START_SECONDS = 60.0
_TRIES = 5


def nginx() -> str | None:
    """Where nginx is, if the machine has one."""
    return shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")


@contextmanager
def tls_in_front(folder: Path, certificate: Path, upstream: int) -> Iterator[int]:
    """The port of an nginx that speaks TLS with the certificate in that folder and passes on to the port `upstream`."""
    program = nginx()
    assert program is not None
    folder.mkdir()
    for _ in range(_TRIES):
        port = free_port()
        process = _started(program, folder, _configured(folder, certificate, port, upstream))
        if _opens(process, port):
            break
        process.wait()  # its port was taken meanwhile
    else:
        raise AssertionError(f"nginx does not start: {(folder / 'log').read_text()}")
    try:
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _configured(folder: Path, certificate: Path, port: int, upstream: int) -> Path:
    """The product's own configuration, with other places: each of them has to stand in it."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    places = {
        "/tmp/": f"{folder}/",
        "/etc/nginx/tls/": f"{certificate}/",
        "listen 15443 ": f"listen {HOST}:{port} ",
        "grpc://127.0.0.1:15002": f"grpc://{HOST}:{upstream}",
        "worker_processes auto": "worker_processes 1",
    }
    for known, own in places.items():
        assert known in text, known
        text = text.replace(known, own)
    file = folder / "nginx.conf"
    file.write_text(text, encoding="utf-8")
    return file


def _started(program: str, folder: Path, configuration: Path) -> subprocess.Popen[bytes]:
    command = [program, "-e", "stderr", "-g", "daemon off;", "-p", str(folder), "-c", str(configuration)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _opens(process: subprocess.Popen[bytes], port: int) -> bool:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False
