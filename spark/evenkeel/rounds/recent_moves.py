"""Which bundles moved lately, by the commands of the past and what was seen of them.

A cycle that is decided again has to come to the same plan, so only what was known at its moment counts: commands of
earlier cycles, and outcomes that were seen by then. A command of which nothing was seen by then may have been carried
out, and counts as a move; one that is known to have done nothing does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from evenkeel.decisions.acts.act import UNTOUCHED
from evenkeel.decisions.guards.situation import Move
from evenkeel.rounds.reading import Row
from evenkeel.settings import Settings

DRY_RUN = "dry_run"


def moves(acts: Iterable[Row], now: datetime, settings: Settings) -> list[Move]:
    """The unloads before `now` that took a bundle from its broker, or may have. Doubled rows of one id are one.

    In a dry run nothing moves; with evenkeelAssumeUnloadsSucceed it counts all the same.
    """
    idle = UNTOUCHED - {DRY_RUN} if settings.evenkeelAssumeUnloadsSucceed else UNTOUCHED
    latest: dict[str, Row] = {}
    for act in acts:
        if act["kind"] == "unload" and datetime.fromisoformat(act["cycle_at"]) < now:
            known = latest.get(act["command_id"])
            if known is None or _said(known, now) < _said(act, now):
                latest[act["command_id"]] = act
    found = [Move(act["bundle"], act["from_broker"], _when(act, now)) for act in latest.values()
             if _outcome(act, now) not in idle]  # fmt: skip
    return sorted(found, key=lambda move: (move.bundle, move.at, move.source or ""))


def _seen_at(act: Row, now: datetime) -> datetime | None:
    """When the outcome was seen, if that was before `now`."""
    text = act.get("seen_at")
    seen = datetime.fromisoformat(text) if text else None
    return seen if seen is not None and seen <= now else None


def _outcome(act: Row, now: datetime) -> str | None:
    return act.get("outcome") if _seen_at(act, now) is not None else None


def _when(act: Row, now: datetime) -> datetime:
    return _seen_at(act, now) or datetime.fromisoformat(act["cycle_at"])


def _said(act: Row, now: datetime) -> tuple[bool, datetime, str]:
    """Of doubled rows the one that was seen last says what became of the command."""
    return _seen_at(act, now) is not None, _when(act, now), _outcome(act, now) or ""
