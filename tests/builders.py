"""Observed rows of small clusters, for tests of whatever comes after ingest.

    shop = cluster("shop", brokers=3).namespace("acme/web", bundles=4).topic("persistent://acme/web/a", msg_rate_in=5.0)
    handover = observed(spark, lake_folder, shop)

A cluster that is built without further words is sound: each bundle is owned by one broker, each topic is shown by its
bundle's owner, and the brokers' own figures are the sums of their topics'. Whatever a test wants otherwise it says.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle, Handover, Predecessor, Run, Snapshot
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.observed import OBSERVED
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import bundle_name, bundle_of, initial_boundaries, parse_boundaries
from evenkeel.model.load import RATES
from evenkeel.settings import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
COUNTS = ("topics", "consumers", "producers")
Row = dict[str, Any]


def cluster(name: str = "lab", *, brokers: int | Sequence[str] = 3, at: datetime = NOON) -> ClusterBuilder:
    """A cluster of `brokers` (a number gives b1:8080, b2:8080, …) as seen in the snapshot that ended `at`."""
    return ClusterBuilder(name, brokers, at)


class ClusterBuilder:
    """Collects what a snapshot shows of one cluster; every method returns the builder."""

    def __init__(self, name: str, brokers: int | Sequence[str], at: datetime) -> None:
        self.name, self.at = name, at
        self.overrides: dict[str, Any] = {}
        self.predecessor = Predecessor()
        self.acts: tuple[Row, ...] = ()
        self._brokers: dict[str, Row] = {}
        self._namespaces: dict[str, Row] = {}
        self._claims: list[Row] = []
        self._topics: list[Row] = []
        self._owners: dict[str, str | None] = {}
        self._policies: Row = {}
        self._extra: dict[str, list[Row]] = defaultdict(list)
        for broker in [f"b{n + 1}:8080" for n in range(brokers)] if isinstance(brokers, int) else brokers:
            self.broker(broker)

    def broker(self, name: str, **columns: Any) -> ClusterBuilder:
        """Adds a broker, or changes columns of one that is there."""
        self._brokers.setdefault(name, {}).update(columns)
        return self

    def silent(self, name: str) -> ClusterBuilder:
        """A broker that is listed and does not answer."""
        self._owners = {bundle: owner for bundle, owner in self._owners.items() if owner != name}
        return self.broker(name, state="no_answer", state_reason="connection refused", has_topic_figures=False)

    def namespace(
        self, name: str = "acme/web", *, bundles: int = 1, boundaries: Sequence[str] | None = None, **columns: Any
    ) -> ClusterBuilder:
        """A namespace of equal bundles, or with the given boundaries; its bundles go to the brokers in turn."""
        texts = list(boundaries) if boundaries is not None else [_hex(edge) for edge in initial_boundaries(bundles)]
        self._namespaces[name] = {"boundaries": texts, "bundles": len(texts) - 1, **columns}
        return self

    def owner(self, bundle: str, broker: str | None) -> ClusterBuilder:
        """Says who owns a bundle; None: nobody."""
        self._owners[bundle] = broker
        return self

    def bundle(self, name: str, broker: str, **columns: Any) -> ClusterBuilder:
        """A further claim: a row of bundle_ownership as given, beside those that follow from the owners."""
        self._claims.append({"bundle": name, "namespace": name.rpartition("/")[0], "broker": broker, **columns})
        return self

    def topic(self, name: str, *, broker: str | None = None, **columns: Any) -> ClusterBuilder:
        """A loaded topic, shown by its bundle's owner unless `broker` says otherwise."""
        self._topics.append({"topic": name, "broker": broker, "observation": "loaded", **columns})
        return self

    def listed(self, name: str) -> ClusterBuilder:
        """A topic that is in the cluster's list and that no broker shows."""
        self._topics.append({"topic": name, "broker": None, "observation": "listed"})
        return self

    def settings(self, **overrides: Any) -> ClusterBuilder:
        self.overrides |= overrides
        return self

    def policies(self, **columns: Any) -> ClusterBuilder:
        self._policies |= columns
        return self

    def row(self, table: str, **columns: Any) -> ClusterBuilder:
        """A further row of any observed table, as given."""
        self._extra[table].append(columns)
        return self

    def follows(self, earlier: Handover) -> ClusterBuilder:
        """Takes its state from a cycle that was aggregated before."""
        before = next(cycle for cycle in earlier.cycles if cycle.cluster == self.name)
        own = tuple(write for write in earlier.writes if write.cluster == self.name)
        self.predecessor = Predecessor("used", before.cycle_at, "attempt", before.cycle_at, own)
        return self

    def acted(self, *acts: Row) -> ClusterBuilder:
        """Commands of earlier cycles, as a hand-over carries them."""
        self.acts += acts
        return self

    def cycle(self) -> ClusterCycle:
        effective = resolve(observed=None, overrides=self.overrides)
        return ClusterCycle(
            cluster=self.name,
            cycle_at=self.at.isoformat(timespec="microseconds"),
            snapshot=Snapshot(f"{self.name}/0000.json.gz", self.at.isoformat(timespec="microseconds")),
            overrides=self.overrides,
            settings=effective.to_json(),
            settings_digest=effective.digest,
            manager=self._policies.get("manager", "modular"),
            predecessor=self.predecessor,
            acts=self.acts,
        )

    def rows(self) -> dict[str, list[Row]]:
        """The rows of all observed tables, every column present."""
        topics = [self._topic_row(topic) for topic in self._topics]
        claims = self._claim_rows(topics)
        found: dict[str, list[Row]] = {
            "broker_reports": [self._broker_row(name, claims) for name in self._brokers],
            "topic_stats": topics,
            "namespace_bundles": [{"namespace": name, **row} for name, row in self._namespaces.items()],
            "bundle_ownership": claims,
            "resource_quotas": [],
            "cluster_policies": [self._policy_row()],
            "raw_answers": self._answer_rows(),
        }
        stamp = {"cluster": self.name, "cycle_at": self.at}
        return {
            name: [_complete(name, {**stamp, **row}) for row in (*rows, *self._extra[name])]
            for name, rows in found.items()
        }

    def bundles(self) -> list[str]:
        return [
            bundle_name(namespace, part)
            for namespace, row in self._namespaces.items()
            for part in _ranges(row["boundaries"])
        ]

    def owner_of(self, bundle: str) -> str | None:
        if bundle in self._owners:
            return self._owners[bundle]
        answering = [name for name, row in self._brokers.items() if row.get("state", "reported") == "reported"]
        return answering[self.bundles().index(bundle) % len(answering)] if answering else None

    def bundle_of_topic(self, name: str) -> str | None:
        namespace = "/".join(name.split("://", 1)[-1].split("/")[:2])
        row = self._namespaces.get(namespace)
        if row is None or not _ranges(row["boundaries"]):
            return None
        return bundle_name(namespace, bundle_of(parse_boundaries(row["boundaries"]), zlib.crc32(name.encode())))

    def _topic_row(self, topic: Row) -> Row:
        name, bundle = topic["topic"], self.bundle_of_topic(topic["topic"])
        is_loaded = topic["observation"] == "loaded"
        shown = [row for row in self._topics if row["topic"] == name and row["observation"] == "loaded"]
        body: Row = {
            "namespace": "/".join(name.split("://", 1)[-1].split("/")[:2]),
            "domain": name.partition("://")[0],
            "hash": zlib.crc32(name.encode()),
            "seen_on": len(shown),
            "bundle_range": bundle.rpartition("/")[2] if bundle and is_loaded else None,
        }
        if is_loaded:
            body |= dict.fromkeys(RATES, 0.0) | {"producers": 1, "consumers": 1, "subscriptions": 1}
        body |= topic
        if is_loaded and body["broker"] is None:
            body["broker"] = (self.owner_of(bundle) if bundle else None) or next(iter(self._brokers))
        return body

    def _claim_rows(self, topics: list[Row]) -> list[Row]:
        claims: list[Row] = []
        for bundle in self.bundles():
            owner = self.owner_of(bundle)
            if owner is None:
                continue
            namespace, _, part = bundle.rpartition("/")
            inside = [t for t in topics if (t["broker"], t["namespace"], t["bundle_range"]) == (owner, namespace, part)]
            claim: Row = {"bundle": bundle, "namespace": namespace, "broker": owner, "is_owned": True}
            claim |= {"is_active": True, "is_reported": True, "topics": len(inside)}
            claim |= {name: sum(map(_sane, (t[name] for t in inside))) for name in (*RATES, "consumers", "producers")}
            claims.append(claim)
        return claims + self._claims

    def _broker_row(self, name: str, claims: list[Row]) -> Row:
        own = [claim for claim in claims if claim["broker"] == name]
        body: Row = {"broker": name, "state": "reported", "is_listed": True, "is_leader": False, "manager": "modular"}
        body |= {"asked_at": self.at, "has_topic_figures": True} | self._brokers[name]
        if body["state"] != "reported":
            return body
        report: Row = {
            "pulsar_version": "4.2.4",
            "report_at": self.at - timedelta(seconds=5),
            "resource_origin": "load_report",
            "owned_bundles": sum(bool(claim.get("is_owned")) for claim in own),
            "bundles": sorted(claim["bundle"] for claim in own if claim.get("is_reported")),
        }
        for resource in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out"):
            report |= {f"{resource}_usage": 30.0, f"{resource}_limit": 100.0}
        report |= {column: sum(claim.get(column) or 0 for claim in own) for column in (*RATES, *COUNTS)}
        return report | body

    def _policy_row(self) -> Row:
        leader = next(iter(self._brokers), None)
        return {
            "manager": "modular",
            "generation": "4.x",
            "leader": leader,
            "brokers": sorted(name for name, row in self._brokers.items() if row.get("is_listed", True)),
            "failure_domains": {},
            "anti_affinity_groups": {},
            "configuration": {},
            "snapshot": f"{self.name}/0000.json.gz",
            "snapshot_started_at": self.at - timedelta(seconds=1),
            "snapshot_finished_at": self.at,
        } | self._policies

    def _answer_rows(self) -> list[Row]:
        return [
            {
                "n": n,
                "broker": broker,
                "method": "GET",
                "path": "/admin/v2/broker-stats/topics",
                "status": 200 if row.get("has_topic_figures", True) else 0,
                "at": self.at,
                "elapsed_ms": 5.0,
            }
            for n, (broker, row) in enumerate(self._brokers.items())
        ]


def frames(spark: SparkSession, *clusters: ClusterBuilder) -> dict[str, DataFrame]:
    """The observed tables of these clusters, without the stamp of a write."""
    return {
        table.name: frame(spark, table.name, [row for one in clusters for row in one.rows()[table.name]])
        for table in OBSERVED
    }


def frame(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of any table as a frame of its body columns; a column that a row lacks is NULL."""
    from pyspark.sql.types import StructType

    body = [field for field in TABLES[table].struct_type().fields if field.name not in STAMP_NAMES]
    values = [tuple(row.get(field.name) for field in body) for row in rows]
    return spark.createDataFrame(values, StructType(body))


def observed(spark: SparkSession, lake: str, *clusters: ClusterBuilder, kind: str = "live") -> Handover:
    """Writes the clusters' observed rows as ingest would and returns the hand-over that validate gets."""
    store = Lake(lake)
    store.ensure_tables(spark)
    start = Handover(lake, Run("tests", "run", kind), tuple(one.cycle() for one in clusters))
    return start.with_writes(store.append(spark, frames(spark, *clusters), handover=start, task="ingest"))


def _complete(table: str, row: Row) -> Row:
    return {column.name: row.get(column.name) for column in TABLES[table].body_columns()}


def _ranges(texts: Sequence[str]) -> list[str]:
    return [f"{lower}_{upper}" for lower, upper in pairwise(texts)]


def _sane(figure: float | None) -> float:
    """What a topic adds to the broker's own sums: a figure that is none adds nothing."""
    return figure if figure is not None and math.isfinite(figure) and figure > 0 else 0


def _hex(edge: int) -> str:
    return f"0x{edge:08x}"
