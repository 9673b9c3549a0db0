"""One snapshot of a running cluster, in the shape of a recording.

What is asked, and why:

* of the cluster: brokers, leader, clusters, tenants, dynamic values, failure domains, isolation policies; of any broker
  in turn: namespaces, and of each its policies (they hold its boundaries; `/bundles` is asked only where they do not)
  and its anti-affinity group.
* of each broker: its runtime configuration, in every snapshot: whether the brokers' own hands are off is judged on all
  of them before anything is sent, and it names the load manager. That decides what else is asked: the load report of
  the modular manager, the metrics of the extensible one (which answers a report with 500 and a line in the broker's
  log); both where it is unknown. Then version, topic figures and the bundles owned.
* `full` adds the topic lists of all namespaces; what a snapshot lacks of these is taken from the last full one.

A broker that does not answer is rows that say so. Only a cluster of which no address tells its brokers cannot be
observed: `Unreachable`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin import AdminClient, Hop, admin_path, trouble
from evenkeel.pulsar.clusters import own_cluster
from evenkeel.pulsar.managers import EXTENSIBLE, MODULAR, UNKNOWN, manager_of_class
from evenkeel.sources.asking import Asking, Tally
from evenkeel.sources.writing import Head, SnapshotWriter

_Of = TypeVar("_Of")
_Told = TypeVar("_Told")

PARALLEL = 8
MOST_SECONDS = 240.0
# A broker with a hundred thousand topics thinks about its figures for a while.
FIGURES_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken: what it says of itself, whether it stands under its name, and what it cost."""

    head: Head
    committed: bool
    tally: Tally
    brokers: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kind of snapshot: its number, the moment it is for, and whether topic lists come along."""

    n: int = 0
    full: bool = True
    note: str = ""
    cycle_at: datetime | None = None


def take_snapshot(
    client: AdminClient,
    writer: SnapshotWriter,
    wanted: Wanted,
    *,
    parallel: int = PARALLEL,
    most_seconds: float = MOST_SECONDS,
) -> Taken:
    """Observes the cluster once, with at most `parallel` requests at a time, and commits the snapshot.

    After `most_seconds` the rest is left out, with rows that say so. Whatever goes wrong, nothing is left of a
    snapshot that was not committed.
    """
    begin, started_at = time.monotonic(), datetime.now(UTC)
    asking = Asking(client, writer, begin + most_seconds)
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="collect")
    try:
        brokers, is_full = _Snapshot(asking, pool, wanted.full).take()
        head = Head(
            n=wanted.n,
            started_at=started_at,
            finished_at=max(datetime.now(UTC), started_at),
            note=wanted.note,
            has_configuration=is_full,
            cycle_at=wanted.cycle_at,
        )
        committed = writer.commit(head)
    except BaseException:
        asking.stop()
        pool.shutdown(cancel_futures=True)
        writer.discard()
        raise
    pool.shutdown()
    return Taken(head, committed, asking.tally, brokers, time.monotonic() - begin)


class _Snapshot:
    """The questions of one snapshot in their order."""

    def __init__(self, asking: Asking, pool: ThreadPoolExecutor, full: bool) -> None:
        self._asking, self._pool, self._full = asking, pool, full

    def take(self) -> tuple[int, bool]:
        """Number of brokers listed, and whether configuration and topic lists came."""
        brokers = self._brokers()
        of_any = self._asking.of_any
        of_any(admin_path("brokers", "leaderBroker"))
        clusters = of_any(admin_path("clusters"))
        tenants = _names(of_any(admin_path("tenants")))
        configurations = dict(zip(brokers, self._map(self._configuration, brokers), strict=True))
        self._asking.spread_over(brokers)
        cluster = _cluster(clusters, configurations.values())
        of_brokers = [self._pool.submit(self._of_broker, cluster, name, configurations[name]) for name in brokers]
        of_cluster = [self._pool.submit(of_any, path) for path in _cluster_wide(cluster)]
        namespaces = [name for names in self._map(self._namespaces, tenants) for name in names]
        lists = self._map(self._of_namespace, namespaces)
        _finish([*of_brokers, *of_cluster])
        lends = self._full and any(hop.status == 200 for hop in configurations.values()) and any([*lists, not lists])
        return len(brokers), lends

    def _brokers(self) -> list[str]:
        hops = self._asking.of_entries(admin_path("brokers"))
        names = _json(hops[-1])
        if isinstance(names, list):
            return sorted({name for name in names if isinstance(name, str) and name})
        found = {hop.broker: trouble(hop) for hop in hops}  # of several tries the last
        told = [sentence for sentence in found.values() if sentence is not None]
        raise Unreachable("; ".join(told) or f"{hops[-1].broker} gives no list of brokers: check that it is Pulsar's")

    def _configuration(self, broker: str) -> Hop:
        return self._asking.of_broker(broker, admin_path("brokers", "configuration", "runtime"))

    def _of_broker(self, cluster: str, broker: str, configuration: Hop) -> None:
        ask = self._asking.of_broker
        manager = _manager(configuration)
        ask(broker, admin_path("brokers", "version"))
        if manager != EXTENSIBLE:
            ask(broker, admin_path("broker-stats", "load-report"))
        if manager != MODULAR:
            ask(broker, admin_path("broker-stats", "metrics"))
        ask(broker, admin_path("broker-stats", "topics"), timeout_s=FIGURES_SECONDS)
        ask(broker, admin_path("brokers", cluster, broker, "ownedNamespaces"))

    def _namespaces(self, tenant: str) -> list[tuple[str, str]]:
        names = _names(self._asking.of_any(admin_path("namespaces", tenant)))
        return [(tenant, name.partition("/")[2]) for name in names if name.startswith(f"{tenant}/")]

    def _of_namespace(self, namespace: tuple[str, str]) -> bool:
        """Asks about one namespace; whether its topic list came."""
        ask, (tenant, name) = self._asking.of_any, namespace
        policies = ask(admin_path("namespaces", tenant, name))
        if policies.status == 404:  # deleted since it was listed
            return False
        body = _json(policies)
        if not (isinstance(body, dict) and isinstance(body.get("bundles"), dict)):
            ask(admin_path("namespaces", tenant, name, "bundles"))
        ask(admin_path("namespaces", tenant, name, "antiAffinity"))
        return self._full and ask(admin_path("persistent", tenant, name)).status == 200

    def _map(self, question: Callable[[_Of], _Told], names: Iterable[_Of]) -> list[_Told]:
        futures = [self._pool.submit(question, name) for name in names]
        _finish(futures)
        return [future.result() for future in futures]


def _cluster_wide(cluster: str) -> list[str]:
    return [
        admin_path("brokers", "configuration", "values"),
        admin_path("clusters", cluster, "failureDomains"),
        admin_path("clusters", cluster, "namespaceIsolationPolicies"),
    ]


def _cluster(clusters: Hop, configurations: Iterable[Hop]) -> str:
    told = next((hop.body for hop in configurations if hop.status == 200), None)
    found = trouble(clusters)
    if found is not None:
        raise Unreachable(found)
    return own_cluster(clusters.body, told, None, where=clusters.broker)


def _manager(configuration: Hop) -> str:
    body = _json(configuration)
    return manager_of_class(body.get("loadManagerClassName")) if isinstance(body, dict) else UNKNOWN


def _names(hop: Hop) -> list[str]:
    body = _json(hop)
    return sorted({name for name in body if isinstance(name, str) and name}) if isinstance(body, list) else []


def _json(hop: Hop) -> Any:
    if hop.status != 200:
        return None
    try:
        return json.loads(hop.body)
    except (ValueError, RecursionError):
        return None


def _finish(futures: list[Future[Any]]) -> None:
    """Waits for all; the first that fails ends the others that have not begun."""
    done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
    for future in waiting:
        future.cancel()
    for future in done:
        future.result()
