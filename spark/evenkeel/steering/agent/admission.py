"""Verdict on a received command, by the ledger's knowledge of it.

Pure: no clock, no queue, no cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from evenkeel.steering.queue.messages import deed
from evenkeel.times import utc_seconds

State = Literal["received", "sending", "settled"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A command's row in the ledger. `sending_at`: when its last request was about to be sent; `deed`: see messages."""

    state: State
    deed: str
    sending_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """Further facts for the verdict on a command.

    `now` is by the queue's clock. `paused`: the reason of a pause, or of its plan's withdrawal, or None.
    `newest_cycle_at` is that of all commands seen for the bundle. `longest_request`: after that time neither an answer
    to a request nor its effect can come.
    """

    now: datetime
    paused: str | None
    newest_cycle_at: datetime
    longest_request: timedelta


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Fence it and send it."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """A request may be under way from before a crash: read the cluster, though not before `wait` is over."""

    wait: timedelta


@dataclass(frozen=True, slots=True)
class Refuse:
    """The command must not be sent (any more), with its outcome."""

    outcome: Literal["stale", "withheld"]
    detail: str


@dataclass(frozen=True, slots=True)
class ReportAgain:
    """The command has its outcome already, which the publisher has not received."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The command is not the one that its id names."""

    reason: str


Verdict = CarryOut | LookAgain | Refuse | ReportAgain | Reject


def judge(command: Mapping[str, Any], entry: LedgerEntry, at: AdmissionFacts) -> Verdict:
    """Return the verdict on a command of which the ledger has a row.

    An outcome is final, so it is checked first. A request that may be under way must be looked into before any other
    verdict on its command, even if the command has expired or the cluster is paused.
    """
    if is_another(command, entry):
        return Reject("another command is known under this id")
    if entry.state == "settled":
        return ReportAgain()
    if entry.state == "sending":
        return LookAgain(_still_to_wait(entry, at))
    return judge_unsent(command, at)


def is_another(command: Mapping[str, Any], entry: LedgerEntry) -> bool:
    """Return True if the id is that of a command that would do something else to the cluster."""
    return entry.deed != deed(command)


def judge_unsent(command: Mapping[str, Any], at: AdmissionFacts) -> CarryOut | Refuse:
    """Return the verdict on a command that is known to have had no effect."""
    if at.now >= command["expires_at"]:
        return Refuse("stale", f"expired at {utc_seconds(command['expires_at'])}, before it could be sent")
    if command["cycle_at"] < at.newest_cycle_at:
        newer = utc_seconds(at.newest_cycle_at)
        return Refuse("stale", f"superseded: the cycle of {newer} has decided on this bundle since")
    if at.paused is not None:
        return Refuse("withheld", at.paused)
    return CarryOut()


def _still_to_wait(entry: LedgerEntry, at: AdmissionFacts) -> timedelta:
    """Return the time still to wait: never longer than the longest request, also if the clock was set back since."""
    if entry.sending_at is None:
        return at.longest_request
    passed = at.now - entry.sending_at
    return min(at.longest_request, max(timedelta(0), at.longest_request - passed))
