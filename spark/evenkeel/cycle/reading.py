"""Conversion of rows to the values of decisions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

from evenkeel.cycle.memo import Row, Rows, is_known, once
from evenkeel.cycle.reported_bundles import ReportedBundles, StatsOfBroker, reported_bundles
from evenkeel.model.averages import Figures, default_history, figures_of, summed
from evenkeel.model.bundles import parse_boundaries
from evenkeel.model.load import (
    LONG_TERM_SAMPLES,
    RATES,
    SHORT_TERM_SAMPLES,
    BrokerAverages,
    BrokerReport,
    BundleHistory,
    BundleStats,
    IsolationPolicy,
    MessageAverages,
    Policies,
    ResourceUsage,
)
from evenkeel.model.past_commands import HARMED, Act, acts_of
from evenkeel.settings import Settings, settings_in, simple_class_name

__all__ = ["Row", "Rows"]

REPORTED = "reported"
EXTENSIBLE = "extensible"
Decided = dict[str, list[dict[str, Any]]]
"""Result of a round: table -> its rows."""

Round = Callable[[Row, Rows], Decided]
MANY_BUNDLES = 1_000
MANY_OF_A_BROKER = 20
"""Number of bundles, and of bundles per broker, below which `BundleStats` of all are made sooner than columns."""
_BY_NAME = itemgetter(0)
BUNDLE_COLUMNS = (
    *("cluster", "cycle_at", "bundle", "owner", "ownership", "last_owner", "has_non_persistent"),
    *("topics", "consumers", "producers", *(f"used_{name}" for name in RATES)),
    *("short_samples", "long_samples", *(f"{term}_{name}" for term in ("short", "long") for name in RATES)),
    "samples_since_quota",
)
"""Columns of `bundle_load` that deciding on splits, shedding and placement reads: half of them. Most rows of a large
cluster are in this table."""


def cycle_row(
    cluster: str,
    cycle_at: datetime | str,
    settings: str | None,
    settings_digest: str | None,
    *,
    manager: str | None,
    mode: str = "dry_run",
    kind: str = "live",
    snapshot_at: datetime | str | None = None,
    predecessor: tuple[str | None, str] = (None, "none"),
    wishes: Sequence[Mapping[str, Any]] = (),
    acts: Sequence[Mapping[str, Any]] = (),
    pauses: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the row that describes the cycle to the rounds. Times are ISO-8601 text in UTC with microseconds.

    `settings`: JSON text of the effective settings. `acts` and `pauses` are the cycle's knowledge of earlier commands,
    times as text; `snapshot_at` is the time of its snapshot; `predecessor`: the time and status of the cycle whose
    state it takes over.
    """
    predecessor_at, predecessor_status = predecessor
    return {
        "cluster": cluster,
        "cycle_at": _text(cycle_at),
        "settings": settings,
        "settings_digest": settings_digest,
        "manager": manager,
        "mode": mode,
        "kind": kind,
        "snapshot_at": None if snapshot_at is None else _text(snapshot_at),
        "predecessor_cycle_at": predecessor_at,
        "predecessor_status": predecessor_status,
        "wishes": json.dumps([*wishes]),
        "steering": json.dumps({"acts": [*acts], "pauses": [*pauses]}),
    }


def _text(moment: datetime | str) -> str:
    return moment if isinstance(moment, str) else moment.isoformat(timespec="microseconds")


def the_cycle(rows: Rows) -> Row:
    """Return the only row of the cycle, with the settings in force."""
    return rows["cycle"][0]


def by_manager(rows: Rows, modular: Round, extensible: Round) -> Round:
    """Return the round of the load manager in force: the operator's setting (`evenkeelManager`), else the brokers'."""
    return extensible if the_cycle(rows)["manager"] == EXTENSIBLE else modular


def settings_of(rows: Rows) -> Settings:
    """Return the settings in force."""
    return settings_in(the_cycle(rows)["settings"])


@once
def broker_reports(rows: Rows) -> dict[str, BrokerReport]:
    """Return the reports of the brokers that reported, by name; figures of their bundles come from `bundle_load`."""
    owned: dict[str, dict[str, BundleStats]] = {}
    for bundle in rows["bundle_load"]:
        if bundle["owner"] is not None:
            owned.setdefault(bundle["owner"], {})[bundle["bundle"]] = _stats(bundle)
    return _reports(rows, owned)


@once
def reports_of_few_looks(rows: Rows) -> dict[str, BrokerReport]:
    """Return `broker_reports` for a rule that reads few bundles: in a large cluster each is read on request."""
    many = None if is_known(rows, broker_reports) else many_bundles(rows)
    return broker_reports(rows) if many is None else _reports(rows, many.by_owner)


@once
def many_bundles(rows: Rows) -> ReportedBundles | None:
    """Return the bundles of a large cluster; None if they are few."""
    bundles = rows["bundle_load"]
    is_large = len(bundles) >= max(MANY_BUNDLES, MANY_OF_A_BROKER * len(rows["broker_load"]))
    return reported_bundles(bundles) if is_large else None


def _reports(rows: Rows, owned: Mapping[str, Mapping[str, BundleStats]]) -> dict[str, BrokerReport]:
    usable = usable_reports(rows)
    return {report["broker"]: _report(report, owned.get(report["broker"], {})) for report in usable}


UNCLEAR = frozenset({"doubled", "unknown"})
"""Ownership in `bundle_load` of a bundle with two owners, or an unknown one."""


def moment_of_ages(cycle: Row) -> datetime:
    """Return the moment from which ages of reports count: the cycle's, or its snapshot's if that is later."""
    moments = [cycle["cycle_at"], cycle.get("snapshot_at")]
    return max(datetime.fromisoformat(text) for text in moments if text)


def report_age(report: Row, at: datetime) -> float | None:
    """Return the seconds since the report; one without a time is as old as the request it answers."""
    measured_at = report.get("report_at") or report.get("asked_at")
    return None if measured_at is None else (at - datetime.fromisoformat(measured_at)).total_seconds()


@once
def usable_reports(rows: Rows) -> list[Row]:
    """Return usable reports, by broker: those that `broker_load` took over as reported."""
    taken = {row["broker"] for row in rows["broker_load"] if row["state"] == REPORTED}
    usable = {
        row["broker"]: row
        for row in rows["broker_reports"]  # an unknown load never counts as zero
        if row["broker"] in taken and row["state"] == REPORTED and row["cpu_usage"] is not None
    }
    return [usable[broker] for broker in sorted(usable)]


def _report(row: Row, stats: Mapping[str, BundleStats]) -> BrokerReport:
    named = row["bundles"] if row["bundles"] is not None else stats
    return BrokerReport(
        broker=row["broker"],
        cpu=_resource(row, "cpu"),
        memory=_resource(row, "memory"),
        direct_memory=_resource(row, "direct_memory"),
        bandwidth_in=_resource(row, "bandwidth_in"),
        bandwidth_out=_resource(row, "bandwidth_out"),
        msg_rate_in=_total(row, stats, "msg_rate_in"),
        msg_rate_out=_total(row, stats, "msg_rate_out"),
        msg_throughput_in=_total(row, stats, "msg_throughput_in"),
        msg_throughput_out=_total(row, stats, "msg_throughput_out"),
        topics=row["topics"] if row["topics"] is not None else sum(_figures_of("topics", stats)),
        bundles=frozenset(named),
        stats=stats,
        version=row["pulsar_version"],
        load_manager=simple_class_name(row["load_manager_class"]) if row["load_manager_class"] else None,
        persistent_topics=row["persistent_topics_enabled"] is not False,
        non_persistent_topics=row["non_persistent_topics_enabled"] is not False,
    )


def _resource(row: Row, name: str) -> ResourceUsage:
    return ResourceUsage(row[f"{name}_usage"] or 0.0, row[f"{name}_limit"] or 0.0)


def _total(row: Row, stats: Mapping[str, BundleStats], name: str) -> float:
    """Return the broker's own total if it gave one (as Pulsar uses), else the sum over its bundles in name order."""
    if row[name] is not None:
        return float(row[name])
    return float(sum(figure for _, figure in sorted(zip(stats, _figures_of(name, stats), strict=True), key=_BY_NAME)))


def _figures_of(name: str, stats: Mapping[str, BundleStats]) -> list[Any]:
    """Return one figure of all these bundles, in their order."""
    if isinstance(stats, StatsOfBroker):
        return stats.column(name)
    return [getattr(bundle_stats, name) for bundle_stats in stats.values()]


def _stats(bundle: Row) -> BundleStats:
    return BundleStats(
        bundle["topics"] or 0,
        bundle["consumers"] or 0,
        bundle["producers"] or 0,
        bundle["used_msg_rate_in"] or 0.0,
        bundle["used_msg_rate_out"] or 0.0,
        bundle["used_msg_throughput_in"] or 0.0,
        bundle["used_msg_throughput_out"] or 0.0,
    )


@once
def histories(rows: Rows) -> Histories:
    """Return short- and long-term averages of the bundles that have had a sample, or began from a resource quota."""
    return Histories({row["bundle"]: row for row in rows["bundle_load"] if row["long_samples"] > 0})


@once
def boundaries(rows: Rows) -> dict[str, tuple[int, ...]]:
    """Return each namespace's boundaries."""
    return {row["namespace"]: parse_boundaries(row["boundaries"]) for row in rows["namespace_bundles"]}


@once
def bundle_counts(rows: Rows) -> dict[str, int]:
    """Return each namespace's number of bundles."""
    return {namespace: len(limits) - 1 for namespace, limits in boundaries(rows).items()}


@once
def policies(rows: Rows) -> Policies:
    """Return the cluster's policies; none without a row of them."""
    many = many_bundles(rows) if is_known(rows, many_bundles) else None
    if many is None:
        non_persistent = frozenset(row["bundle"] for row in rows["bundle_load"] if row["has_non_persistent"])
    else:
        non_persistent = many.non_persistent
    if not rows["cluster_policies"]:
        return Policies(non_persistent_bundles=non_persistent)
    row = rows["cluster_policies"][0]
    return Policies(
        groups=dict(row["anti_affinity_groups"] or {}),
        domains={name: tuple(members) for name, members in (row["failure_domains"] or {}).items()},
        isolation={
            name: _isolation_policy(body)
            for name, body in sorted(json.loads(row["isolation_policies"] or "{}").items())
        },
        non_persistent_bundles=non_persistent,
    )


def _isolation_policy(body: Row) -> IsolationPolicy:
    failover = body.get("auto_failover_policy") or {}
    least = (failover.get("parameters") or {}).get("min_limit", 1)
    return IsolationPolicy(
        namespaces=_texts(body.get("namespaces")),
        primary=_texts(body.get("primary")),
        secondary=_texts(body.get("secondary")),
        min_available=int(least),
        matched=body.get("matched"),
    )


def _texts(values: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(str(value) for value in values or ())


# Averages of bundles, read from rows on request: most decisions look at few bundles of thousands.

_FIGURES = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
_SHORT, _LONG = (itemgetter(f"{term}_samples", *(f"{term}_{name}" for name in _FIGURES)) for term in ("short", "long"))
_BOTH = itemgetter(*(f"{term}_{name}" for term in ("short", "long") for name in _FIGURES))
_OF_AN_UNKNOWN_BUNDLE = figures_of(default_history())


class Histories(Mapping[str, BundleHistory]):
    """Bundle -> its history, of those that have one. Read histories stay, also for restricted views."""

    def __init__(self, rows: Mapping[str, Row], read: dict[str, BundleHistory] | None = None) -> None:
        self._rows = rows
        self._read: dict[str, BundleHistory] = {} if read is None else read

    def without(self, left_out: Collection[str]) -> Histories:
        """Return these averages, without some bundles."""
        return Histories({bundle: row for bundle, row in self._rows.items() if bundle not in left_out}, self._read)

    def only(self, kept: Iterable[str]) -> Histories:
        """Return these averages, of some bundles only."""
        return Histories({bundle: self._rows[bundle] for bundle in kept if bundle in self._rows}, self._read)

    def figures(self, bundle: str) -> Figures:
        """Return one bundle's averages without making a history; those of an unknown bundle are assumed."""
        row = self._rows.get(bundle)
        if row is None:
            return _OF_AN_UNKNOWN_BUNDLE
        averages: Figures = _BOTH(row)
        return averages

    def long_term(self, bundle: str) -> tuple[float, float]:
        """Return msg/s and byte/s of one bundle over the long term, in and out; 0 for an unknown bundle."""
        row = self._rows.get(bundle)
        if row is None:
            return 0.0, 0.0
        _, flow_in, flow_out, rate_in, rate_out = _LONG(row)
        return rate_in + rate_out, flow_in + flow_out

    def above(self, rate: float, throughput: float) -> Collection[str]:
        """Return the bundles whose long-term rate (msg/s) or throughput (byte/s), in and out, is larger."""
        averages = zip(self._rows, map(_LONG, self._rows.values()), strict=True)
        return {
            bundle
            for bundle, (_, flow_in, flow_out, rate_in, rate_out) in averages
            if rate_in + rate_out > rate or flow_in + flow_out > throughput
        }

    def sums(self, bundles: Iterable[str]) -> BrokerAverages:
        """Return the averages of a broker over these bundles."""
        return summed(self.figures(bundle) for bundle in sorted(bundles))

    def __getitem__(self, bundle: str) -> BundleHistory:
        history = self._read.get(bundle)
        if history is None or bundle not in self._rows:
            row = self._rows[bundle]
            short, long = _SHORT(row), _LONG(row)
            history = BundleHistory(
                MessageAverages(SHORT_TERM_SAMPLES, *short),
                MessageAverages(LONG_TERM_SAMPLES, *long),
                row["topics"] or 0,
                row.get("samples_since_quota"),
            )
            self._read[bundle] = history
        return history

    def __contains__(self, bundle: object) -> bool:
        return bundle in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def acts_before(cycle: Row) -> tuple[Act, ...]:
    """Return the commands that went out before this cycle, or may have, with their observed outcomes."""
    return acts_of(act_rows(cycle))


def act_rows(cycle: Row) -> list[dict[str, Any]]:
    """Return the past commands as rows, with times as text."""
    return [row for row in _steering(cycle).get("acts", ()) if row["outcome"] != HARMED]


def harm_rows(cycle: Row) -> list[dict[str, Any]]:
    """Return the past commands that did harm, with `seen_at`, when it was first seen."""
    return [row for row in _steering(cycle).get("acts", ()) if row["outcome"] == HARMED]


def pauses(cycle: Row) -> list[dict[str, Any]]:
    """Return the pauses of the cluster in force when the cycle began: by whom (`by`) and why (`reason`)."""
    return list(_steering(cycle).get("pauses", ()))


def _steering(cycle: Row) -> dict[str, Any]:
    return _parsed(cycle.get("steering") or "{}")


@lru_cache(maxsize=2)
def _parsed(text: str) -> dict[str, Any]:
    """Return the parsed JSON, cached, since a cycle reads it several times; callers must not change it."""
    value: dict[str, Any] = json.loads(text)
    return value
