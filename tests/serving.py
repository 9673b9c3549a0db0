"""Servers of a test in threads of their own, until the block ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer


@contextmanager
def serving(server: HTTPServer) -> Iterator[int]:
    """The port of the server while it serves."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(
    answer: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes] | None], port: int = 0
) -> Iterator[int]:
    """The port of a server that is given each request and its body, and says a status and a body; None where it has
    answered by itself."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            if said is not None:
                self.send_response(said[0])
                self.send_header("Content-Length", str(len(said[1])))
                self.end_headers()
                self.wfile.write(said[1])

        do_GET = do_PATCH = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", port), Handler)) as found:
        yield found
