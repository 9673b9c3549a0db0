"""Snapshots of a running cluster, in the form of a recording.

The requests, and their reasons:

* to the cluster: brokers, leader, clusters, tenants, dynamic values, failure domains, isolation policies; to any broker
  in turn: namespaces, and of each its policies (they hold its boundaries; `/bundles` is asked only if they do not) and
  its anti-affinity group.
* to each broker first: its runtime configuration, in every snapshot. Before anything is sent, all of them must show
  that the brokers' own balancing is off. It also names the load manager, which decides the other requests. These are
  the load report of the modular manager, or the metrics of the extensible one (which answers a report with 500 and a
  line in the broker's log) and the bundles that it owns. An unknown manager gets requests for report and metrics. Each
  broker is asked for version and topic figures. `ownedNamespaces` is never asked of a broker that may run the modular
  manager: it can hang such a broker for good.
* to each broker, before any other request that needs its metadata store: a read that a hung broker does not answer
  (`metadata_read`). Such a broker gets no further requests, since each request to its load manager would take a thread
  of its HTTP server for ever.
* `full` adds the topic lists of all namespaces; a snapshot without them takes those of the last full one.
* of bundles without a history, unless all brokers run the extensible manager: their resource quotas, last of all
  (`pulsar.quotas`).

A broker that does not answer becomes rows that say so. A cluster cannot be observed (`Unreachable`) if no address lists
its brokers, or if none of them gave its topic figures before all were silent for too long.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from threading import Event
from typing import Any, TypeVar

from evenkeel.errors import Unreachable
from evenkeel.handover import Snapshot
from evenkeel.pulsar.admin import AdminClient, AdminConnection, Hop, admin_path, trouble
from evenkeel.pulsar.admin.answer_text import LargeText
from evenkeel.pulsar.admin.auth_params import authentication_of
from evenkeel.pulsar.admin.authentication import Authentication
from evenkeel.pulsar.admin.connection import Credentials, Resolver, resolved
from evenkeel.pulsar.admin.http_exchange import metadata_read, names_in
from evenkeel.pulsar.limits import DEFAULT, MOST_BROKERS, BeyondLimit, Limits
from evenkeel.pulsar.quotas import ask_for_quotas, bundles_to_ask, named_in
from evenkeel.pulsar.snapshot import EXTENSIBLE, MODULAR, manager_of_class, manager_of_cluster, own_cluster
from evenkeel.settings.cluster_entries import SILENT_SECONDS
from evenkeel.sources.asking import IF_IT_IS_PULSAR, Asking, RequestTally, Turns
from evenkeel.sources.configuration import LiveSource
from evenkeel.sources.landing import Landing, SnapshotWriter
from evenkeel.sources.snapshot_files import Header

_Of = TypeVar("_Of")
_Told = TypeVar("_Told")

PARALLEL = 8
MOST_SECONDS = 240.0
# A broker with a hundred thousand topics takes a while for its figures.
FIGURES_SECONDS = 60.0
METADATA_SECONDS = 10.0
# So many requests wait at a time; a cluster may list more items.
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that was taken: its head, whether it is visible under its name, and its cost."""

    head: Header
    committed: bool
    tally: RequestTally
    brokers: int
    seconds: float
    quotas: frozenset[str] = frozenset()
    """Bundles with an answer about their resource quota."""


@dataclass(frozen=True, slots=True)
class WantedSnapshot:
    """A snapshot to take: number, moment, if it has topic lists. `known`: bundles whose quota need not be requested."""

    n: int = 0
    full: bool = True
    note: str = ""
    cycle_at: datetime | None = None
    known: frozenset[str] = frozenset()


def take_snapshot(
    client: AdminClient,
    writer: SnapshotWriter,
    wanted: WantedSnapshot,
    *,
    parallel: int = PARALLEL,
    most_seconds: float = MOST_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
    limits: Limits = DEFAULT,
    turns: Turns | None = None,
    ended: Event | None = None,
) -> TakenSnapshot:
    """Observe the cluster once, with at most `parallel` requests at a time, and commit the snapshot.

    After `most_seconds`, or once the cluster gave no answer for `silent_seconds`, the rest is left out, with rows that
    say so. Raises `Unreachable` if it is silent before any topic figures came, and `BeyondLimit` for more than `limits`
    allow a snapshot, and `KeyboardInterrupt` once `ended` is set. All but the list of brokers is requested in a turn of
    `turns`. After any error nothing is left of a snapshot that was not committed.
    """
    begin, started_at = time.monotonic(), datetime.now(UTC)
    asking = Asking(client, writer, most_seconds, silent_seconds, limits, ended)
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="collect")
    try:
        snapshot = _Snapshot(asking, pool, wanted, limits)
        brokers, is_full = _taken(snapshot, asking, turns)
        head = Header(
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
    return TakenSnapshot(head, committed, asking.tally, brokers, time.monotonic() - begin, snapshot.quotas)


def _taken(snapshot: _Snapshot, asking: Asking, turns: Turns | None) -> tuple[int, bool]:
    """Return the result of `_Snapshot.take`; raises `Unreachable` if silence is why it has nothing useful."""
    try:
        brokers = snapshot.brokers()
        with turns.turn(asking) if turns is not None else nullcontext():
            taken = snapshot.take(brokers)
    except Unreachable:
        asking.demand_answers()
        raise
    if not snapshot.has_figures:
        asking.demand_answers()
    return taken


class _Snapshot:
    """The requests of one snapshot in their order. `has_figures`: topic figures of a broker came."""

    def __init__(self, asking: Asking, pool: ThreadPoolExecutor, wanted: WantedSnapshot, limits: Limits) -> None:
        self._asking, self._pool, self._full = asking, pool, wanted.full
        self._known, self._limits = wanted.known, limits
        self.quotas: frozenset[str] = frozenset()
        self.has_figures = False

    def take(self, brokers: Sequence[str]) -> tuple[int, bool]:
        """Send all requests; return the number of brokers, and True if configuration and topic lists came."""
        of_any = self._asking.of_any
        of_any(admin_path("brokers", "leaderBroker"))
        clusters = of_any(admin_path("clusters"))
        tenants = _names(of_any(admin_path("tenants")))
        configurations = dict(zip(brokers, self._map(self._configuration, brokers), strict=True))
        self._asking.spread_over(brokers)
        cluster = _cluster(clusters, configurations.values())
        of_brokers = [self._pool.submit(self._of_broker, cluster, name, configurations[name]) for name in brokers]
        of_cluster = [
            self._pool.submit(of_any, path)
            for path in [
                admin_path("brokers", "configuration", "values"),
                admin_path("clusters", cluster, "failureDomains"),
                admin_path("clusters", cluster, "namespaceIsolationPolicies"),
            ]
        ]
        namespaces: list[tuple[str, str]] = []
        for names in self._map(self._namespaces, tenants):
            namespaces += names
            self._asking.demand("requests", len(namespaces), f"the cluster lists {len(namespaces):,} namespaces")
        lists = list(self._map(self._of_namespace, namespaces))
        _finish([*of_brokers, *of_cluster])
        if manager_of_cluster(configuration.manager for configuration in configurations.values()) != EXTENSIBLE:
            named = (bundle for future in of_brokers for bundle in future.result())
            listed = {f"{tenant}/{name}" for tenant, name in namespaces}
            wanted = bundles_to_ask(named, listed, self._known, self._limits)
            self.quotas = ask_for_quotas(wanted, of_any, lambda question, names: list(self._map(question, names)))
        lends = (
            self._full
            and any(configuration.came for configuration in configurations.values())
            and any([*lists, not lists])
        )
        return len(brokers), lends

    def brokers(self) -> list[str]:
        """Return the ids of the brokers that the cluster lists; raises `Unreachable` if no address gives the list."""
        hops = self._asking.of_entries(admin_path("brokers"))
        names = _listed(hops[-1])
        if names is not None:
            if len(names) > MOST_BROKERS:
                raise BeyondLimit(
                    f"{hops[-1].broker} lists {len(names):,} brokers, and at most {MOST_BROKERS:,} are looked at: "
                    f"{IF_IT_IS_PULSAR}"
                )
            return names
        troubles = {hop.broker: trouble(hop) for hop in hops}  # of several tries the last
        faults = [sentence for sentence in troubles.values() if sentence is not None]
        raise Unreachable("; ".join(faults) or f"{hops[-1].broker} gives no list of brokers: check that it is Pulsar's")

    def _configuration(self, broker: str) -> _Configuration:
        """Ask one broker for what it answers without its metadata store, then for a read that needs it."""
        ask = self._asking.of_broker
        hop = ask(broker, admin_path("brokers", "configuration", "runtime"))
        with LargeText.alone():
            body = hop.json
            body = body if isinstance(body, dict) else {}
            name = body.get("clusterName")
            cluster = json.dumps({"clusterName": name if isinstance(name, str) else None})
            manager = manager_of_class(body.get("loadManagerClassName"))
        ask(broker, admin_path("brokers", "version"))
        ask(broker, metadata_read(), timeout_s=METADATA_SECONDS)
        return _Configuration(hop.status == 200, manager, cluster)

    def _of_broker(self, cluster: str, broker: str, configuration: _Configuration) -> frozenset[str]:
        """Ask one broker; return the bundles that its load report names."""
        ask, report = self._asking.of_broker, None
        manager = configuration.manager
        if manager != EXTENSIBLE:
            report = ask(broker, admin_path("broker-stats", "load-report"))
        if manager != MODULAR:
            ask(broker, admin_path("broker-stats", "metrics"))
        if ask(broker, admin_path("broker-stats", "topics"), timeout_s=FIGURES_SECONDS).status == 200:
            self.has_figures = True
        if manager == EXTENSIBLE:
            ask(broker, admin_path("brokers", cluster, broker, "ownedNamespaces"))
        return named_in(report) if report is not None else frozenset()

    def _namespaces(self, tenant: str) -> list[tuple[str, str]]:
        names = _names(self._asking.of_any(admin_path("namespaces", tenant)))
        return [(tenant, name.partition("/")[2]) for name in names if name.startswith(f"{tenant}/")]

    def _of_namespace(self, namespace: tuple[str, str]) -> bool:
        """Ask about one namespace; return True if its topic list came."""
        ask, (tenant, name) = self._asking.of_any, namespace
        policies = ask(admin_path("namespaces", tenant, name))
        if policies.status == 404:  # deleted after it was listed
            return False
        with LargeText.alone():
            body = policies.json
            has_bundles = isinstance(body, dict) and isinstance(body.get("bundles"), dict)
        if not has_bundles:
            ask(admin_path("namespaces", tenant, name, "bundles"))
        ask(admin_path("namespaces", tenant, name, "antiAffinity"))
        return self._full and ask(admin_path("persistent", tenant, name)).status == 200

    def _map(self, question: Callable[[_Of], _Told], names: Iterable[_Of]) -> Iterator[_Told]:
        left = iter(names)
        while futures := [self._pool.submit(question, name) for name in islice(left, _AT_ONCE)]:
            _finish(futures)
            yield from (future.result() for future in futures)


@dataclass(frozen=True, slots=True)
class _Configuration:
    """A broker's configuration: whether it came, the load manager, the cluster's name as JSON."""

    came: bool
    manager: str
    cluster: str


def _cluster(clusters: Hop, configurations: Iterable[_Configuration]) -> str:
    configuration = next((fault.cluster for fault in configurations if fault.came), None)
    fault = trouble(clusters)
    if fault is not None:
        raise Unreachable(fault)
    return own_cluster(clusters.body, configuration, None, where=clusters.broker)


def _names(hop: Hop) -> list[str]:
    return _listed(hop) or []


def _listed(hop: Hop) -> list[str] | None:
    """Return the names in an answer, sorted, each once; None if it is not a list."""
    with LargeText.alone():
        return names_in(hop.json)


def _finish(futures: list[Future[Any]]) -> None:
    """Wait for all; the first that fails cancels the others that have not begun."""
    done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
    for future in waiting:
        future.cancel()
    for future in done:
        future.result()


def connection_of(live: LiveSource, resolve: Resolver) -> AdminConnection:
    """Return how the cluster is reached. Addresses in the configuration win over those of its Airflow connection."""
    configured = Credentials(configured_authentication(live))
    credentials = resolved(live.connection, resolve) if live.connection else configured
    credentials.authentication.check()
    return AdminConnection(
        urls=live.admin or credentials.urls,
        authentication=credentials.authentication,
        ca_file=live.ca_file,
        check_hostname=live.check_hostname,
        broker_url=live.broker_url,
    )


def configured_authentication(live: LiveSource) -> Authentication:
    """Return the authentication by `auth_plugin` and `auth_params`; if they are not set, one without credentials."""
    if live.auth_plugin is None or live.auth_params is None:
        return Authentication()
    return authentication_of(live.auth_plugin, live.auth_params, "auth_params")


def land_now(
    live: LiveSource,
    landing: Landing,
    at: datetime,
    connection: AdminConnection,
    known: frozenset[str] = frozenset(),
    turns: Turns | None = None,
) -> Snapshot:
    """Observe the cluster for that moment, land the snapshot, and remove those that are too old.

    `known` are the bundles that have a history: their resource quotas are not requested. `turns` are those of all
    clusters that are observed at the same time. Raises `Unreachable`, `LandingError` or `BadInput`, each with what to
    do. The landing's limits apply.
    """

    def take(begin: Callable[[], SnapshotWriter], moment: datetime, number: int, full: bool) -> None:
        writer = begin()  # makes the folder
        with AdminClient(connection, most_connections=PARALLEL, limits=landing.limits, folder=landing.folder) as client:
            wanted = WantedSnapshot(n=number, full=full, cycle_at=moment, known=known)
            silent_seconds = live.silent_seconds
            take_snapshot(client, writer, wanted, silent_seconds=silent_seconds, limits=landing.limits, turns=turns)

    snapshot = landing.land(at, take, now=datetime.now(UTC), full_every=live.full_every)
    landing.expire(live.landing_days, snapshot)
    return snapshot
