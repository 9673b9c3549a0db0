"""What would have made a guard let a command through. Another guard may still have objected."""

from __future__ import annotations

import math

from evenkeel.record.explain.changes.change import Change, Context, Row, at_least, compared

# The setting would have had to be at least what was measured: what would have been used with the command in it.
_COUNTED = frozenset(
    {"unloads_per_cycle", "unloads_from_broker", "unloads_to_broker", "splits_per_cycle", "bundle_maximum"}
)
_TRAFFIC = frozenset({"moved_traffic", "bundle_too_heavy"})
_GAINS = frozenset({"returns", "moved_often"})
_EFFECT = "this guard would not have objected"


def of_guard(row: Row, context: Context) -> list[Change]:
    """Of an objection with which a command was held back."""
    figures, setting, rule = compared(row), row["setting"], row["rule"]
    if row["outcome"] != "held" or figures is None:
        return []
    measured, threshold = figures
    if rule in _COUNTED and setting:
        return [_by_setting(row, measured, f"{measured:,.0f}")]
    if rule in _TRAFFIC and setting and 0 < measured <= 100:
        shown = math.ceil(measured * 10) / 10
        return [_by_setting(row, measured, f"{shown:g}")]
    if rule in _GAINS:
        gain = at_least(threshold, "points").text
        return [_change(row, "gain", threshold, f"Had the move gained {gain}, {_EFFECT}.")]
    if rule == "report_too_old":
        return [_change(row, "age of the report", threshold, f"{_younger(threshold)}, {_EFFECT}.")]
    if rule in ("unsettled_bundle", "unsettled_broker"):
        left = at_least(measured, "s").text
        return [_change(row, "time until settled", threshold, f"{left} later, {_EFFECT}.")]
    return []


def _younger(seconds: float) -> str:
    return f"Had the report been no older than {seconds:,.0f} s"


def _by_setting(row: Row, needed: float, shown: str) -> Change:
    return Change(
        subject=row["setting"],
        figure="value",
        measured=row["threshold"],
        needed=needed,
        unit=row["unit"] or "",
        is_strict=False,
        effect=_EFFECT,
        sentence=f"With {row['setting']} at {shown}, {_EFFECT}.",
    )


def _change(row: Row, figure: str, needed: float, sentence: str) -> Change:
    return Change(
        is_more=figure == "gain",
        subject=row["subject"],
        figure=figure,
        measured=row["measured"],
        needed=needed,
        unit=row["unit"] or "",
        is_strict=False,
        effect=_EFFECT,
        sentence=sentence,
    )
