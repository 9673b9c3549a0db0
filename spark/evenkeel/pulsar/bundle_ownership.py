"""Who claims which bundle: rows of `bundle_ownership`."""

from __future__ import annotations

from typing import Any

from evenkeel.pulsar.answers import Members, Rejection
from evenkeel.pulsar.broker_reports import Broker, bundle_figures
from evenkeel.pulsar.snapshot import Row

TABLE = "bundle_ownership"


def ownership_of(broker: Broker, rejections: list[Rejection]) -> list[Row]:
    """One row per bundle that the broker owns now, lists in its report or has figures for, by name.

    `ownedNamespaces` is the only read of ownership as it is now; the report may lag by a stats period.
    """
    report = broker.report
    listed = _names(report.get("bundles")) if report is not None else None
    stats = Members(report or {}, TABLE, f"{broker.name} load-report", rejections).inside("lastStats")
    owned = broker.owned
    figured = stats.names_inside()
    rows = []
    for bundle in sorted({*(owned or ()), *(listed or ()), *figured}):
        figures = bundle_figures(stats.inside(bundle)) if bundle in figured else {}
        rows.append(_row(broker, bundle, owned, listed) | figures)
    return rows


def _row(broker: Broker, bundle: str, owned: dict[str, Any] | None, listed: frozenset[str] | None) -> Row:
    status = (owned or {}).get(bundle)
    active = status.get("is_active") if isinstance(status, dict) else None
    return {
        "bundle": bundle,
        "namespace": bundle.rpartition("/")[0],
        "broker": broker.name,
        "is_owned": None if owned is None else bundle in owned,
        "is_active": active if isinstance(active, bool) else None,
        "is_reported": None if listed is None else bundle in listed,
    }


def _names(value: object) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()
