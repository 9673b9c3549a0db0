"""What would have made TransferShedder find the brokers' loads uneven, or even.

It compares the deviation of all loads with a target. Every broker that counts has a row with its load, and the mean
stands in the rows as well: where it is not the mean of the loads found, some are missing and nothing is said.
"""

from __future__ import annotations

import math

from evenkeel.audit.explain.changes.change import Around, Change, Row
from evenkeel.audit.explain.rounding import at_least

_CLOSE = 1e-9


def more_uneven(row: Row, around: Around) -> list[Change]:
    """Of loads that are even enough: how much busier the busiest would have had to be."""
    loads, target = _loads(row, around), row["threshold"]
    if len(loads) < 2 or target is None:
        return []
    busiest, above, room, part = _most_loaded(loads, target)
    if room > 0:
        return []
    distance = (math.sqrt(above * above - part * room) - above) / part
    amount = at_least(distance, "fraction").text
    return [
        Change(
            subject=busiest,
            figure="load",
            measured=loads[busiest],
            needed=loads[busiest] + distance,
            unit="fraction",
            is_strict=True,
            effect="loads would have deviated by more than the target",
            sentence=f"Had {busiest} been over {amount} busier, loads would have deviated by more than the target.",
        )
    ]


def more_even(row: Row, around: Around) -> list[Change]:
    """Of loads that are too uneven: how much less the busiest would have had to carry, if that could settle it."""
    loads, target = _loads(row, around), row["threshold"]
    if row["subject_kind"] != "cluster" or len(loads) < 2 or target is None:
        return []
    busiest, above, room, part = _most_loaded(loads, target)
    root = above * above - part * room
    if room <= 0 or root < 0:
        return []
    distance, most = (above - math.sqrt(root)) / part, (above + math.sqrt(root)) / part
    amount = at_least(distance, "fraction")
    # Still less, and it would be too far below the others.
    if amount.value > min(most, loads[busiest]):
        return []
    return [
        Change(
            subject=busiest,
            figure="load",
            measured=loads[busiest],
            needed=loads[busiest] - distance,
            unit="fraction",
            is_strict=False,
            effect="loads would have deviated within the target",
            sentence=f"Had {busiest} been {amount.text} less busy, loads would have deviated within the target.",
            is_more=False,
        )
    ]


def _most_loaded(loads: dict[str, float], target: float) -> tuple[str, float, float, float]:
    """The busiest broker, how far it is above the mean, by how much the sum of squares is over what the target allows,
    and the part of its own change that its distance to the mean changes by."""
    number, mean = len(loads), sum(loads.values()) / len(loads)
    busiest = max(sorted(loads), key=loads.__getitem__)
    squares = sum((load - mean) ** 2 for load in loads.values())
    return busiest, loads[busiest] - mean, squares - number * target * target, 1 - 1 / number


def _loads(row: Row, around: Around) -> dict[str, float]:
    """The loads that were compared; nothing where they are not all known."""
    mean = row["numbers"].get("mean_load")
    if mean is None or not around.is_complete:
        return {}
    found = {
        other["subject"]: other["numbers"].get("load", other["measured"])
        for other in around.brokers
        if "mean_load" in other["numbers"]
    }
    if None in found.values() or not found:
        return {}
    return found if abs(sum(found.values()) / len(found) - mean) <= _CLOSE else {}
