"""Makes a layout on a cluster: tenant, namespaces, topics, groups, domains; then brings each bundle to its broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

from devtools.lab.admin import Admin, segments
from devtools.lab.cluster import Cluster
from devtools.lab.layout import Bundle, Layout
from devtools.lab.waiting import wait_until

AT_ONCE = 8
EXISTS = (409,)
PLACE_SECONDS = 60.0


def lay_out(cluster: Cluster, layout: Layout) -> None:
    """Create everything and return once every bundle is owned by the layout's broker. LabError otherwise."""
    admin = cluster.admin()
    for domain, brokers in layout.domains.items():
        path = f"/admin/v2/clusters/{segments(cluster.name)}/failureDomains/{segments(domain)}"
        admin.demand("POST", path, {"brokers": list(brokers)})
    tenant = {"allowedClusters": [cluster.name], "adminRoles": []}
    admin.demand("PUT", f"/admin/v2/tenants/{segments(layout.tenant)}", tenant, also=EXISTS)
    for namespace, bundles in layout.bundle_counts.items():
        policies = {"bundles": {"numBundles": bundles}}
        admin.demand("PUT", f"/admin/v2/namespaces/{_path(namespace)}", policies, also=EXISTS)
    for namespace, group in layout.groups.items():
        # The bare text: the body is stored unchanged, and JSON's quotes would become part of the group's name.
        admin.demand("POST", f"/admin/v2/namespaces/{_path(namespace)}/antiAffinity", group)
    for topic, partitions in layout.partitioned.items():
        admin.demand("PUT", f"/admin/v2/{_topic_path(topic)}/partitions", partitions, also=EXISTS)
    _each(lambda bundle: _create_topics(admin, bundle), layout.bundles)
    _each(lambda bundle: _place(admin, bundle), layout.bundles)


def owner_of(admin: Admin, topic: str) -> str | None:
    """The broker that serves a topic, as host:port; asking assigns its bundle if no one has it. None: not known now."""
    answer = admin.ask("GET", f"/lookup/v2/topic/{_topic_path(topic)}")
    return urlsplit(answer.json()["httpUrl"]).netloc if answer.fine else None


def _create_topics(admin: Admin, bundle: Bundle) -> None:
    for topic in bundle.topics:
        if "-partition-" not in topic.name:
            admin.demand("PUT", f"/admin/v2/{_topic_path(topic.name)}", also=EXISTS)


def _place(admin: Admin, bundle: Bundle) -> None:
    """Unload a bundle to its broker, repeated until it arrives: 204 means only that the bundle was closed.

    It must be owned first. An unload of a bundle without owner moves nothing, and to its own broker it is an error
    (extensible) or a useless interruption (modular).
    """
    topic = bundle.topics[0].name
    path = f"/admin/v2/namespaces/{_path(bundle.namespace)}/{bundle.range}/unload"

    def is_there() -> bool:
        owner = owner_of(admin, topic)
        if bundle.broker is not None and owner not in (None, bundle.broker):
            admin.ask("PUT", f"{path}?destinationBroker={quote(bundle.broker, safe=':')}")
            owner = owner_of(admin, topic)
        return owner is not None and bundle.broker in (None, owner)

    wait_until(f"{bundle.name} on {bundle.broker or 'any broker'}", is_there, seconds=PLACE_SECONDS)


def _each(do: Callable[[Bundle], None], bundles: Iterable[Bundle]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(do, bundle) for bundle in bundles]:
            done.result()


def _path(namespace: str) -> str:
    return segments(*namespace.split("/"))


def _topic_path(topic: str) -> str:
    domain, _, path = topic.partition("://")
    return segments(domain, *path.split("/", 2))
