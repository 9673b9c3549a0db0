"""Which bundles a split rule has to look at where only acts are asked for: those over a limit, most often none.

A verdict of the rule depends on the bundle's own figures, on how many bundles its namespace has and on the splits
before it, so that leaving out bundles below all limits changes none of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from evenkeel.model.load import BrokerReport
from evenkeel.plan_splits.rules.bundle_splitter_task import Figures, most_figures
from evenkeel.rounds.memo import once_for
from evenkeel.rounds.reading import Histories, Rows
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Measured:
    """Every bundle that a broker reports, with its figures, and the largest of each."""

    bundles: Mapping[str, Mapping[str, Figures]]
    largest: Figures


def by_history(
    rows: Rows, brokers: Mapping[str, BrokerReport], known: Histories, settings: Settings
) -> dict[str, BrokerReport]:
    """The reports with those bundles only whose long-term averages, topics or sessions exceed a limit."""

    def measured() -> Measured:
        return _measured(
            (broker, bundle, (one.topics, one.sessions, *known.long_term(bundle)))
            for broker, report in brokers.items()
            for bundle, one in report.stats.items()
        )

    every = once_for(rows, "measured by history", measured)
    most = most_figures(settings)
    return _restricted(brokers, once_for(rows, ("over by history", most), lambda: _over(every, most)), ())


def by_latest(
    rows: Rows, brokers: Mapping[str, BrokerReport], settings: Settings, also: Collection[str]
) -> dict[str, BrokerReport]:
    """Bundles that may be over a limit by the latest figures; `also` are looked at whatever their figures."""

    def measured() -> Measured:
        return _measured(
            (
                broker,
                bundle,
                (
                    one.topics,
                    one.sessions,
                    one.msg_rate_in + one.msg_rate_out,
                    one.msg_throughput_in + one.msg_throughput_out,
                ),
            )
            for broker, report in brokers.items()
            for bundle, one in report.stats.items()
        )

    every = once_for(rows, "measured by latest", measured)
    most = most_figures(settings)
    return _restricted(brokers, once_for(rows, ("over by latest", most), lambda: _over(every, most)), also)


def _measured(figures: Iterable[tuple[str, str, Figures]]) -> Measured:
    bundles: dict[str, dict[str, Figures]] = {}
    for broker, bundle, found in figures:
        bundles.setdefault(broker, {})[bundle] = found
    every = [found for own in bundles.values() for found in own.values()]
    topics, sessions, rate, throughput = (
        (_largest(column) for column in zip(*every, strict=True)) if every else [0.0] * 4
    )
    return Measured(bundles, (topics, sessions, rate, throughput))


def _largest(figures: Iterable[float]) -> float:
    """A figure that is not a number counts as larger than nothing."""
    return max((figure for figure in figures if figure == figure), default=0.0)


def _over(measured: Measured, most: Figures) -> dict[str, set[str]]:
    """Broker -> its bundles over a limit."""
    if not _exceeds(measured.largest, most):
        return {}
    return {
        broker: {bundle for bundle, found in own.items() if _exceeds(found, most)}
        for broker, own in measured.bundles.items()
    }


def _restricted(
    brokers: Mapping[str, BrokerReport], kept: Mapping[str, Collection[str]], also: Collection[str]
) -> dict[str, BrokerReport]:
    return {
        broker: replace(
            report,
            stats={
                bundle: report.stats[bundle]
                for bundle in sorted({*kept.get(broker, ()), *(one for one in also if one in report.stats)})
            },
        )
        for broker, report in brokers.items()
    }


def _exceeds(figures: Figures, most: Figures) -> bool:
    """Not-a-number exceeds nothing, as in the rule."""
    return any(found > limit for found, limit in zip(figures, most, strict=True))
