"""What validation found and what was set aside, as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.audit.read import Row
from evenkeel.decisions import amounts

_SEVERITIES = ("quarantine", "reject", "warn")
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Check:
    """A rule of validation and what it found; `measured` and `threshold` are texts with their unit."""

    rule: str
    table: str
    severity: str
    passed: bool
    failed_rows: int | None
    checked_rows: int | None
    measured: str
    threshold: str
    sample: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """Records that one rule set aside from one table, with the first few of them (place, reason, record)."""

    rule: str
    table: str
    count: int
    samples: tuple[tuple[str, str, str], ...]


def checks(rows: Sequence[Row]) -> tuple[Check, ...]:
    """All rules: failed ones first, the gravest first among them."""
    found = [
        Check(
            row["rule"],
            row["checked_table"],
            row["severity"],
            bool(row["passed"]),
            row["failed_rows"],
            row["checked_rows"],
            amounts.quantity(row["measured"], row["unit"]),
            amounts.quantity(row["threshold"], row["unit"]),
            tuple(row["sample"] or ()),
            row["detail"],
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda check: (check.passed, _gravity(check.severity), check.table, check.rule)))


def _gravity(severity: str) -> int:
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else len(_SEVERITIES)


def rejections(rows: Sequence[Row]) -> tuple[Rejection, ...]:
    """Records set aside, by table and rule."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["rejected_from"], row["rule"]), []).append(row)
    return tuple(
        Rejection(
            rule,
            table,
            len(found),
            tuple((f"{row['file']}, {row['place']}", row["reason"], row["record"] or "") for row in found[:_SAMPLES]),
        )
        for (table, rule), found in sorted(groups.items())
    )
