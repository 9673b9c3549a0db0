"""Channels to a Spark Connect server that show its token as a header of each request.

pyspark shows it as gRPC's call credentials. gRPC takes the interpreter's lock to drop those, in a thread of its own,
and whoever closes a process's last channel holds that lock while it waits for the thread: the process stands still for
good (grpc/grpc#42247). A header needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder

from evenkeel.spark.command import CLIENT_HOST


class TokenInHeader(DefaultChannelBuilder):
    """The channels of a Connect URL (`sc://host:port/;…`); a token never leaves this machine without TLS."""

    def toChannel(self) -> grpc.Channel:
        """A channel; TLS where the URL asks for it, and where it brings a token and leads to another machine."""
        if self.use_ssl or (self.token is not None and self._host != CLIENT_HOST):
            return self._secure_channel(self.endpoint, grpc.ssl_channel_credentials())
        return self._insecure_channel(self.endpoint)

    def metadata(self) -> Iterable[tuple[str, str]]:
        """The headers of each request."""
        own = [] if self.token is None else [("authorization", f"Bearer {self.token}")]
        return [*super().metadata(), *own]
