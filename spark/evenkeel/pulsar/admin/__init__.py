"""Client of Pulsar's admin REST API: it sends one request and returns every hop of its answer.

It raises no exception for faults of the network.
"""

from __future__ import annotations

from evenkeel.pulsar.admin.client import AdminClient, trouble
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.pulsar.admin.http_exchange import Hop, admin_path

__all__ = ["AdminClient", "AdminConnection", "Hop", "admin_path", "trouble"]
