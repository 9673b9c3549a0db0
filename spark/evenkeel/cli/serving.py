"""Common parts of commands that serve until they are ended: an address, the end by a signal, log lines."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from socketserver import BaseServer

from evenkeel.errors import BadInput


def address_in(text: str, option: str, example: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, an IPv6 host in brackets. Raises BadInput."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadInput(f"{option} {text[:60]!r}: write HOST:PORT, e.g. {example}")
    return host.strip("[]"), int(port)


def cannot_listen(option: str, text: str, error: OSError) -> BadInput:
    """Return the error for an address that cannot be listened at."""
    return BadInput(f"{option} {text}: nothing can listen there: {error.strerror or error}")


def serve_until_ended(server: BaseServer) -> None:
    """Serve until SIGTERM or SIGINT, and close the server."""

    def end(number: int, frame: object) -> None:
        threading.Thread(target=server.shutdown).start()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.serve_forever()
    finally:
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr(name: str) -> None:
    """Send a logger's lines to standard error, with or without --verbose: a server shows nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    log = logging.getLogger(name)
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
