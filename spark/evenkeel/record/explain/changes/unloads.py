"""What would have made a shedder take another broker or another bundle, or let it be."""

from __future__ import annotations

import math

from evenkeel.record.explain.changes.change import Change, Context, Row, at_least, compared, within
from evenkeel.shed.strategies import avg_shedder, overload_shedder, threshold_shedder, uniform_load_shedder

_MINIMUM_MIB = 1_048_576.0


def by_threshold(row: Row, context: Context) -> list[Change]:
    """ThresholdShedder and OverloadShedder: a broker sheds once its usage reaches the limit.

    ThresholdShedder's limit rests on the mean, of which the broker itself is a part: a broker that is busier by x is
    nearer to its limit by x less x/n.
    """
    measured, margin = row["measured"], row["margin"]
    if measured is None or margin is None or (margin < 0) != (row["rule"] == "below_threshold"):
        return []
    if row["setting"] == threshold_shedder.THRESHOLD_KEY:
        brokers = _compared(context)
        if brokers < 2 or not context.is_complete or row["subject"] not in _names(context):
            return []
        distance, figure = abs(margin) * brokers / (brokers - 1), "usage as remembered"
    elif row["setting"] == overload_shedder.THRESHOLD_KEY:
        distance, figure = abs(margin), "usage"
    else:
        return []
    amount = at_least(distance, "fraction").text
    if row["rule"] == "below_threshold":
        return [
            Change(
                subject=row["subject"],
                figure=figure,
                measured=measured,
                needed=measured + distance,
                unit="fraction",
                is_strict=False,
                effect="its limit would have been reached",
                sentence=f"Had {row['subject']} been {amount} busier ({figure}), it would have reached its limit.",
            )
        ]
    return [
        Change(
            subject=row["subject"],
            figure=figure,
            measured=measured,
            needed=measured - distance,
            unit="fraction",
            is_strict=True,
            effect="it would have stayed under its limit",
            is_more=False,
            sentence=f"Had {row['subject']} been more than {amount} less busy ({figure}), it would have stayed under "
            "its limit.",
        )
    ]


def _names(context: Context) -> set[str]:
    """The brokers that ThresholdShedder compared."""
    return {
        row["subject"]
        for row in context.brokers
        if row["strategy"] == "ThresholdShedder" and row["rule"] != "no_report"
    }


def _compared(context: Context) -> int:
    return len(_names(context))


def too_little(row: Row, context: Context) -> list[Change]:
    """A limit was reached, and what was to go was less than is worth moving."""
    measured, setting = row["measured"], row["setting"]
    if measured is None or setting != threshold_shedder.MINIMUM_KEY or measured <= 0:
        return []
    value = measured / _MINIMUM_MIB
    shown = int(value * 1000) / 1000
    if shown <= 0:
        return []
    return [
        Change(
            subject=setting,
            figure="value",
            measured=row["threshold"] / _MINIMUM_MIB,
            needed=value,
            unit="MiB/s",
            is_strict=False,
            effect="the minimum would have been reached",
            is_more=False,
            sentence=f"With {setting} at {shown:g} or less, the traffic to move would have reached the minimum.",
        )
    ]


def by_difference(row: Row, context: Context) -> list[Change]:
    """UniformLoadShedder: the busiest broker sheds once it is further above the idlest than the threshold says."""
    lowest, highest, threshold = row["numbers"].get("lowest"), row["numbers"].get("highest"), row["threshold"]
    if lowest is None or highest is None or threshold is None or not _has_others(row, context):
        return []
    by_rate = row["setting"] == uniform_load_shedder.RATE_KEY
    unit, figure = ("msg/s", "rate") if by_rate else ("byte/s", "throughput")
    limit = lowest * (1 + threshold / 100.0) if by_rate else lowest * threshold
    within = row["rule"].endswith("_difference_within")
    if within != (limit >= highest):
        return []
    amount = at_least(abs(limit - highest), unit).text
    if within:
        return [
            Change(
                subject=row["subject"],
                figure=figure,
                measured=highest,
                needed=limit,
                unit=unit,
                is_strict=True,
                effect=f"the difference in {figure} would have been over the limit",
                sentence=f"Had {row['subject']} carried over {amount} more, the difference in {figure} would have been "
                "over the limit.",
            )
        ]
    return [
        Change(
            subject=row["subject"],
            figure=figure,
            measured=highest,
            needed=limit,
            unit=unit,
            is_strict=False,
            effect=f"it would not have been shed from for its {figure}",
            is_more=False,
            sentence=f"Had {row['subject']} carried at least {amount} less, it would not have been shed from for its "
            f"{figure}.",
        )
    ]


def _has_others(row: Row, context: Context) -> bool:
    """Whether another broker is the idlest: one alone is both."""
    return any(other["subject"] != row["subject"] for other in context.brokers)


def busiest(row: Row, context: Context) -> list[Change]:
    """UniformLoadShedder looks at the busiest broker only."""
    figures = within(row)
    if figures is None:
        return []
    measured, threshold = figures
    amount = at_least(threshold - measured, row["unit"]).text
    return [
        Change(
            subject=row["subject"],
            figure="rate" if row["unit"] == "msg/s" else "throughput",
            measured=measured,
            needed=threshold,
            unit=row["unit"],
            is_strict=True,
            effect="it would have been the busiest",
            sentence=f"Had {row['subject']} carried over {amount} more, it would have been the busiest.",
        )
    ]


def outermost_pair(row: Row, context: Context) -> list[Change]:
    """AvgShedder: a pair counts once its scores are far enough apart.

    Of the outermost pair only: the busiest broker stays the busiest whatever is added to it, any other one may find
    itself in another pair.
    """
    if row["numbers"].get("pair") != 1 or row["margin"] is None or row["rule"] != "difference_below_low_threshold":
        return []
    amount = at_least(-row["margin"], "percent").text
    score = row["numbers"]["score"]
    return [
        Change(
            subject=row["subject"],
            figure="score",
            measured=score,
            needed=score - row["margin"],
            unit="percent",
            is_strict=False,
            effect="its round would have counted",
            sentence=f"Had {row['subject']} been {amount} busier, its difference to its partner would have counted.",
        )
    ]


def more_rounds(row: Row, context: Context) -> list[Change]:
    """A cause has to last: so many rounds in a row (AvgShedder), or more than so many (transfers, splits)."""
    figures = compared(row)
    if figures is None:
        return []
    measured, threshold = figures
    needed = threshold if row["rule"] == "too_few_hits" else threshold + 1
    missing = int(needed - measured)
    if missing <= 0:
        return []
    rounds = "one more round" if missing == 1 else f"{missing:,} more rounds"
    # What is over AvgShedder's high threshold counts for the low one as well, and may be through there earlier.
    most = "at most " if row["setting"] == avg_shedder.HIGH_HIT_COUNT_KEY and missing > 1 else ""
    return [
        Change(
            subject=row["subject"],
            figure="rounds in a row",
            measured=measured,
            needed=needed,
            unit="count",
            is_strict=False,
            effect="it would have lasted long enough",
            sentence=f"With {most}{rounds} like this one, in a row, it would have lasted long enough.",
        )
    ]


def later(row: Row, context: Context) -> list[Change]:
    """Shedding has an interval."""
    figures = within(row)
    if figures is None or figures[0] == figures[1]:
        return []
    measured, threshold = figures
    amount = at_least(threshold - measured, "ms").text
    return [
        Change(
            subject=row["subject"],
            figure="time since the last round",
            measured=measured,
            needed=threshold,
            unit="ms",
            is_strict=False,
            effect="shedding would have been due",
            sentence=f"Had the cycle come {amount} later, shedding would have been due.",
        )
    ]


# What would have made a shedder take another bundle of a broker.
#
# OverloadShedder and ThresholdShedder take a broker's bundles by throughput, heaviest first, until enough is taken. All
# bundles that could be taken have a row with their throughput and rank, so the order with one figure changed is known.

_FIGURE = "bundle_throughput"


def taken(row: Row, context: Context) -> list[Change]:
    """Of a bundle that was taken: how light it would have had to be to stay.

    Without it the others are taken until enough has gone; it stays if it comes after the last of these.
    """
    own, wanted = row["numbers"].get(_FIGURE), row["threshold"]
    others = _in_line(row, context)
    if own is None or wanted is None or others is None:
        return []
    gone = 0.0
    for bundle in others:
        throughput = bundle["numbers"][_FIGURE]
        gone += throughput
        if gone < wanted:
            continue
        if throughput > own or throughput <= 0:
            return []
        less = f"over {at_least(own - throughput, 'byte/s').text} less" if own > throughput else "any less"
        enough = f"{bundle['subject']} is" if bundle is others[0] else "the heavier ones are"
        return [
            Change(
                subject=row["subject"],
                figure="throughput",
                measured=own,
                needed=throughput,
                unit="byte/s",
                is_strict=True,
                effect="it would have stayed",
                is_more=False,
                sentence=f"Had {row['subject']} carried {less}, it would have stayed: {enough} enough without it.",
            )
        ]
    return []


def left(row: Row, context: Context) -> list[Change]:
    """Of a bundle that stayed: it is taken if it is heavier than the last one that was."""
    own, others = row["numbers"].get(_FIGURE), _in_line(row, context)
    if own is None or others is None:
        return []
    # One that a gate kept back after it was taken stands in its place all the same.
    last = next((bundle for bundle in reversed(others) if bundle["rule"] != "wanted_reached"), None)
    if last is None or last["numbers"][_FIGURE] < own:
        return []
    needed = last["numbers"][_FIGURE]
    more = f"over {at_least(needed - own, 'byte/s').text} more" if needed > own else "any more"
    return [
        Change(
            subject=row["subject"],
            figure="throughput",
            measured=own,
            needed=needed,
            unit="byte/s",
            is_strict=True,
            effect="it would have been taken",
            sentence=f"Had {row['subject']} carried {more}, it would have been taken before {last['subject']}.",
        )
    ]


def _in_line(row: Row, context: Context) -> list[Row] | None:
    """The broker's other bundles that could be taken, in order; None where a rank is missing and so is its bundle."""
    if not context.is_complete:
        return None
    line = [other for other in context.bundles_of.get(row["broker"], []) if _FIGURE in other["numbers"]]
    ranks = sorted(other["numbers"].get("rank", 0.0) for other in line)
    if ranks != [float(n) for n in range(1, len(line) + 1)]:
        return None
    ordered = sorted(line, key=lambda other: other["numbers"]["rank"])
    return [other for other in ordered if other["subject"] != row["subject"]]


# What would have made TransferShedder find the brokers' loads uneven, or even.
#
# It compares the deviation of all loads with a target. Every broker that counts has a row with its load, and the mean
# stands in the rows as well: where it is not the mean of the loads found, some are missing and nothing is said.

_CLOSE = 1e-9


def more_uneven(row: Row, context: Context) -> list[Change]:
    """Of loads that are even enough: how much busier the busiest would have had to be."""
    loads, target = _loads(row, context), row["threshold"]
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


def more_even(row: Row, context: Context) -> list[Change]:
    """Of loads that are too uneven: how much less the busiest would have had to carry, if that could settle it."""
    loads, target = _loads(row, context), row["threshold"]
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


def _loads(row: Row, context: Context) -> dict[str, float]:
    """The loads that were compared; nothing where they are not all known."""
    mean = row["numbers"].get("mean_load")
    if mean is None or not context.is_complete:
        return {}
    found = {
        other["subject"]: other["numbers"].get("load", other["measured"])
        for other in context.brokers
        if "mean_load" in other["numbers"]
    }
    if None in found.values() or not found:
        return {}
    return found if abs(sum(found.values()) / len(found) - mean) <= _CLOSE else {}
