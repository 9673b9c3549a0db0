"""Channels to a Spark Connect server that show its token as a header of each request.

pyspark shows the token as gRPC's call credentials. gRPC drops these in a thread of its own, which takes the
interpreter's lock. The thread that closes a process's last channel holds that lock and waits for the other thread: the
process hangs for good (grpc/grpc#42247). A header needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder

from evenkeel.spark.command import CLIENT_HOST


class TokenInHeader(DefaultChannelBuilder):
    """Channels of a Connect URL (`sc://host:port/;…`); a token never leaves this machine without TLS."""

    def toChannel(self) -> grpc.Channel:
        """Return a channel; with TLS if the URL asks for it, or if it has a token and leads to another machine."""
        if self.use_ssl or (self.token is not None and self._host != CLIENT_HOST):
            return self._secure_channel(self.endpoint, grpc.ssl_channel_credentials())
        return self._insecure_channel(self.endpoint)

    def metadata(self) -> Iterable[tuple[str, str]]:
        """Return the headers of each request."""
        token_header = [] if self.token is None else [("authorization", f"Bearer {self.token}")]
        return [*super().metadata(), *token_header]
