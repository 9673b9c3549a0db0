"""Ports for a cluster: a block of ten that no one listens on, held by a lock for as long as the cluster lives."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from devtools.lab.errors import LabError

# Below Linux's range for outgoing connections, so that no client takes a port between the check and the start.
LOWEST, HIGHEST, BLOCK = 22_000, 31_900, 10


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one cluster. All brokers have the same two, each at a separate address."""

    base: int

    @property
    def zookeeper(self) -> int:
        return self.base

    @property
    def bookie(self) -> int:
        return self.base + 1

    @property
    def service(self) -> int:
        return self.base + 2

    @property
    def web(self) -> int:
        return self.base + 3


def host(broker: int) -> str:
    """The address of a broker, counted from 1: Linux answers on all of 127/8."""
    return f"127.0.0.{broker}"


def reserve(brokers: int) -> tuple[Ports, IO[bytes]]:
    """A free block and its lock, which holds until every process that has inherited the file is gone."""
    folder = Path(tempfile.gettempdir()) / f"evenkeel-lab-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for base in range(LOWEST, HIGHEST, BLOCK):
        lock = (folder / f"{base}.lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if all(_is_free(host(n), port) for n in range(1, brokers + 1) for port in range(base, base + BLOCK)):
            return Ports(base), lock
        lock.close()
    raise LabError(f"No {BLOCK} free ports in a row between {LOWEST} and {HIGHEST} on 127.0.0.1 to {host(brokers)}.")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: old connections do not count
        try:
            listener.bind((address, port))
        except OSError:
            return False
        return True
