"""`/broker-stats/metrics`: usage in percent, and the broker's own sums of rates.

It is the extensible manager's only REST source of resource usage (it answers no load report). The entry with
`metric: loadBalancing` has `brk_lb_*_usage` in percent (32-bit figures); with `feature: max_ema` the published
`weightedMaxEMA` as a fraction; entries with a `namespace` have that namespace's rates on this broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenkeel.pulsar.members import Members
from evenkeel.pulsar.reading import Rejection
from evenkeel.pulsar.view import Row

PERCENT_LIMIT = 100.0

_USAGE = {
    "cpu": "brk_lb_cpu_usage",
    "memory": "brk_lb_memory_usage",
    "direct_memory": "brk_lb_directMemory_usage",
    "bandwidth_in": "brk_lb_bandwidth_in_usage",
    "bandwidth_out": "brk_lb_bandwidth_out_usage",
}
_RATES = {
    "msg_rate_in": "brk_in_rate",
    "msg_rate_out": "brk_out_rate",
    "msg_throughput_in": "brk_in_tp_rate",
    "msg_throughput_out": "brk_out_tp_rate",
}
_COUNTS = {"consumers": "brk_no_of_consumers", "producers": "brk_no_of_producers"}


def metrics_figures(entries: list[Any], table: str, place: str, rejections: list[Rejection]) -> Row:
    """Usage (percent, limit 100), `weighted_max_ema`, rates and counts of one broker, as columns of broker_reports."""
    figures: Row = {"resource_origin": None, "weighted_max_ema": None}
    namespaces: list[Members] = []
    for metrics, dimensions in _entries(entries):
        members = Members(metrics, table, f"{place} metrics", rejections)
        if "namespace" in dimensions and "brk_in_rate" in metrics:
            namespaces.append(members)
        elif dimensions.get("metric") == "loadBalancing":
            figures |= _load_balancing(members, metrics, dimensions.get("feature"))
    return figures | _sums(namespaces)


def _load_balancing(members: Members, metrics: dict[str, Any], feature: object) -> Row:
    if feature == "max_ema":
        return {"weighted_max_ema": members.number("brk_lb_resource_usage")}
    if feature is not None or "brk_lb_cpu_usage" not in metrics:
        return {}
    found: Row = {"resource_origin": "metrics_percent"}
    for column, name in _USAGE.items():
        usage = members.number(name)
        found |= {f"{column}_usage": usage, f"{column}_limit": None if usage is None else PERCENT_LIMIT}
    return found


def _sums(namespaces: list[Members]) -> Row:
    """Sums over the namespaces; unknown where one of them is, or where none is listed."""
    rates = {column: _sum(each.number(name) for each in namespaces) for column, name in _RATES.items()}
    counts = {column: _sum(each.count(name) for each in namespaces) for column, name in _COUNTS.items()}
    return rates | counts


def _sum(values: Iterable[Any]) -> Any:
    found = list(values)
    return sum(sorted(found)) if found and None not in found else None


def _entries(entries: list[Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pairs = [(entry.get("metrics"), entry.get("dimensions")) for entry in entries if isinstance(entry, dict)]
    return [(m, d) for m, d in pairs if isinstance(m, dict) and isinstance(d, dict)]
