"""Evenkeel's own keys, also those of the guards and the planner, in Pulsar's style and with a prefix of their own."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


@dataclass(frozen=True)
class OwnKeys:
    """Switches and tolerances of Evenkeel itself; no broker knows them."""

    evenkeelSheddingEnabled: bool = key(True, unit="switch", meaning="Whether Evenkeel decides unloads.")
    evenkeelSplitEnabled: bool = key(True, unit="switch", meaning="Whether Evenkeel decides splits.")
    evenkeelManager: str = key(
        "auto",
        choices=("auto", "modular", "extensible"),
        unit="name",
        meaning="Load manager whose rules apply; auto: the one that the brokers run.",
    )
    evenkeelPulsarVersion: str = key(
        "auto",
        defaults={"5.0": "5"},
        choices=("auto", "4", "5", "3.0", "3.3", "4.0", "4.2", "4.x", "5.0"),
        unit="generation",
        meaning="Whose defaults and details hold; auto follows the oldest broker's version (4 where none is known). "
        "4.2 and 4.x are other spellings of 4, 5.0 of 5.",
    )
    evenkeelDrainingBrokers: frozenset[str] = key(
        frozenset(),
        unit="broker ids (host:port)",
        meaning="Draining brokers: they get no bundles, whatever the filters and policies allow. "
        "`evenkeel wish drain` adds to them.",
    )
    evenkeelDrainingUnloads: bool = key(
        True,
        before=False,
        unit="switch",
        meaning="Whether bundles are moved away from evenkeelDrainingBrokers, as far as the guards' budgets allow in a "
        "cycle; else those brokers get no new ones, and that is all.",
    )
    evenkeelMaxReportAgeSeconds: float = key(
        1_200.0, lowest=0.0, unit="s", meaning="A broker report older than this is not trusted (Pulsar: one in 15 min)."
    )
    evenkeelTopicSumTolerancePercent: float = key(
        25.0, lowest=0.0, unit="%", meaning="How far the sum of topic rates may be from the broker's own figure."
    )
    evenkeelTopicSumToleranceMsgPerSecond: float = key(
        10.0, lowest=0.0, unit="msg/s", meaning="Differences of topic sums below this never count."
    )
    evenkeelMaxSnapshotSeconds: float = key(
        60.0, lowest=0.0, unit="s", meaning="A snapshot that took longer shows no single moment and is not trusted."
    )
    evenkeelFutureToleranceSeconds: float = key(
        300.0, lowest=0.0, unit="s", meaning="How far ahead of its snapshot a time stamp may be."
    )
    evenkeelMissingBrokersToleratedPercent: float = key(
        34.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="Share of the brokers that may fail to answer before the cluster is left out of a cycle.",
    )
    evenkeelAssumeUnloadsSucceed: bool = key(
        False, unit="switch", meaning="Whether a decided unload counts as done before its outcome was seen."
    )
    evenkeelCommandsPerSecond: float = key(
        2.0, lowest=0.0, unit="1/s", meaning="Commands that may go out to a cluster each second; 0: without limit."
    )
    evenkeelCommandsInFlight: int = key(
        4, lowest=1, unit="count", meaning="Commands of a cluster that may be under way at once, one per bundle."
    )
    evenkeelReportWaitSeconds: float = key(
        120.0, lowest=0.0, unit="s", meaning="How long to wait for the reports of an agent that carries commands out."
    )
    evenkeelOutcomeWaitSeconds: float = key(
        15.0, lowest=0.0, unit="s", meaning="How long to look for the effect of a command that Pulsar has answered."
    )


DECIDING_KEYS = frozenset(
    {
        "evenkeelSheddingEnabled",
        "evenkeelSplitEnabled",
        "evenkeelManager",
        "evenkeelPulsarVersion",
        "evenkeelDrainingBrokers",
        "evenkeelDrainingUnloads",
        "evenkeelAssumeUnloadsSucceed",
    }
)
"""The keys of `OwnKeys` that change decisions. The others set how long figures are trusted and how commands are
sent."""


# Keys of the guards, which may hold a decided command back. Evenkeel's own; no broker knows them.


@dataclass(frozen=True)
class GuardKeys:
    """Budgets, bounce margin, completeness, harm, freezes and windows.

    A budget of 0 allows nothing. The defaults are common among rebalancers: 9 % of the load moved at a time, 5 moves
    per broker, no command while more than one broker in ten is silent.
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
        meaning="Most of the cluster's traffic that one cycle unloads; a bundle that by itself is above it may go "
        "alone. 100: no limit.",
    )
    evenkeelMovedTrafficOrder: str = key(
        "fitting_first",
        before="plan_order",
        choices=("fitting_first", "plan_order"),
        unit="rule",
        meaning="Who gets evenkeelMaxMovedTrafficPercent. fitting_first: what fits into it, in the order of the plan, "
        "and a bundle above it goes alone only where nothing fits. plan_order: the first of the plan, also where it is "
        "above it, and then nothing else goes.",
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
        meaning="Time for which a bundle returns to a broker it left only for a gain; 0: it may return at once.",
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
    evenkeelHarmClientsBackPercent: float = key(
        50.0,
        before=0.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="A command did harm if fewer of the bundle's producers or consumers are connected two snapshots after "
        "it or later; those that were leaving before it are not counted. 0: not looked at.",
    )
    evenkeelHarmBacklogGrowthPercent: float = key(
        50.0,
        before=0.0,
        lowest=0.0,
        unit="%",
        meaning="A command did harm if since then the bundle's backlog grew by more than this share of the messages "
        "that came in, beyond what it grew before. 0: not looked at.",
    )
    evenkeelHarmBacklogMessages: int = key(
        1_000, lowest=0, unit="msg", meaning="A backlog that grew by fewer messages than this does not count as harm."
    )
    evenkeelHarmWatchMinutes: int = key(
        15,
        lowest=0,
        highest=55,
        unit="min",
        meaning="For so long after a command its bundle is watched for harm; in the second snapshot after it always.",
    )
    evenkeelHarmHoldMinutes: int = key(
        240,
        before=0,
        lowest=0,
        highest=1_380,
        unit="min",
        meaning="For so long after harm was seen no bundle of its namespace is unloaded, unless an operator wishes it; "
        "0: harm is put on record only.",
    )
    evenkeelHarmLiftedNamespaces: frozenset[str] = key(
        frozenset(),
        unit="tenant/namespace",
        meaning="Namespaces whose bundles are unloaded all the same after harm: lifts evenkeelHarmHoldMinutes.",
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


@dataclass(frozen=True)
class PlannerKeys:
    """Keys that switch the planner, say when it acts and stops, and what a move costs.

    The bands are percent above the evenly used cluster: the lowest usage that the busiest broker can have within the
    placement rules.
    """

    evenkeelPlanner: str = key(
        "off",
        choices=("off", "shadow", "on"),
        unit="name",
        meaning="Whether Evenkeel's own planner decides unloads and destinations. off: the strategy in force does. "
        "shadow: it does too, and the planner's targets, models and findings are recorded beside it. on: the planner "
        "does, and asks for the splits that its moves need.",
    )
    evenkeelPlannerActAbovePercent: float = key(
        10.0,
        lowest=0.0,
        unit="%",
        meaning="The planner acts once the busiest broker was so far above the evenly used cluster in two settled "
        "cycles.",
    )
    evenkeelPlannerActAtOnceAbovePercent: float = key(
        25.0,
        lowest=0.0,
        unit="%",
        meaning="So far above the evenly used cluster the planner acts in the first settled cycle; it does so for a "
        "broker that is new or nearly idle as well.",
    )
    evenkeelPlannerStopAtPercent: float = key(
        6.0,
        lowest=0.0,
        unit="%",
        meaning="What the planner brings the busiest broker down to, above the evenly used cluster, once it acts.",
    )
    evenkeelPlannerLeastGainPoints: float = key(
        1.0,
        lowest=0.0,
        unit="percentage points",
        meaning="A broker that is less than this above what it is to come to gives nothing away, or no more.",
    )
    evenkeelPlannerReturnWindowMinutes: int = key(
        60, lowest=0, unit="min", meaning="For so long the planner sends no bundle back to a broker that it has left."
    )
    evenkeelPlannerSessionsWeight: float = key(
        1.0, lowest=0.0, unit="weight", meaning="Weight of a bundle's share of all sessions in what a move costs."
    )
    evenkeelPlannerTopicsWeight: float = key(
        1.0, lowest=0.0, unit="weight", meaning="Weight of a bundle's share of all topics in what a move costs."
    )
    evenkeelPlannerTrafficWeight: float = key(
        1.0, lowest=0.0, unit="weight", meaning="Weight of a bundle's share of all traffic in what a move costs."
    )
