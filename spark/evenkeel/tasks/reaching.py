"""How a hand-over's cluster is reached when it is to be steered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.handover import ClusterCycle
from evenkeel.pulsar.admin import AdminClient
from evenkeel.pulsar.admin.secrets import Resolver, from_environment
from evenkeel.sources.configuration import LiveSource
from evenkeel.sources.live import connection_of

_CONNECTIONS = 16


def reach_with(resolve: Resolver = from_environment) -> Callable[[ClusterCycle], AdminClient]:
    """A client for a cluster; to be called where `resolve` may be: in Airflow that is the main thread."""

    def reach(cycle: ClusterCycle) -> AdminClient:
        if cycle.admin is None:
            raise SettingsError(f"no admin address of {cycle.cluster} is configured")
        return AdminClient(connection_of(_live(cycle.admin), resolve), most_connections=_CONNECTIONS)

    return reach


def _live(admin: dict[str, Any]) -> LiveSource:
    return LiveSource(**{**admin, "admin": tuple(admin["admin"])})
