"""The desk on a port of this machine, without Airflow's login, as a browser needs it."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 60


@contextmanager
def desk_served(lake: Path | str, reader: Any, below: str = "") -> Iterator[str]:
    """The desk's address while it is served, `below` a path of its server; `reader` makes its pages."""
    import uvicorn
    from evenkeel_page.app import make_app
    from fastapi import FastAPI
    from fastapi.middleware.gzip import GZipMiddleware

    before, os.environ["EVENKEEL_LAKE"] = os.environ.get("EVENKEEL_LAKE"), str(lake)
    whole = FastAPI()
    whole.mount(f"{below}/evenkeel", make_app(guarded=False, reader=reader))
    whole.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)  # as Airflow has it
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(whole, log_level="error"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        until = time.monotonic() + START_SECONDS
        while not server.started:
            assert time.monotonic() < until, f"the desk was not served in {START_SECONDS} s"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}{below}/evenkeel/"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        if before is None:
            del os.environ["EVENKEEL_LAKE"]
        else:
            os.environ["EVENKEEL_LAKE"] = before
