"""Check of a remote Spark Connect server; a failure is one line that says why and what to do.

pyspark retries every fault for ten minutes, also an expired certificate, and then shows the library's own words. This
module asks once before it and reports at once a fault that waiting does not mend.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.errors import EngineError
from evenkeel.spark.command import TOKEN_VARIABLE, without_token

if TYPE_CHECKING:
    import grpc

ROOTS_VARIABLE = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
PATIENCE_SECONDS = 45.0
"""Seconds that a server may take to come back: it is being restarted, or its proxy is."""
_ASK_SECONDS = 20.0
_TICK_SECONDS = 2.0

# Texts of gRPC and their meaning; the first match counts. A fault not listed may pass by itself.
_LASTING: Sequence[tuple[str, str]] = (
    ("certificate has expired", "its certificate has expired: have it renewed, and the proxy before Spark reloaded"),
    ("certificate is not yet valid", "its certificate is not valid yet: compare the clocks of both machines"),
    (
        "Hostname Verification Check failed",
        "its certificate has another name: connect by a name in the certificate, or have one made for this name",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        f"its certificate is of an authority that this process does not know: name the file of that authority's "
        f"certificate in {ROOTS_VARIABLE}",
    ),
    ("Expected SETTINGS frame", "it speaks TLS: write ?use_ssl=true behind the connection (use_ssl=true in a URL)"),
    ("WRONG_VERSION_NUMBER", "it speaks no TLS: take use_ssl out of the connection, or connect to the proxy before it"),
    ("http2 header with status: 404", "no Spark Connect server is behind it: check host and port"),
)
_BEHIND = re.compile(r"http2 header with status: 50[234]")


def demand_answer(url: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Ask the server at a Connect URL to release a session that does not exist, which changes nothing on it.

    Raises EngineError with the one line: at once if waiting does not help (token, certificate, TLS), after
    `patience_seconds` if the server does not answer.
    """
    until = time.monotonic() + patience_seconds
    while (fault := _fault(url)) is not None:
        words, lasts = fault
        if lasts or time.monotonic() + _TICK_SECONDS > until:
            raise EngineError(f"the Spark server at {without_token(url)}: {words}")
        time.sleep(_TICK_SECONDS)


def token_refused(url: str) -> EngineError:
    """Return the error of a server that refuses the client's token."""
    return EngineError(
        f"The Spark server at {without_token(url)} does not accept this token. Set {TOKEN_VARIABLE} to the one that it "
        "was started with, or in Airflow give it to the connection as its password."
    )


def _fault(url: str) -> tuple[str, bool] | None:
    """Return the fault, and True if it lasts; None if the server answers."""
    import grpc
    from pyspark.sql.connect.proto import ReleaseSessionRequest, UserContext
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

    from evenkeel.spark.channel import TokenInHeader

    builder = TokenInHeader(url)
    request = ReleaseSessionRequest(session_id=str(uuid.uuid4()), user_context=UserContext(user_id="evenkeel"))
    with builder.toChannel() as channel:
        try:
            SparkConnectServiceStub(channel).ReleaseSession(request, timeout=_ASK_SECONDS, metadata=builder.metadata())
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                raise token_refused(url) from None
            return words_for(error.code(), error.details() or "")
    return None


def words_for(code: grpc.StatusCode, details: str) -> tuple[str, bool]:
    """Return the meaning of a gRPC error of a first request, and True if it lasts."""
    for sign, words in _LASTING:
        if sign in details:
            return words, True
    if code.name == "UNIMPLEMENTED":
        return "no Spark Connect server is behind it: check host and port", True
    if _BEHIND.search(details):
        return (
            "the proxy answers, and no Spark server behind it: start that one, or have the proxy look at its port",
            False,
        )
    if "Socket closed" in details:
        return "it closes the connection: it may want TLS (?use_ssl=true behind the connection), or is ending", False
    if code.name == "DEADLINE_EXCEEDED":
        return f"no answer within {_ASK_SECONDS:.0f} s; its own log says more", False
    return f"the server does not answer ({_reason(details)}): check host and port, and that it runs", False


def _reason(details: str) -> str:
    """Return the last part of gRPC's text of a failed connection."""
    line = (details.splitlines() or ["no reason given"])[0].rstrip("]. ")
    return line.rpartition(": ")[2][:200]
