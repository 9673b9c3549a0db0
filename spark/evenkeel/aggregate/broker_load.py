"""A broker's row: usage in percent, weighted usage, sums over the bundles it owns, averages of those it reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any

from evenkeel.aggregate.bundle_load import AVERAGES, Row
from evenkeel.model.averages import DEFAULT_STATS
from evenkeel.model.exact_sums import exact_sums
from evenkeel.model.load import RATES, ResourceUsage
from evenkeel.model.usage import float32
from evenkeel.model.usage import percent as percent_of
from evenkeel.settings import Settings

REPORTED = "reported"
REJECTED = "rejected"
RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")

# The modular manager never uses heap memory (LocalBrokerData.getMaxResourceUsageWithWeight). The extensible manager
# does, with a separate weight (BrokerLoadData.getWeightedMaxResourceUsage).
MODULAR_RESOURCES = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")


def broker_rows(
    stamp: Row,
    reports: Iterable[Row],
    refused: Set[str],
    bundles: Sequence[Row],
    settings: Settings,
    *,
    is_extensible: bool,
) -> list[dict[str, Any]]:
    """Rows of broker_load, one for each broker of `reports`, by name; `stamp` are cluster and cycle_at.

    `reports` are rows of broker_reports, one per broker (`reports_once`); `refused` the brokers whose report was set
    aside: such a broker keeps its row, with state `rejected` and its usage not known. `bundles` are rows of
    bundle_load. `is_extensible`: the extensible manager's rules hold.
    """
    weights = weights_in(settings)
    known = {row["bundle"]: row for row in bundles}
    owned: dict[str, list[Row]] = {}
    for row in bundles:
        if row["owner"] is not None:
            owned.setdefault(row["owner"], []).append(row)
    looked_at = RESOURCES if is_extensible else MODULAR_RESOURCES
    in_order = sorted(reports, key=lambda broker_report: str(broker_report["broker"]))
    states = [_state(report, refused) for report in in_order]
    sums = _sums(in_order, states, owned, known)
    return [
        _row(stamp, report, state, owned.get(report["broker"], ()), broker_sums, weights, looked_at)
        for report, state, broker_sums in zip(in_order, states, sums, strict=True)
    ]


def _state(report: Row, refused: Set[str]) -> str:
    state: str = report["state"]
    return REJECTED if state == REPORTED and report["broker"] in refused else state


def _sums(
    reports: Sequence[Row], states: Sequence[str], owned: Mapping[str, Sequence[Row]], known: Mapping[str, Row]
) -> list[dict[str, float | None]]:
    """Yield each broker's sums of used figures over its bundles, of averages over those that count (none: None)."""
    groups: list[list[float | None]] = []
    for report, state in zip(reports, states, strict=True):
        bundles = owned.get(report["broker"], ())
        counted = _counted(report["bundles"], bundles, known) if state == REPORTED else ()
        groups += [[bundle[name] for bundle in bundles] for name in _USED]
        groups += [[bundle[name] for bundle in counted] for name in AVERAGES]
    sums = iter(exact_sums(groups))
    return [dict(zip(_ADDED, islice(sums, len(_ADDED)), strict=True)) for _ in reports]


_USED = tuple(f"used_{name}" for name in RATES)
_ADDED = (*_USED, *AVERAGES)


def _row(
    stamp: Row,
    report: Row,
    state: str,
    owned: Sequence[Row],
    sums: Mapping[str, float | None],
    weights: Mapping[str, float],
    looked_at: Iterable[str],
) -> dict[str, Any]:
    broker, has_report = report["broker"], state == REPORTED
    percents = {
        name: percent(report[f"{name}_usage"], report[f"{name}_limit"]) if has_report else None for name in RESOURCES
    }
    topics = [row["topics"] for row in owned if row["topics"] is not None]
    nothing = 0.0 if report["owned_bundles"] == 0 else None
    row: dict[str, Any] = {
        "cluster": stamp["cluster"],
        "cycle_at": stamp["cycle_at"],
        "broker": broker,
        "state": state,
        "is_leader": report["is_leader"],
        "pulsar_version": report["pulsar_version"],
        "load_manager_class": report["load_manager_class"],
        "weighted_usage": weighted_usage(percents, weights, looked_at),
        "topics": sum(topics),
        "reported_topics": report["topics"] if has_report else None,
        "bundles": len(owned),
    }
    row.update((f"{name}_percent", value) for name, value in percents.items())
    row.update((f"{name}_weight", weight) for name, weight in weights.items())
    for name in RATES:
        carried = sums[f"used_{name}"]
        row[name] = nothing if carried is None else carried
        row[f"reported_{name}"] = report[name] if has_report else None
    for name in AVERAGES:
        average = 0.0 if sums[name] is None else sums[name]
        row[name] = average if has_report else None
    return row


def _counted(named: Iterable[str] | None, owned: Sequence[Row], known: Mapping[str, Row]) -> Sequence[Row]:
    """Return the bundles whose averages add up to a broker's (TimeAverageBrokerData).

    These are the bundles of its report; or the bundles that it owns, if the report names none (as under the extensible
    manager). A named bundle that is unknown counts with Pulsar's default figures, as it does in Pulsar.
    """
    return owned if named is None else [known.get(bundle, _NEVER_SEEN) for bundle in dict.fromkeys(named)]


_NEVER_SEEN: Row = {name: float(getattr(DEFAULT_STATS, name.partition("_")[2])) for name in AVERAGES}


# A broker's usage in percent and its weighted usage, in Pulsar's 32-bit arithmetic.
#
# Pulsar (ResourceUsage.percentUsage) divides two 32-bit floats and multiplies by 100 in 32 bits, so 30 of 100 is
# 30.000002 %. Thresholds are compared with that figure, so it is reproduced to the bit.


def weights_in(settings: Settings) -> dict[str, float]:
    """The weight of each resource in force, in the order of `RESOURCES`."""
    return {
        "cpu": settings.loadBalancerCPUResourceWeight,
        "memory": settings.loadBalancerMemoryResourceWeight,
        "direct_memory": settings.loadBalancerDirectMemoryResourceWeight,
        "bandwidth_in": settings.bandwidth_in_weight,
        "bandwidth_out": settings.bandwidth_out_weight,
    }


def percent(usage: float | None, limit: float | None) -> float | None:
    """Usage in percent of the limit, as a double that holds a 32-bit value; 0 without a limit, None if not known.

    It is not known either where the limit is too small for 32 bits.
    """
    if usage is None or limit is None:
        return None
    return None if limit > 0 and float32(limit) == 0.0 else percent_of(ResourceUsage(usage, limit))


def weighted_usage(
    percents: Mapping[str, float | None], weights: Mapping[str, float], looked_at: Iterable[str]
) -> float | None:
    """The largest of percent x weight of these resources, as a fraction: 1.0 is full.

    A resource that is not known never wins, as in Pulsar, which compares NaN with `>`; None if it is the CPU.
    """
    if percents["cpu"] is None:
        return None
    shares = [used * weights[name] for name in looked_at if (used := percents[name]) is not None]
    return max(-math.inf if math.isnan(share) else share for share in shares) / 100.0


def reports_once(reports: Iterable[Row]) -> list[Row]:
    """Return one report per broker: the last one requested, if a broker answered twice.

    Of reports requested at the same time the later one counts; of equally old ones the first by content.
    """
    by_broker: dict[str, list[Row]] = {}
    for report in reports:
        by_broker.setdefault(report["broker"], []).append(report)
    return [reports_of[0] if len(reports_of) == 1 else _last(reports_of) for _, reports_of in sorted(by_broker.items())]


def _last(reports: Sequence[Row]) -> Row:
    last = max((report["asked_at"] or "", report["report_at"] or "") for report in reports)
    newest = [report for report in reports if (report["asked_at"] or "", report["report_at"] or "") == last]
    return min(newest, key=lambda report: repr(sorted(report.items())))
