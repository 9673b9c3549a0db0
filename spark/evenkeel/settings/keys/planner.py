"""Keys of Evenkeel's own planner; no broker knows them."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


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
