"""Waiting for a condition, never for a time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from devtools.lab.errors import LabError

TICK_SECONDS = 0.1


def wait_until(
    what: str,
    condition: Callable[[], bool],
    *,
    seconds: float,
    meanwhile: Callable[[], None] = lambda: None,
    why: Callable[[], str] = lambda: "",
) -> None:
    """Return when the condition holds; LabError after `seconds`, or an error of `meanwhile` between two looks."""
    until = time.monotonic() + seconds
    while not condition():
        meanwhile()
        if time.monotonic() > until:
            raise LabError(f"Waited {seconds:.0f} s for {what}. {why()}".rstrip())
        time.sleep(TICK_SECONDS)


def takes_connections(address: str, port: int) -> bool:
    """Return True if the address accepts connections."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False
