"""Running clusters: from what the configuration says of one to the snapshot of a moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from evenkeel.handover import Snapshot
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.pulsar.admin.secrets import Resolver, resolved
from evenkeel.sources.collecting import PARALLEL, Wanted, take_snapshot
from evenkeel.sources.configuration import LiveSource
from evenkeel.sources.landing import Landing
from evenkeel.sources.writing import SnapshotWriter


def connection_of(live: LiveSource, resolve: Resolver) -> AdminConnection:
    """How the cluster is reached. Addresses of the configuration win over those of its Airflow connection."""
    found = resolved(live.connection, resolve) if live.connection else None
    return AdminConnection(
        urls=live.admin or (found.urls if found is not None else ()),
        token=found.token if found is not None else None,
        ca_file=live.ca_file,
        check_hostname=live.check_hostname,
        broker_url=live.broker_url,
    )


def land_now(live: LiveSource, landing: Landing, at: datetime, connection: AdminConnection) -> Snapshot:
    """Observes the cluster for that moment, lands the snapshot, and lets go of those that are too old.

    Raises `Unreachable`, `LandingError` or `BadInput`, each with what is to be done.
    """

    def take(begin: Callable[[], SnapshotWriter], moment: datetime, number: int, full: bool) -> None:
        with AdminClient(connection, most_connections=PARALLEL) as client:
            take_snapshot(client, begin(), Wanted(n=number, full=full, cycle_at=moment))

    snapshot = landing.land(at, take, now=datetime.now(UTC), full_every=live.full_every)
    landing.expire(live.landing_days)
    return snapshot
