"""The client of Pulsar's admin REST API: one request in, every hop of its answer out, and never an exception for what
the network does."""

from __future__ import annotations

from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.pulsar.admin.http_exchange import Hop, admin_path
from evenkeel.pulsar.admin.trouble import trouble

__all__ = ["AdminClient", "AdminConnection", "Hop", "admin_path", "trouble"]
