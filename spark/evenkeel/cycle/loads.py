"""The load of a cluster as shedding and placement see it, under the modular manager and under the extensible one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from evenkeel.cycle import reading
from evenkeel.cycle.fold import LOAD_AVERAGE, PLANNER, assumed_unloaded
from evenkeel.cycle.memo import SharedRows, is_known, once_for
from evenkeel.cycle.reading import Row, Rows, acts_before
from evenkeel.cycle.top_lists import top_lists
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerLoadData, BrokerReport, ExtensibleLoad, LoadData, Owned, milliseconds
from evenkeel.model.load import owned_of as owned_by_namespace
from evenkeel.model.past_commands import recently_unloaded
from evenkeel.model.split_algorithms.split_option import NO_CUT
from evenkeel.model.usage import ExtensibleAverages
from evenkeel.settings import Settings

# Pulsar requested the split and got none: it had already dropped the history.
FORGOTTEN_THOUGH_REFUSED = frozenset({"cut_outside_bundle", *NO_CUT})


LOOKED_AT = ("split", "refused")
"""Outcomes in `split_decisions` after which later rounds treat a bundle differently; they ignore all other considered
bundles, which are most."""


def looked_at(split_decision: Row) -> bool:
    """Return True if shedding, placement and the planner read a row of `split_decisions`."""
    return split_decision["outcome"] in LOOKED_AT


def forgets_history(split_decision: Row) -> bool:
    """Return True if Pulsar 4.x forgets the averages of the bundle: it requested the split, whether or not it is done.

    From 5.0 on it forgets only split bundles, and these no longer exist. The same holds for splits by Evenkeel's own
    planner, since the load manager takes no part in them.
    """
    if split_decision.get("strategy") == PLANNER:
        return False
    return split_decision["outcome"] == "split" or split_decision["rule"] in FORGOTTEN_THOUGH_REFUSED


def load_of(rows: Rows) -> LoadData:
    """Return reports, histories and averages; a bundle to be split has lost its history, as in Pulsar 4.x."""
    forgotten = frozenset(row["subject"] for row in rows["split_decisions"] if forgets_history(row))
    return once_for(rows, ("load without", forgotten), lambda: _load_without(forgotten, rows))


def _load_without(forgotten: frozenset[str], rows: Rows) -> LoadData:
    brokers, known = reading.broker_reports(rows), reading.histories(rows)
    if forgotten:
        known = known.without(forgotten)
    # Of each broker the sums over the bundles in its report (Pulsar: TimeAverageBrokerData).
    averages = {name: known.sums(report.bundles) for name, report in brokers.items()}
    return LoadData(brokers=brokers, histories=known, averages=averages)


def owned_of(rows: Rows, load: LoadData) -> Callable[[], Owned]:
    """Return a function that gives the bundles by namespace and broker, computed once for all rounds."""
    return lambda: once_for(rows, owned_by_namespace, lambda: owned_by_namespace(load))


SHEDDER = "TransferShedder"
THROUGHPUT_AVERAGE = "msg_throughput_ema"
AVERAGED_AT = "averaged_at"

Remembered = Mapping[str, Mapping[str, float]]
"""Name of a remembered value -> broker (or the cluster) -> value; times are epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster as its leader reads it: the load, the ownership, and the averages to remember."""

    load: ExtensibleLoad
    owners: Mapping[str, tuple[str, ...]]
    averages: Remembered


def see(rows: Rows, remembered: Remembered, settings: Settings) -> Seen:
    """Return the load of this cycle. Brokers without usable reports are available and have no load data."""
    rows = rows if isinstance(rows, SharedRows) else SharedRows(rows)
    reports = reading.reports_of_few_looks(rows)
    given = {row["broker"]: row for row in rows["broker_reports"]}
    at = milliseconds(datetime.fromisoformat(reading.the_cycle(rows)["cycle_at"]))
    loads = {broker: _load_data(report, given[broker], at, remembered, settings) for broker, report in reports.items()}
    listed = [
        row["broker"] for row in rows["broker_load"] if given.get(row["broker"], {}).get("is_listed") is not False
    ]
    k, top_bundles = settings.loadBalancerMaxNumberOfBundlesInBundleLoadReport, {}
    if k >= 1:  # Pulsar's brokers fail on a smaller one
        present = PoliciesPresent(reading.policies(rows))
        top_bundles = top_lists({broker: report.stats for broker, report in reports.items()}, k, present, settings)
    load = ExtensibleLoad(
        brokers={broker: reports.get(broker, BrokerReport(broker)) for broker in sorted(listed)},
        loads=loads,
        top_bundles=top_bundles,
        not_owned=frozenset(row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"),
        recently_unloaded=assumed_unloaded(rows.get("state", ()))
        | recently_unloaded(acts_before(reading.the_cycle(rows))),
    )
    silent = {row["broker"] for row in rows["broker_load"]} - loads.keys()
    return Seen(load, _owners(rows), _averages(loads, silent, remembered))


def _load_data(report: BrokerReport, row: Row, at: int, remembered: Remembered, settings: Settings) -> BrokerLoadData:
    measured_at = at if row.get("report_at") is None else milliseconds(datetime.fromisoformat(row["report_at"]))
    before, past = remembered.get(AVERAGED_AT, {}).get(report.broker), ExtensibleAverages()
    if before is not None:  # else the averages start with the reported figures
        load, flow = remembered[LOAD_AVERAGE][report.broker], remembered[THROUGHPUT_AVERAGE][report.broker]
        past = ExtensibleAverages(load, flow, started=True)
    moved = past.advanced(report, (measured_at - (before or 0.0)) / 1_000, settings)
    published, published_flow = row.get(LOAD_AVERAGE), row.get(THROUGHPUT_AVERAGE)
    return BrokerLoadData(
        weighted_max_ema=moved.weighted_maximum if published is None else published,
        msg_throughput_ema=moved.msg_throughput if published_flow is None else published_flow,
        msg_throughput_in=report.msg_throughput_in,
        msg_throughput_out=report.msg_throughput_out,
        topics=report.topics,
        updated_at=measured_at,
    )


def _averages(loads: Mapping[str, BrokerLoadData], silent: Collection[str], remembered: Remembered) -> Remembered:
    """Return the averages to remember: the new ones, and those of silent brokers as they were."""
    figures: Remembered = {
        LOAD_AVERAGE: {broker: data.weighted_max_ema for broker, data in loads.items()},
        THROUGHPUT_AVERAGE: {broker: data.msg_throughput_ema for broker, data in loads.items()},
        AVERAGED_AT: {broker: float(data.updated_at) for broker, data in loads.items()},
    }
    return {
        name: {**{b: value for b, value in remembered.get(name, {}).items() if b in silent}, **new}
        for name, new in figures.items()
    }


def _owners(rows: Rows) -> dict[str, tuple[str, ...]]:
    many = reading.many_bundles(rows) if is_known(rows, reading.many_bundles) else None
    if many is not None:
        return {broker: tuple(sorted(bundles)) for broker, bundles in sorted(many.by_owner.items())}
    owned: dict[str, list[str]] = {}
    for row in rows["bundle_load"]:
        if row["owner"] is not None:
            owned.setdefault(row["owner"], []).append(row["bundle"])
    return {broker: tuple(sorted(bundles)) for broker, bundles in sorted(owned.items())}
