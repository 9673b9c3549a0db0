"""A server of Spark Connect's protocol that speaks TLS, knows a token, and answers a first question only."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pyspark.sql.connect.proto import ReleaseSessionResponse
from pyspark.sql.connect.proto.base_pb2_grpc import (
    SparkConnectServiceServicer,
    add_SparkConnectServiceServicer_to_server,
)

from evenkeel.spark.command import HOST

TOKEN = "a-token-of-the-tests-0123456789"


class FirstQuestion(SparkConnectServiceServicer):
    """Releases sessions for those that show the token."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ReleaseSession(self, request: Any, context: Any) -> Any:
        if ("authorization", f"Bearer {TOKEN}") not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")
        self.asked.append(request.session_id)
        return ReleaseSessionResponse(session_id=request.session_id)


@contextmanager
def serving(
    certificate: Path | None, service: SparkConnectServiceServicer | None = None, port: int = 0
) -> Iterator[int]:
    """The port of such a server with the certificate in that folder; without a folder it speaks no TLS."""
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        add_SparkConnectServiceServicer_to_server(service or FirstQuestion(), server)
        if certificate is None:
            port = server.add_insecure_port(f"{HOST}:{port}")
        else:
            pair = (certificate / "tls.key").read_bytes(), (certificate / "tls.crt").read_bytes()
            port = server.add_secure_port(f"{HOST}:{port}", grpc.ssl_server_credentials([pair]))
        server.start()
        try:
            yield port
        finally:
            server.stop(0).wait()
