"""Bundles that a split rule has to check if only acts are requested: those over a limit, usually none.

A verdict depends on the bundle's own figures, on how many bundles its namespace has and on the splits before it. So
leaving out bundles below all limits changes no other verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from evenkeel.cycle.memo import once_for
from evenkeel.cycle.reading import Histories, Rows
from evenkeel.model.load import BrokerReport, BundleStats
from evenkeel.plan_splits.rules.bundle_splitter_task import Figures, busy_for_long, most_figures, over_a_limit
from evenkeel.settings import Settings


def by_history(
    rows: Rows, brokers: Mapping[str, BrokerReport], known: Histories, settings: Settings
) -> dict[str, BrokerReport]:
    """The reports with those bundles only whose long-term averages, topics or sessions exceed a limit."""
    most = most_figures(settings)

    def over() -> dict[str, list[str]]:
        busy = busy_for_long(brokers, known, most)
        return {broker: over_a_limit(report.stats, busy, most) for broker, report in brokers.items()}

    return _restricted(brokers, once_for(rows, ("over by history", most), over), ())


def by_latest(
    rows: Rows, brokers: Mapping[str, BrokerReport], settings: Settings, also: Collection[str]
) -> dict[str, BrokerReport]:
    """Bundles that are over a limit by the latest figures; `also` are looked at whatever their figures."""
    most = most_figures(settings)

    def over() -> dict[str, list[str]]:
        return {
            broker: over_a_limit(report.stats, _busy_by_latest(report.stats, most), most)
            for broker, report in brokers.items()
        }

    return _restricted(brokers, once_for(rows, ("over by latest", most), over), also)


def _busy_by_latest(reported: Mapping[str, BundleStats], most: Figures) -> Collection[str]:
    """The bundles whose latest rate or throughput is above the `most`."""
    _, _, most_rate, most_throughput = most
    return {
        bundle
        for bundle, stats in reported.items()
        if stats.msg_rate_in + stats.msg_rate_out > most_rate
        or stats.msg_throughput_in + stats.msg_throughput_out > most_throughput
    }


def _restricted(
    brokers: Mapping[str, BrokerReport], kept: Mapping[str, Collection[str]], also: Collection[str]
) -> dict[str, BrokerReport]:
    return {
        broker: replace(
            report,
            stats={
                bundle: report.stats[bundle]
                for bundle in sorted({*kept[broker], *(name for name in also if name in report.stats)})
            },
        )
        for broker, report in brokers.items()
    }
