"""A thousand moves under load, with a snapshot each second and a broker killed in between: no broker hangs.

A modular broker that acquires several bundles can hang for good if a tool reads its `ownedNamespaces`. Evenkeel made
that read once, and a broker hung in each of three such runs (adr/0022-reads-that-cannot-hang-a-broker.md).
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devtools.lab.cluster import Cluster
from devtools.lab.laying_out import owner_of
from devtools.lab.layout import Layout, skewed
from devtools.lab.traffic import traffic_for
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.sources.collecting import WantedSnapshot, take_snapshot
from evenkeel.sources.landing import FolderStore
from evenkeel.steering.command_executor import CommandExecutor, Patience
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import PulsarAdmin
from tests.e2e.scene import SEEN
from tests.steering.commands import unload

pytestmark = [pytest.mark.pulsar, pytest.mark.slow, pytest.mark.exhaustive]

MOVES = 1_000
IN_FLIGHT = 4
MOST_SECONDS = 600.0
SILENT_SECONDS = 15.0
VICTIM = 3


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_no_broker_hangs_in_a_thousand_moves_with_a_snapshot_each_second(
    manager: str, request: Any, fresh_tenant: str, tmp_path: Path
) -> None:
    cluster: Cluster = request.getfixturevalue(f"{manager}_cluster")
    layout = skewed(fresh_tenant, cluster.broker_ids, rate=300.0, namespaces=7)
    with (
        AdminClient(AdminConnection(cluster.urls), most_connections=2 * IN_FLIGHT) as client,
        traffic_for(cluster, layout, seconds=1_500) as traffic,
        snapshots_each_second(cluster, tmp_path) as taken,
    ):
        with killed_meanwhile(cluster) as kill:
            outcomes = moved(cluster, client, layout, kill)
        ready = {broker: seconds_of_load_manager(cluster, number) for number, broker in enumerate(cluster.broker_ids)}
        tally = traffic.stop()
    assert max(ready.values()) < SILENT_SECONDS, ready
    assert outcomes["done"] >= MOVES, outcomes
    assert set(outcomes) <= SEEN | {"refused", "unknown"}, outcomes
    assert taken["snapshots"] >= 60, taken
    assert tally.lost == 0, tally


def moved(cluster: Cluster, client: AdminClient, layout: Layout, kill: threading.Event) -> Counter[str]:
    """Sends each bundle of the layout to the next broker, again and again; how many commands came to which outcome."""
    executor = CommandExecutor(client, patience=Patience(answered_s=10.0, unowned_s=2.0))
    sink = PulsarAdmin(executor, per_second=0.0, in_flight=IN_FLIGHT)
    owner = {bundle.name: str(bundle.broker) for bundle in layout.bundles}
    topic = {bundle.name: bundle.topics[0].name for bundle in layout.bundles}
    outcomes, until, turn = Counter[str](), time.monotonic() + MOST_SECONDS, 0
    while outcomes["done"] < MOVES and time.monotonic() < until:
        if outcomes["done"] >= MOVES // 2:
            kill.set()
        turn += 1
        running = [broker for n, broker in enumerate(cluster.broker_ids, start=1) if cluster.jvm(n).identity()]
        goals = {bundle: next_broker(running, source, n) for n, (bundle, source) in enumerate(sorted(owner.items()))}
        commands = [
            unload(bundle, owner[bundle], goal, step=step, command_id=f"{turn}:{bundle}")
            for step, (bundle, goal) in enumerate(goals.items(), start=1)
        ]
        came = dict[str, Outcome]()
        sink.send(
            commands,
            stop=lambda: None,
            ask=lambda: None,
            report=lambda one, came=came: came.update({one.command_id: one}),
        )
        outcomes.update(one.outcome for one in came.values())
        for command in commands:
            bundle = command["bundle"]
            if came[command["command_id"]].outcome == "done":
                owner[bundle] = command["destination"]
            else:
                owner[bundle] = owner_of(cluster.admin(), topic[bundle]) or owner[bundle]
    return outcomes


def next_broker(running: list[str], source: str, number: int) -> str:
    others = [broker for broker in running if broker != source]
    return others[number % len(others)]


@contextmanager
def snapshots_each_second(cluster: Cluster, folder: Path) -> Iterator[Counter[str]]:
    """Takes them as `evenkeel collect` does, from a thread, and counts them."""
    store, taken, ended = FolderStore(folder / "snapshots"), Counter[str](), threading.Event()

    def take(client: AdminClient) -> None:
        while not ended.is_set():
            begun = time.monotonic()
            number = store.next_number()
            take_snapshot(client, store.begin(f"{number:04d}"), WantedSnapshot(n=number, full=False))
            taken["snapshots"] += 1
            ended.wait(max(0.0, 1.0 - (time.monotonic() - begun)))

    with AdminClient(AdminConnection(cluster.urls)) as client:
        thread = threading.Thread(target=take, args=(client,))
        thread.start()
        try:
            yield taken
        finally:
            ended.set()
            thread.join()


@contextmanager
def killed_meanwhile(cluster: Cluster) -> Iterator[threading.Event]:
    """Once the event is set a broker is killed, and started again when the others have forgotten it."""
    due = threading.Event()

    def lose() -> None:
        due.wait()
        cluster.kill_broker(VICTIM)
        cluster.start_broker(VICTIM)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield due
    finally:
        due.set()
        thread.join()


def seconds_of_load_manager(cluster: Cluster, number: int) -> float:
    """How long the broker's load manager takes to answer, up to `SILENT_SECONDS`."""
    path = "load-report" if cluster.settings.manager == "modular" else "metrics"
    begun = time.monotonic()
    url = cluster.urls[number]
    answer = cluster.admin().ask("GET", f"/admin/v2/broker-stats/{path}", url=url, timeout_s=SILENT_SECONDS)
    return time.monotonic() - begun if answer.fine else SILENT_SECONDS
