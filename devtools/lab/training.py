"""A cluster of one broker that lives for seconds, to find the classes that a cluster loads and its metadata."""

from __future__ import annotations

import os
from pathlib import Path

from devtools.lab import conf, store
from devtools.lab.cluster import Cluster, start_brokers
from devtools.lab.command import Java
from devtools.lab.jvms import Jvm
from devtools.lab.ports import reserve
from devtools.lab.settings import LabSettings
from devtools.lab.tokens import Tokens
from evenkeel.spark.home import identity

NAMESPACE = "training/yard"
READS = (
    *("/admin/v2/broker-stats/topics", "/admin/v2/broker-stats/metrics", "/admin/v2/brokers/configuration/runtime"),
    *(f"/admin/v2/namespaces/{NAMESPACE}", f"/admin/v2/persistent/{NAMESPACE}/keel/stats", "/metrics/"),
    f"/lookup/v2/topic/persistent/{NAMESPACE}/keel",
)


def train(version: str, java: Java, folder: Path) -> Path:
    """Run a cluster in `folder`; return the folder with the metadata of an empty cluster.

    The extensible manager is taken, which loads far more classes than the modular one.
    """
    home = folder / "home"
    home.mkdir()
    ports, lock = reserve(1)
    owner = identity(os.getpid())
    settings = LabSettings(version=version, manager="extensible", brokers=1, auth=True)
    cluster = Cluster(home, settings, ports, java, Tokens(), owner)
    (home / "log4j2.xml").write_text(conf.LOGGING)
    with lock:
        try:
            store.start_zookeeper(home, java, ports, owner=owner, lock=lock)
            store.set_up_metadata(home, java, ports, owner=owner)
            Jvm(home, "zookeeper").kill()
            store.copy_metadata(home, folder / "metadata")
            store.start_zookeeper(home, java, ports, owner=owner, lock=lock)
            store.start_bookie(home, java, ports, owner=owner)
            start_brokers(cluster)
            _exercise(cluster)
        finally:
            cluster.down(keep=True)
    return folder / "metadata"


def _exercise(cluster: Cluster) -> None:
    """Send some of the tests' requests, so that their classes are loaded."""
    admin = cluster.admin()
    tenant = NAMESPACE.partition("/")[0]
    admin.demand("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": [cluster.name]})
    admin.demand("PUT", f"/admin/v2/namespaces/{NAMESPACE}", {"bundles": {"numBundles": 1}})
    admin.demand("PUT", f"/admin/v2/persistent/{NAMESPACE}/keel")
    for path in READS:
        admin.demand("GET", path)
    whole = f"/admin/v2/namespaces/{NAMESPACE}/0x00000000_0xffffffff"
    admin.demand("PUT", f"{whole}/split?unload=false")
    admin.demand("PUT", f"/admin/v2/namespaces/{NAMESPACE}/0x00000000_0x7fffffff/unload")
