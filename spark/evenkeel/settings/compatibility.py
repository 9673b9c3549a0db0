"""Combinations of settings: shedder, placement strategy and load manager, Pulsar's fallbacks for pairs that do not run,
and contradictions between settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.pulsar.generations import GENERATIONS, Generation
from evenkeel.settings.key import ManagerName
from evenkeel.settings.keys import Settings
from evenkeel.settings.keys.balancing import PLACEMENTS, SHEDDERS_OF
from evenkeel.settings.parsing import minutes_of

SHEDDING, PLACEMENT = "loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"
SHEDDER_AND_PLACEMENT = "AvgShedder"
FALLBACK_PLACEMENT = "LeastLongTermMessageRate"
PLACEMENTS_OF: Mapping[ManagerName, tuple[str, ...]] = {
    "modular": PLACEMENTS,
    "extensible": ("LeastResourceUsageWithWeight",),
}
OLDER_RULES: Mapping[str, tuple[Generation, str]] = {
    "AvgShedder": ("4.0", "scores less than one point apart are equal"),
    "LeastLongTermMessageRate": ("4.0", "the usage that is compared with the overload limit has no weights"),
    "OverloadShedder": ("4.0", "usage has no weights"),
    "TransferShedder": ("3.3", "bundles without traffic may go"),
    "UniformLoadShedder": ("4.x", "a bundle may be 1,000 msg/s, or 1,000 byte/s, larger than what is left to move"),
}
"""Strategy -> the first generation that decides as 4.2.4 does, and what older ones do instead."""
_NO_AVG_SHEDDER = re.compile(r"2\.|3\.0\.[0-5]\b|3\.1\.|3\.2\.[0-3]\b|3\.3\.0\b")


def older_rules(generation: Generation) -> dict[str, str]:
    """Return the strategies that decide otherwise in that generation than in 4.2.4, with what they do."""
    age = GENERATIONS.index
    return {name: words for name, (since, words) in OLDER_RULES.items() if age(generation) < age(since)}


def lacks_avg_shedder(version: str) -> bool:
    """Return True if that version of Pulsar has no AvgShedder: it came with 3.0.6, 3.2.4 and 3.3.1."""
    return _NO_AVG_SHEDDER.match(version) is not None


@dataclass(frozen=True, slots=True)
class StrategyPair:
    """A shedder and a placement strategy by their class names."""

    shedder: str
    placement: str

    @classmethod
    def of(cls, settings: Settings) -> StrategyPair:
        """Return the pair that is configured."""
        return cls(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two or more keys whose values contradict each other; `str()` gives the message."""

    keys: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def in_force(pair: StrategyPair, manager: ManagerName, generation: Generation) -> StrategyPair:
    """Return the pair that a broker runs if the given pair is configured; the same pair also if it would not start."""
    if manager == "extensible":
        return StrategyPair(SHEDDERS_OF[manager][0], PLACEMENTS_OF[manager][0])
    if generation == "5.0" and pair.placement == SHEDDER_AND_PLACEMENT != pair.shedder:
        return StrategyPair(pair.shedder, FALLBACK_PLACEMENT)
    return pair


def refusal(pair: StrategyPair, manager: ManagerName) -> Contradiction | None:
    """Return why the pair does not run as configured, with the allowed values; None if it does."""
    if pair.shedder not in SHEDDERS_OF[manager]:
        return _other_managers(SHEDDING, pair.shedder, manager, SHEDDERS_OF)
    if pair.placement not in PLACEMENTS_OF[manager]:
        return _other_managers(PLACEMENT, pair.placement, manager, PLACEMENTS_OF)
    if pair.placement != SHEDDER_AND_PLACEMENT or pair.shedder == SHEDDER_AND_PLACEMENT:
        return None
    others = [placement for placement in PLACEMENTS_OF[manager] if placement != SHEDDER_AND_PLACEMENT]
    return Contradiction(
        (PLACEMENT, SHEDDING),
        f"{PLACEMENT} = {pair.placement} needs {SHEDDING} = {pair.placement}, but it is {pair.shedder}: "
        f"set both to {pair.placement}, or {PLACEMENT} to {_either(others)}",
    )


def _other_managers(
    key: str, value: str, manager: ManagerName, known: Mapping[ManagerName, tuple[str, ...]]
) -> Contradiction:
    homes = [name for name, values in known.items() if value in values]
    owner = f"is the {homes[0]} load manager's" if homes else "is no load manager's"
    return Contradiction(
        (key, "evenkeelManager", "loadManagerClassName"),
        f"{key} = {value} {owner}, but the manager is {manager}: set {key} to {_either(known[manager])}",
    )


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def why_undecidable(settings: Settings, manager: str | None) -> str | None:
    """Return None if the strategies in force go together; else what is wrong and which settings to change.

    `manager` is the operator's override, else what the brokers run: modular, extensible, mixed or unknown.
    """
    if manager not in SHEDDERS_OF:
        seen = "brokers run different load managers" if manager == "mixed" else "no broker says which load manager runs"
        return f"{seen}: set evenkeelManager to {' or '.join(SHEDDERS_OF)}, whose rules are then used"
    refused = refusal(StrategyPair.of(settings), settings.manager)
    return None if refused is None else f"Pulsar refuses these settings: {refused.text}"


_BROKER = re.compile(r"[^\s/]+:\d+")
_NAMESPACE = re.compile(r"[^/]+/[^/]+")
_BUNDLE = re.compile(r"[^/]+/[^/]+/0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_KEPT_BY_GUARDS = (
    "evenkeelFrozenNamespaces",
    "evenkeelFrozenBundles",
    "evenkeelFrozenBrokers",
    "evenkeelMaintenanceWindows",
)


def contradictions(settings: Settings) -> list[Contradiction]:
    """Return every contradiction in these settings, with its keys and values."""
    contradicting = [
        _above(settings, "loadBalancerAvgShedderLowThreshold", "loadBalancerAvgShedderHighThreshold"),
        # A round above the high difference counts for both: its count could never be reached first.
        _above(settings, "loadBalancerAvgShedderHitCountHighThreshold", "loadBalancerAvgShedderHitCountLowThreshold"),
        _report_interval(settings),
        _default_algorithm(settings),
        _reported_bundles(settings),
        refusal(StrategyPair.of(settings), settings.manager),
        _misspelt(settings, "evenkeelDrainingBrokers", _BROKER, "broker id: write host:port"),
        _misspelt(settings, "evenkeelFrozenBrokers", _BROKER, "broker id: write host:port"),
        _misspelt(settings, "evenkeelFrozenNamespaces", _NAMESPACE, "namespace: write tenant/namespace"),
        _misspelt(settings, "evenkeelHarmLiftedNamespaces", _NAMESPACE, "namespace: write tenant/namespace"),
        _misspelt(settings, "evenkeelFrozenBundles", _BUNDLE, "bundle: write tenant/namespace/0x00000000_0x40000000"),
        _windows(settings),
        _drained_and_frozen(settings),
        _kept_by_nobody(settings),
    ]
    return [x for x in contradicting if x is not None]


def _above(s: Settings, lower: str, higher: str) -> Contradiction | None:
    """Return the fault if the value of the key `lower` is above that of `higher`."""
    low, high = getattr(s, lower), getattr(s, higher)
    if low <= high:
        return None
    names = (lower, higher)
    return Contradiction(names, f"{lower} = {low} is above {higher} = {high}: lower the first or raise the second")


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


def _reported_bundles(s: Settings) -> Contradiction | None:
    """Report 0 or less: the modular manager reads it as "all"; the extensible one then reports none, and never
    sheds."""
    if s.manager == "modular" or s.loadBalancerMaxNumberOfBundlesInBundleLoadReport > 0:
        return None
    names = ("loadBalancerMaxNumberOfBundlesInBundleLoadReport", "evenkeelManager", "loadManagerClassName")
    value = s.loadBalancerMaxNumberOfBundlesInBundleLoadReport
    return Contradiction(names, f"{names[0]} = {value} leaves the extensible manager nothing to shed: set 1 or more")


def _misspelt(s: Settings, name: str, spelling: re.Pattern[str], advice: str) -> Contradiction | None:
    """Report a misspelt name: names are compared exactly, so it would match nothing."""
    is_sound = all(map(spelling.fullmatch, getattr(s, name)))
    return None if is_sound else Contradiction((name,), f"{name}: a name in it is not a {advice}")


def _windows(s: Settings) -> Contradiction | None:
    if all(map(minutes_of, s.evenkeelMaintenanceWindows)):
        return None
    name = "evenkeelMaintenanceWindows"
    return Contradiction((name,), f"{name}: a text in it is not a maintenance window: write 22:00-04:30")


def _drained_and_frozen(s: Settings) -> Contradiction | None:
    both = sorted(s.evenkeelDrainingBrokers & s.evenkeelFrozenBrokers)
    if not both:
        return None
    names = ("evenkeelDrainingBrokers", "evenkeelFrozenBrokers")
    return Contradiction(
        names,
        f"{names[0]} and {names[1]} both name {both[0]}, which cannot be emptied while nothing may leave it: "
        "set one of them without it",
    )


def _kept_by_nobody(s: Settings) -> Contradiction | None:
    """Report a freeze while the guards are off: nothing would enforce it."""
    idle = [name for name in _KEPT_BY_GUARDS if getattr(s, name)]
    if s.evenkeelGuardsEnabled or not idle:
        return None
    switch = "evenkeelGuardsEnabled"
    return Contradiction(
        (switch, *idle), f"{idle[0]} is not kept while {switch} = False: empty it or set {switch} = True"
    )
