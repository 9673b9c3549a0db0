"""Settings that are each allowed and do not go together."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenkeel.settings.pairs import Pair, refusal
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
        _avg_shedder_hits(settings),
        _report_interval(settings),
        _default_algorithm(settings),
        _reported_bundles(settings),
        _pair(settings),
        _draining(settings),
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
    return Contradiction(
        names,
        f"{names[0]} = {shortest} ms is longer than {names[1]} = {longest} min: lower the first or raise the second",
    )


def _default_algorithm(s: Settings) -> Contradiction | None:
    if s.defaultNamespaceBundleSplitAlgorithm in s.supportedNamespaceBundleSplitAlgorithms:
        return None
    names = ("defaultNamespaceBundleSplitAlgorithm", "supportedNamespaceBundleSplitAlgorithms")
    listed = ", ".join(s.supportedNamespaceBundleSplitAlgorithms)
    return Contradiction(
        names,
        f"{names[0]} = {s.defaultNamespaceBundleSplitAlgorithm!r} is not among {names[1]} = [{listed}]: "
        "add it to the second or set the first to one of them",
    )


def _avg_shedder_hits(s: Settings) -> Contradiction | None:
    """A round above the high difference counts for both, so a higher count for it could never be reached first."""
    low, high = s.loadBalancerAvgShedderHitCountLowThreshold, s.loadBalancerAvgShedderHitCountHighThreshold
    if high <= low:
        return None
    names = ("loadBalancerAvgShedderHitCountHighThreshold", "loadBalancerAvgShedderHitCountLowThreshold")
    return Contradiction(names, f"{names[0]} = {high} is above {names[1]} = {low}: lower the first or raise the second")


def _reported_bundles(s: Settings) -> Contradiction | None:
    """The modular manager reads 0 and less as "all"; the extensible one then reports none, and never sheds."""
    if s.manager == "modular" or s.loadBalancerMaxNumberOfBundlesInBundleLoadReport > 0:
        return None
    names = ("loadBalancerMaxNumberOfBundlesInBundleLoadReport", "evenkeelManager", "loadManagerClassName")
    value = s.loadBalancerMaxNumberOfBundlesInBundleLoadReport
    return Contradiction(names, f"{names[0]} = {value} leaves the extensible manager nothing to shed: set 1 or more")


def _pair(s: Settings) -> Contradiction | None:
    found = refusal(Pair(s.loadBalancerLoadSheddingStrategy, s.loadBalancerLoadPlacementStrategy), s.manager)
    return None if found is None else Contradiction(found.keys, found.text)


def _draining(s: Settings) -> Contradiction | None:
    """Brokers are known by their ids alone, and one that is misspelt would not be drained."""
    odd = sorted(name for name in s.evenkeelDrainingBrokers if not re.fullmatch(r"[^\s/]+:\d+", name))
    if not odd:
        return None
    return Contradiction(
        ("evenkeelDrainingBrokers",), f"evenkeelDrainingBrokers: {odd[0]!r} is no broker id: write host:port"
    )
