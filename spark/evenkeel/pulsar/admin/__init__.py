"""The client of Pulsar's admin REST API: one request in, every hop of its answer out, and never an exception for what
the network does."""

from __future__ import annotations

from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.pulsar.admin.errors import owner_unknown, trouble
from evenkeel.pulsar.admin.hop import Hop
from evenkeel.pulsar.admin.quoting import admin_path
from evenkeel.pulsar.admin.secret import Secret

__all__ = ["AdminClient", "AdminConnection", "Hop", "Secret", "admin_path", "owner_unknown", "trouble"]
