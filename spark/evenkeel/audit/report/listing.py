"""The list of cycles and the short notices around it, in the same style as a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from evenkeel.audit.read import Attempt
from evenkeel.audit.report.page import render_template

MOST_LISTED = 500
# What of a manifest a line shows, and what tells which attempt counts.
LISTED = (
    *("cluster", "cycle_at", "sequence", "row_kind", "attempt_id", "attempt", "kind", "mode", "plan_id"),
    *("status", "reason", "splits", "unloads", "refusals"),
)


@dataclass(frozen=True, slots=True)
class CycleLine:
    """One cycle of the list; `link` is the address of its report, relative to the list's own."""

    cluster: str
    at: datetime
    status: str
    decided: bool
    kind: str
    reason: str
    splits: int | None
    unloads: int | None
    refusals: int | None
    plan_id: str
    link: str


def cycle_lines(cycles: Sequence[Attempt]) -> list[CycleLine]:
    """The cycles, newest first; clusters of the same moment by name."""
    ordered = sorted(cycles, key=lambda attempt: attempt.cluster)
    ordered.sort(key=lambda attempt: attempt.cycle_at, reverse=True)
    return [_line(attempt) for attempt in ordered]


def report_link(attempt: Attempt) -> str:
    """Where a cycle's report is, relative to the list."""
    return "cycle?" + urlencode({"cluster": attempt.cluster, "at": attempt.cycle_at.isoformat()})


def _line(attempt: Attempt) -> CycleLine:
    row = attempt.planned
    return CycleLine(
        cluster=attempt.cluster,
        at=attempt.cycle_at,
        status=attempt.status,
        decided=attempt.decided,
        kind=attempt.kind,
        reason=attempt.reason or "",
        splits=row["splits"],
        unloads=row["unloads"],
        refusals=row["refusals"],
        plan_id=attempt.plan_id or "",
        link=report_link(attempt),
    )


def render_listing(
    cycles: Sequence[Attempt], *, lake: str, title: str = "Cycles", older: int = 0, continued: bool = False
) -> str:
    """The page with the list of cycles, the newest first.

    `older` cycles are on record before these, to which the page links; `continued` where it was come to that way.
    """
    lines = cycle_lines(cycles)
    return render_template(
        "listing.html.j2",
        title=title,
        lines=lines,
        older=older,
        older_link="./?" + urlencode({"before": lines[-1].at.isoformat()}) if older else "",
        continued=continued,
        clusters=sorted({attempt.cluster for attempt in cycles}),
        lake=lake,
    )


def render_notice(title: str, text: str, advice: Sequence[str] = (), *, back: str = "") -> str:
    """A page that says in a sentence why there is nothing to show, and what to do. `back` links to the list."""
    return render_template("notice.html.j2", title=title, text=text, advice=tuple(advice), back=back)
