"""What would have made a shedder take another bundle of a broker.

OverloadShedder and ThresholdShedder take a broker's bundles by throughput, heaviest first, until enough is taken. All
bundles that could be taken have a row with their throughput and rank, so the order with one figure changed is known.
"""

from __future__ import annotations

from evenkeel.audit.explain.changes.change import Around, Change, Row
from evenkeel.audit.explain.rounding import at_least

_FIGURE = "bundle_throughput"


def taken(row: Row, around: Around) -> list[Change]:
    """Of a bundle that was taken: how light it would have had to be to stay.

    Without it the others are taken until enough has gone; it stays if it comes after the last of these.
    """
    own, wanted = row["numbers"].get(_FIGURE), row["threshold"]
    others = _in_line(row, around)
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


def left(row: Row, around: Around) -> list[Change]:
    """Of a bundle that stayed: it is taken if it is heavier than the last one that was."""
    own, others = row["numbers"].get(_FIGURE), _in_line(row, around)
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


def _in_line(row: Row, around: Around) -> list[Row] | None:
    """The broker's other bundles that could be taken, in order; None where a rank is missing and so is its bundle."""
    if not around.is_complete:
        return None
    line = [other for other in around.bundles_of.get(row["broker"], []) if _FIGURE in other["numbers"]]
    ranks = sorted(other["numbers"].get("rank", 0.0) for other in line)
    if ranks != [float(n) for n in range(1, len(line) + 1)]:
        return None
    ordered = sorted(line, key=lambda other: other["numbers"]["rank"])
    return [other for other in ordered if other["subject"] != row["subject"]]
