"""Whether a plan may be carried out at all: what is known before anything is sent. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

DRY_RUN = "dry_run"
ACTING = ("approve", "auto")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What stands around one cluster's plan.

    `newest_at`: the newest cycle on record or under way. `sent_plans`: plans of this very cycle of which a command went
    out, or may have. `max_age`: how old the cycle may be. `ahead`: how far ahead of the publisher's clock.
    """

    cycle_at: datetime
    plan_id: str
    kind: str
    mode: str
    now: datetime
    newest_at: datetime | None
    max_age: timedelta
    ahead: timedelta
    sent_plans: frozenset[str] = frozenset()
    paused: str | None = None
    unreachable: str | None = None
    answers: tuple[Mapping[str, Any], ...] = field(default=())


def why_withheld(around: Circumstances) -> str | None:
    """Why no command of this plan may go out, in a sentence; None: they may (an approval may still be waited for)."""
    for reason in _reasons(around):
        if reason is not None:
            return reason
    return None


def _reasons(around: Circumstances) -> Iterable[str | None]:
    age = around.now - around.cycle_at
    yield "a backfill decides anew what was, and never sends a command" if around.kind == "backfill" else None
    yield around.unreachable
    newest = around.newest_at
    if newest is not None and newest > around.cycle_at:
        yield f"a newer cycle is on record ({newest.isoformat()}): its view of the cluster counts"
    if age > around.max_age:
        yield (
            f"the cycle is {_text(age)} old, and its figures count for {_text(around.max_age)} "
            "(evenkeelMaxReportAgeSeconds): the next cycle decides on new ones"
        )
    if -age > around.ahead:
        yield (
            f"the cycle lies {_text(-age)} ahead of this machine's clock, more than the {_text(around.ahead)} that are "
            "let pass (evenkeelFutureToleranceSeconds): set the clock, or wait"
        )
    others = sorted(around.sent_plans - {around.plan_id})
    if others:
        yield f"commands of another plan of this cycle went out ({others[0][:12]}): a cycle sends one plan only"
    yield around.paused
    yield _rejected(around)


def _rejected(around: Circumstances) -> str | None:
    answer = _last_answer(around)
    if answer is None or answer["answer"] == "approved":
        return None
    note = f": {answer['note']}" if answer["note"] else ""
    return f"{answer['by']} rejected the plan at {answer['at'].isoformat()}{note}"


def is_approved(around: Circumstances) -> bool:
    """Whether the plan may be sent as far as operators are concerned: this very plan, by the last answer to it."""
    if around.mode != "approve":
        return True
    answer = _last_answer(around)
    return answer is not None and answer["answer"] == "approved"


def _last_answer(around: Circumstances) -> Mapping[str, Any] | None:
    own = [answer for answer in around.answers if answer["plan_id"] == around.plan_id]
    return max(own, key=lambda answer: (answer["at"], answer["answer"] != "approved"), default=None)


def _text(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
