"""A cluster: ZooKeeper, a bookie and some brokers, from start to end."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devtools.lab import cgroups, conf, store
from devtools.lab.admin import Admin
from devtools.lab.command import Java
from devtools.lab.errors import LabError
from devtools.lab.jvms import Jvm, tail
from devtools.lab.ports import Ports, host, reserve
from devtools.lab.prepare import prepare
from devtools.lab.readiness import is_ready, listed
from devtools.lab.settings import MOST_BROKERS, LabSettings
from devtools.lab.tokens import ADMIN, Tokens
from devtools.lab.waiting import wait_until
from evenkeel.spark.home import identity

BROKER_SECONDS = 150.0
GONE_SECONDS = 45.0
START_TRIES = 3
STATE = "lab.json"
KEY = "secret.key"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster, known by its folder: `home` has the configuration, logs and records of its JVMs.

    Brokers are counted from 1. Any process that knows the folder can work on the cluster (`find`).
    """

    home: Path
    settings: LabSettings
    ports: Ports
    java: Java
    tokens: Tokens | None
    owner: str | None

    @property
    def name(self) -> str:
        """Pulsar's name of the cluster."""
        return conf.CLUSTER

    @property
    def numbers(self) -> range:
        return range(1, self.settings.brokers + 1)

    def broker_id(self, number: int) -> str:
        """Return the broker's id as Pulsar names it: host and web port."""
        return f"{host(number)}:{self.ports.web}"

    @property
    def broker_ids(self) -> tuple[str, ...]:
        return tuple(map(self.broker_id, self.numbers))

    @property
    def urls(self) -> tuple[str, ...]:
        """Admin URLs, broker 1 first."""
        return tuple(f"http://{broker_id}" for broker_id in self.broker_ids)

    @property
    def service_url(self) -> str:
        """Return the URL for clients. It names every broker, so that clients survive the loss of one."""
        return "pulsar://" + ",".join(f"{host(number)}:{self.ports.service}" for number in self.numbers)

    def token(self, role: str = ADMIN) -> str | None:
        """A token for a role; None where no one asks for one."""
        return self.tokens.of(role) if self.tokens else None

    def admin(self) -> Admin:
        """A client with the super user's rights."""
        return Admin(self.urls, self.token())

    def jvm(self, number: int) -> Jvm:
        """The process of a broker."""
        return Jvm(self.home, f"broker-{number}")

    def jvms(self) -> list[Jvm]:
        """All processes: ZooKeeper, the bookie, the brokers."""
        return [Jvm(self.home, "zookeeper"), Jvm(self.home, "bookie"), *map(self.jvm, self.numbers)]

    def is_ready(self, number: int) -> bool:
        """Return True if a broker answers, and its load manager too."""
        return is_ready(self.admin(), self.broker_id(number), self.settings.manager)

    def kill_broker(self, number: int) -> None:
        """SIGKILL; the others list it until its session ends (`await_gone`)."""
        self._demand(number)
        self.jvm(number).kill()

    def await_gone(self, number: int, *, seconds: float = GONE_SECONDS) -> None:
        """Return when no broker that runs lists it any more."""
        running = [self.urls[other - 1] for other in self.numbers if other != number and self.jvm(other).identity()]

        def is_forgotten() -> bool:
            lists = [listed(self.admin(), url=url) for url in running]
            return all(brokers and self.broker_id(number) not in brokers for brokers in lists)  # empty: no answer

        wait_until(f"{self.broker_id(number)} to be gone from the lists of brokers", is_forgotten, seconds=seconds)

    def start_broker(self, number: int) -> None:
        """Start a broker again at the same address and wait until it is ready.

        Soon after a SIGKILL the old session still holds the broker's name, and the start may fail: then it is tried
        again, once the others have forgotten it.
        """
        self._demand(number)
        for left in reversed(range(START_TRIES)):
            _spawn_broker(self, number)
            if _await_ready(self, number):
                return
            if left:
                self.await_gone(number)
        raise LabError(f"Broker {number} does not start. {tail(self.jvm(number).log)}")

    def down(self, *, keep: bool = False) -> None:
        """End every process and remove the folder, unless it is to be kept for its logs."""
        for jvm in self.jvms():
            jvm.kill()
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def _demand(self, number: int) -> None:
        if number not in self.numbers:
            raise LabError(f"There is no broker {number}: this cluster has 1 to {self.settings.brokers}.")


@contextmanager
def cluster_for(settings: LabSettings | None = None) -> Iterator[Cluster]:
    """A cluster for a `with` block; it ends with it, and soon after this process, however that goes."""
    home = Path(tempfile.mkdtemp(prefix="evenkeel-lab-"))
    cluster = up(home, settings or LabSettings(), owner=identity(os.getpid()))
    try:
        yield cluster
    finally:
        cluster.down()


def up(home: Path, settings: LabSettings, *, owner: str | None) -> Cluster:
    """Start a cluster in the folder `home` and return when every broker is ready.

    It ends with the process of the identity `owner`; with None it stays until `down`. Raises EvenkeelError, and then
    nothing of it runs.
    """
    if settings.cpu_percent is not None and not cgroups.available():
        raise LabError("`cpu_percent` needs root and version 1 of cgroups; leave it out, and skip what depends on it.")
    prepared = prepare(settings.version)
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    if any(home.iterdir()):
        raise LabError(f"{home} is not empty; a cluster wants a folder of its own, and `down` removes an old one.")
    ports, lock = reserve(settings.brokers)
    tokens = Tokens() if settings.auth else None
    cluster = Cluster(home, settings, ports, prepared.java, tokens, owner)
    with lock:
        try:
            _put_on_record(cluster)
            (home / "log4j2.xml").write_text(conf.LOGGING)
            shutil.copytree(prepared.metadata, home / "zookeeper")
            store.start_zookeeper(home, prepared.java, ports, owner=owner, lock=lock)
            store.start_bookie(home, prepared.java, ports, owner=owner)
            start_brokers(cluster)
        except BaseException:
            cluster.down(keep=True)
            raise
    return cluster


def find(home: Path) -> Cluster:
    """Return the cluster of a folder, running or not; LabError without one."""
    if not (home / STATE).exists():
        raise LabError(f"No cluster is in {home}.")
    state = json.loads((home / STATE).read_text())
    settings = LabSettings(**state["settings"])
    tokens = Tokens((home / KEY).read_bytes()) if settings.auth else None
    java = prepare(settings.version).java
    return Cluster(home, settings, Ports(state["port_base"]), java, tokens, state["owner"])


def start_brokers(cluster: Cluster) -> None:
    """Start all of them at once, wait until each is ready, and put their address into the cluster's metadata."""
    for number in cluster.numbers:
        _spawn_broker(cluster, number)
    with ThreadPoolExecutor(MOST_BROKERS) as pool:
        for number, ready in zip(
            cluster.numbers, pool.map(lambda number: _await_ready(cluster, number), cluster.numbers), strict=True
        ):
            if not ready:
                raise LabError(f"Broker {number} ended while it started. {tail(cluster.jvm(number).log)}")
    everybody = frozenset(cluster.broker_ids)
    wait_until(
        "every broker to know the others",
        lambda: all(listed(cluster.admin(), url=url) == everybody for url in cluster.urls),
        seconds=BROKER_SECONDS,
    )
    addresses = {"serviceUrl": cluster.urls[0], "brokerServiceUrl": cluster.service_url}
    cluster.admin().demand("POST", f"/admin/v2/clusters/{cluster.name}", addresses)


def _put_on_record(cluster: Cluster) -> None:
    state = {"settings": cluster.settings.as_json(), "port_base": cluster.ports.base, "owner": cluster.owner}
    (cluster.home / STATE).write_text(json.dumps(state))
    if cluster.tokens is not None:
        (cluster.home / KEY).write_bytes(cluster.tokens.key)


def _spawn_broker(cluster: Cluster, number: int) -> None:
    jvm, settings = cluster.jvm(number), cluster.settings
    configuration = conf.broker(number, cluster.ports, settings, cluster.tokens)
    (cluster.home / f"{jvm.name}.conf").write_text(configuration)
    groups = [] if settings.cpu_percent is None else [str(path) for path in cgroups.make(_cgroup(cluster, number))]
    jvm.start(cluster.java.broker(jvm.name, cluster.home, settings.heap_mb), owner=cluster.owner, cgroups=groups)


def _await_ready(cluster: Cluster, number: int) -> bool:
    """Return True if the broker became ready; False if it ended by itself. LabError if it takes too long."""
    jvm = cluster.jvm(number)
    wait_until(
        f"broker {number} to be ready",
        lambda: jvm.identity() is None or cluster.is_ready(number),
        seconds=BROKER_SECONDS,
        why=lambda: tail(jvm.log),
    )
    if jvm.identity() is None:
        return False
    if cluster.settings.cpu_percent is not None:
        cgroups.limit(_cgroup(cluster, number), cluster.settings.cpu_percent)
    return True


def _cgroup(cluster: Cluster, number: int) -> str:
    return f"evenkeel-lab-{cluster.ports.base}-{number}"
