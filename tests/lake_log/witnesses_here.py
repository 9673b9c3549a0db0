"""A witness that listens on this machine, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenkeel.transparency.storage import FolderStorage
from evenkeel.transparency.witness import Witness
from evenkeel.transparency.witness_server import WitnessServer
from tests.lake_log.lakes import LOG_KEY, ORIGIN, WITNESS_KEY
from tests.serving import serving


@contextmanager
def witness(folder: Path, port: int = 0) -> Iterator[str]:
    """The URL of a witness whose state lies in a folder, while it listens."""
    judge = Witness(WITNESS_KEY, {ORIGIN: [LOG_KEY.verifier]}, FolderStorage(folder))
    server = WitnessServer(("127.0.0.1", port), judge)
    with serving(server) as port:
        yield f"http://127.0.0.1:{port}"


def line_of(url: str) -> str:
    """The witness as `EVENKEEL_WITNESSES` names it."""
    return f"{WITNESS_KEY.verifier.text} {url}"
