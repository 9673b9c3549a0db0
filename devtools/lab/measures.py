"""Owners and load, from the brokers' own figures.

Figures change with each broker's stats period. While a bundle moves, its topics are for a period in no broker's figures
or in those of two brokers. So load is measured over periods in which every topic had exactly one broker.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

from devtools.lab.admin import Admin, segments
from devtools.lab.conf import STATS_SECONDS
from devtools.lab.errors import LabError
from devtools.lab.readiness import listed

PERIODS_TO_SETTLE = 2


@dataclass(frozen=True, slots=True)
class Load:
    """Throughput in and out, bytes/s, of each broker and each topic: means over settled stats periods."""

    by_broker: Mapping[str, float]
    by_topic: Mapping[str, float]
    broker_of: Mapping[str, str]
    periods: int

    @property
    def share(self) -> Mapping[str, float]:
        """Return the part of all throughput that a broker carries."""
        total = sum(self.by_broker.values())
        return {broker: load / total if total else 0.0 for broker, load in self.by_broker.items()}

    @property
    def max_over_mean(self) -> float:
        """1 where all brokers that live carry the same; their number where one carries all."""
        shares = self.share.values()
        return max(shares) * len(shares) if sum(shares) else 1.0


def owners(admin: Admin, *, of: str = "") -> dict[str, str]:
    """Return bundle -> its owner, of namespaces with this prefix (`tenant/`); bundles without an owner are left out.

    A request to a broker for the non-persistent topics of a bundle redirects to its owner. That assigns nothing, and
    unlike `ownedNamespaces` it cannot hang a modular broker.
    """
    owner_of: dict[str, str] = {}
    for tenant in admin.get("/admin/v2/tenants"):
        for namespace in admin.get(f"/admin/v2/namespaces/{segments(tenant)}"):
            if not f"{namespace}/".startswith(of):
                continue
            path = segments(*namespace.split("/"))
            bounds = admin.get(f"/admin/v2/namespaces/{path}/bundles")["boundaries"]
            for lower, upper in pairwise(bounds):
                answer = admin.ask("GET", f"/admin/v2/non-persistent/{path}/{lower}_{upper}")
                if answer.status == 200:
                    owner_of[f"{namespace}/{lower}_{upper}"] = answer.broker
    return owner_of


def topic_figures(admin: Admin) -> dict[str, dict[str, float]]:
    """Return for each listed broker that answers: throughput (bytes/s, in and out) of the topics in its figures."""
    figures_of = {}
    for broker in sorted(listed(admin)):
        answer = admin.ask("GET", "/admin/v2/broker-stats/topics", url=_url(admin, broker))
        if answer.fine:
            figures_of[broker] = {
                topic: figures["msgThroughputIn"] + figures["msgThroughputOut"]
                for ranges in answer.json().values()
                for domains in ranges.values()
                for topics in domains.values()
                for topic, figures in topics.items()
            }
    return figures_of


def measure_load(admin: Admin, topics: Collection[str], *, periods: int = 3, seconds: float = 90.0) -> Load:
    """Return the load that these topics make, over `periods` settled stats periods in a row.

    Settled: every one of them is in the figures of exactly one broker and has throughput, and none has moved since the
    previous period. The first two periods after a move do not count: they contain the clients' backlog. Raises LabError
    if that does not happen within `seconds`.
    """
    until = time.monotonic() + seconds
    row: list[dict[str, dict[str, float]]] = []
    while True:
        figures = _of(topics, topic_figures(admin))
        places = _places(figures)
        unsettled = sorted(topic for topic in topics if len(places.get(topic, ())) != 1)
        if unsettled or (row and _places(row[-1]) != places):
            row = []
        if not unsettled:
            row.append(figures)
        if len(row) == PERIODS_TO_SETTLE + periods:
            return _mean(row[PERIODS_TO_SETTLE:])
        if time.monotonic() > until:
            raise LabError(
                f"The load of {len(topics)} topics did not settle within {seconds:.0f} s: in the figures of no "
                f"broker or of several are now {len(unsettled)} of them, e.g. {', '.join(unsettled[:3]) or '(none)'}."
            )
        time.sleep(STATS_SECONDS)  # brokers renew their figures so often


def _of(topics: Collection[str], figures: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    wanted = frozenset(topics)
    return {broker: {t: load for t, load in topics_of.items() if t in wanted} for broker, topics_of in figures.items()}


def _places(figures: Mapping[str, Mapping[str, float]]) -> dict[str, frozenset[str]]:
    """The brokers in whose figures a topic has throughput."""
    places: dict[str, frozenset[str]] = {}
    for broker, topics in figures.items():
        for topic, load in topics.items():
            if load > 0:
                places[topic] = places.get(topic, frozenset()) | {broker}
    return places


def _mean(row: Sequence[Mapping[str, Mapping[str, float]]]) -> Load:
    broker_of = {topic: next(iter(brokers)) for topic, brokers in _places(row[-1]).items()}
    by_topic = {
        topic: sum(figures[broker].get(topic, 0.0) for figures in row) / len(row) for topic, broker in broker_of.items()
    }
    by_broker = dict.fromkeys(row[-1], 0.0)
    for topic, broker in broker_of.items():
        by_broker[broker] += by_topic[topic]
    return Load(by_broker, by_topic, broker_of, len(row))


def _url(admin: Admin, broker: str) -> str:
    """Return the address of a broker, by its id."""
    return f"{urlsplit(admin.urls[0]).scheme}://{broker}"
