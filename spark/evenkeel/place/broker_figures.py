"""The state of each broker while bundles are placed: its report, and the bundles given to it since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.filters.broker_filters import Rank, version_rank
from evenkeel.model.load import BrokerAverages, BundleHistory, LoadData
from evenkeel.model.usage import weighted_maximum
from evenkeel.settings import Settings


@dataclass(slots=True)
class BrokerFigures:
    """One broker's figures for placement; `give` moves them on. Usage is a fraction, rates are msg/s.

    `idle`: it reports no bundles, or no messages in and out. `rank` orders versions; None if the version cannot be
    read.
    """

    usage: float
    long_term_rate: float
    topics: int
    preallocated_rate: float = 0.0
    idle: bool = False
    rank: Rank | None = None

    def give(self, history: BundleHistory) -> None:
        """Count a bundle that was assigned to the broker and is not in its report yet."""
        self.preallocated_rate += history.long_term.rate
        self.topics += history.topics


def broker_figures(load: LoadData, settings: Settings) -> Mapping[str, BrokerFigures]:
    """Every broker's figures at the start of a round."""
    by_broker = {}
    for broker, report in sorted(load.brokers.items()):
        figures = BrokerFigures(
            usage=weighted_maximum(report, settings),
            long_term_rate=load.averages.get(broker, BrokerAverages()).long_term_rate,
            topics=report.topics,
            idle=not report.bundles or (report.msg_rate_in == 0 and report.msg_rate_out == 0),
            rank=version_rank(report.version),
        )
        for _, history in sorted(load.preallocated.get(broker, {}).items()):
            figures.give(history)
        by_broker[broker] = figures
    return by_broker
