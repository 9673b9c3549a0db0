"""Settings that are each allowed and do not go together."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two or more keys whose values cannot both be meant; `str()` gives the message."""

    keys: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def contradictions(settings: Settings) -> list[Contradiction]:
    """Everything in these settings that does not go together, with the keys and values at odds."""
    found = [
        _avg_shedder_thresholds(settings),
        _report_interval(settings),
        _default_algorithm(settings),
        _avg_shedder_pair(settings),
        _manager_pair(settings),
    ]
    return [x for x in found if x is not None]


def _avg_shedder_thresholds(s: Settings) -> Contradiction | None:
    low, high = s.loadBalancerAvgShedderLowThreshold, s.loadBalancerAvgShedderHighThreshold
    if low <= high:
        return None
    names = ("loadBalancerAvgShedderLowThreshold", "loadBalancerAvgShedderHighThreshold")
    return Contradiction(names, f"{names[0]} = {low} is above {names[1]} = {high}: lower the first or raise the second")


def _report_interval(s: Settings) -> Contradiction | None:
    shortest, longest = s.loadBalancerReportUpdateMinIntervalMillis, s.loadBalancerReportUpdateMaxIntervalMinutes
    if shortest <= longest * 60_000:
        return None
    names = ("loadBalancerReportUpdateMinIntervalMillis", "loadBalancerReportUpdateMaxIntervalMinutes")
    return Contradiction(names, f"{names[0]} = {shortest} ms is longer than {names[1]} = {longest} min")


def _default_algorithm(s: Settings) -> Contradiction | None:
    if s.defaultNamespaceBundleSplitAlgorithm in s.supportedNamespaceBundleSplitAlgorithms:
        return None
    names = ("defaultNamespaceBundleSplitAlgorithm", "supportedNamespaceBundleSplitAlgorithms")
    listed = ", ".join(s.supportedNamespaceBundleSplitAlgorithms)
    return Contradiction(
        names, f"{names[0]} = {s.defaultNamespaceBundleSplitAlgorithm!r} is not among {names[1]} = [{listed}]"
    )


def _avg_shedder_pair(s: Settings) -> Contradiction | None:
    """Pulsar 4.x does not start with AvgShedder placing and another class shedding; 5.0 falls back by itself."""
    shedder, placement = s.loadBalancerLoadSheddingStrategy, s.loadBalancerLoadPlacementStrategy
    if s.generation == "5.0" or placement != "AvgShedder" or shedder == "AvgShedder":
        return None
    names = ("loadBalancerLoadPlacementStrategy", "loadBalancerLoadSheddingStrategy")
    return Contradiction(names, f"{names[0]} = AvgShedder needs {names[1]} = AvgShedder, but it is {shedder}")


def _manager_pair(s: Settings) -> Contradiction | None:
    """TransferShedder is the extensible manager's only shedder, and the modular manager cannot run it."""
    shedder = s.loadBalancerLoadSheddingStrategy
    if s.manager == "extensible" or shedder != "TransferShedder":
        return None
    names = ("loadBalancerLoadSheddingStrategy", "evenkeelManager", "loadManagerClassName")
    return Contradiction(names, f"{names[0]} = TransferShedder needs the extensible load manager, but it is modular")
