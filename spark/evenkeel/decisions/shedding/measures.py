"""The two measures of traffic that UniformLoadShedder and AvgShedder compare brokers and move bundles by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.decisions.considered import Unit
from evenkeel.decisions.load import BrokerReport, MessageAverages
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Measure:
    """One of them: msg/s or byte/s, in and out together. `minimum_setting` is the key of the least worth moving."""

    name: str
    unit: Unit
    of_broker: Callable[[BrokerReport], float]
    of_bundle: Callable[[MessageAverages], float]
    minimum_setting: str

    def minimum(self, settings: Settings) -> int:
        """The least that is worth moving, in the measure's unit."""
        return int(getattr(settings, self.minimum_setting))


RATE = Measure("rate", "msg/s", lambda report: report.rate, lambda averages: averages.rate, "minUnloadMessage")
THROUGHPUT = Measure(
    "throughput",
    "byte/s",
    lambda report: report.throughput,
    lambda averages: averages.throughput,
    "minUnloadMessageThroughput",
)
