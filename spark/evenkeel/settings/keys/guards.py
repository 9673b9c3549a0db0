"""Keys of the guards: what may hold a decided command back. Evenkeel's own; no broker knows them."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


@dataclass(frozen=True)
class GuardKeys:
    """Budgets, bounce margin, completeness, freezes and windows.

    Of every budget 0 means: none at all. The defaults are those that other rebalancers have settled on: 9 % of the load
    moved at a time, 5 moves per broker, no act while more than one broker in ten is silent.
    """

    evenkeelGuardsEnabled: bool = key(
        True,
        unit="switch",
        meaning="Whether guards may hold decided commands back; without them every command that was decided is asked.",
    )
    evenkeelMaxUnloadsPerCycle: int = key(
        20, lowest=-1, unit="bundles", meaning="Most bundles unloaded in one cycle; -1: no limit."
    )
    evenkeelMaxUnloadsFromBroker: int = key(
        5, lowest=-1, unit="bundles", meaning="Most bundles unloaded from one broker in one cycle; -1: no limit."
    )
    evenkeelMaxUnloadsToBroker: int = key(
        5, lowest=-1, unit="bundles", meaning="Most bundles unloaded towards one broker in one cycle; -1: no limit."
    )
    evenkeelMaxMovedTrafficPercent: float = key(
        9.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="Most of the cluster's traffic that one cycle unloads; a first bundle above it goes alone. "
        "100: no limit.",
    )
    evenkeelMaxBundleTrafficPercent: float = key(
        25.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="A bundle with more of the cluster's traffic than this is never unloaded, not even alone: it is to be "
        "split first. 100: no limit.",
    )
    evenkeelMaxSplitsPerCycle: int = key(
        2,
        lowest=-1,
        unit="bundles",
        meaning="Most bundles split in one cycle, as no split can be undone; -1: no limit.",
    )
    evenkeelMinReportedBrokersPercent: float = key(
        90.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="Nothing is asked while fewer of the listed brokers have a report that is not too old. 0: no limit.",
    )
    evenkeelMaxSilentBrokers: int = key(
        10,
        lowest=-1,
        unit="brokers",
        meaning="Nothing is asked while more of the listed brokers have no report, or one that is too old; "
        "-1: no limit.",
    )
    evenkeelMaxUnclearOwnershipPercent: float = key(
        5.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="Nothing is asked while more of the settled bundles are claimed by two brokers, or by none while a "
        "broker's list is missing. 100: no limit.",
    )
    evenkeelBounceWindowMinutes: int = key(
        30,
        lowest=0,
        unit="min",
        meaning="A bundle that left a broker goes back there for so long only for a gain; 0: it may at once.",
    )
    evenkeelFreeMovesPerBundlePerDay: int = key(
        3,
        lowest=-1,
        unit="moves",
        meaning="So often a bundle may move in 24 hours; each further move has to be for a gain. -1: no limit.",
    )
    evenkeelBounceGainPoints: float = key(
        10.0,
        lowest=0.0,
        unit="percentage points",
        meaning="The gain for which a bundle may bounce: how far the usage of the busier of its two brokers falls.",
    )
    evenkeelFrozenNamespaces: frozenset[str] = key(
        frozenset(), unit="tenant/namespace", meaning="Namespaces whose bundles are neither unloaded nor split."
    )
    evenkeelFrozenBundles: frozenset[str] = key(
        frozenset(),
        unit="tenant/namespace/range",
        meaning="Bundles that are neither unloaded nor split, like tenant/namespace/0x00000000_0x40000000.",
    )
    evenkeelFrozenBrokers: frozenset[str] = key(
        frozenset(),
        unit="broker ids (host:port)",
        meaning="Brokers whose bundles are neither unloaded nor split, and to which none is unloaded.",
    )
    evenkeelMaintenanceWindows: tuple[str, ...] = key(
        (),
        unit="UTC time of day",
        meaning="When commands may be asked, like 22:00-04:30, the end excluded; empty: at any time.",
    )
