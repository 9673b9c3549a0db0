"""The desk on a port of this machine, without Airflow's login, as a browser needs it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def desk_served(lake: Path | str, reader: Any) -> Iterator[str]:
    """The desk's address while it is served; `reader` makes its pages."""
    import uvicorn
    from evenkeel_page.app import make_app
    from fastapi import FastAPI
    from fastapi.middleware.gzip import GZipMiddleware

    before, os.environ["EVENKEEL_LAKE"] = os.environ.get("EVENKEEL_LAKE"), str(lake)
    whole = FastAPI()
    whole.mount("/evenkeel", make_app(guarded=False, reader=reader))
    whole.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)  # as Airflow has it
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(whole, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/evenkeel/"
    finally:
        server.should_exit = True
        thread.join(10)
        if before is None:
            del os.environ["EVENKEEL_LAKE"]
        else:
            os.environ["EVENKEEL_LAKE"] = before
