"""Harm of a command: did a bundle's producers and consumers return, and how did its backlog grow?

Keys: evenkeelHarmClientsBackPercent, evenkeelHarmBacklogGrowthPercent, evenkeelHarmBacklogMessages,
evenkeelHarmWatchMinutes. While a bundle moves its topics are closed. Its clients look them up and connect again within
seconds. Some do not: clients that do not return after an unload are a known problem of Pulsar. A missing consumer shows
as a backlog that grows as fast as messages come in. So the bundle is compared with its state at the command's decision,
two snapshots after the command at the earliest. A figure that was falling or growing before is expected to go on so,
and that is not counted as harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel.model.past_commands import Act
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Clients:
    """A bundle at one moment: connected producers and consumers, and messages not yet acknowledged over all
    subscriptions (`backlog`). None: unknown."""

    at: datetime
    producers: int | None
    consumers: int | None
    backlog: int | None


def is_watched(act: Act, now: datetime, previous: datetime | None, settings: Settings) -> bool:
    """Return True if the bundle of a command is checked in this cycle.

    The command must have been seen as done before the previous cycle (`previous`), so that this is the second snapshot
    after it or a later one. The second one always counts, also if cycles are far apart, later ones only for a while.
    The time between cycles shows which one it is.
    """
    if act.outcome != "done" or act.seen_at is None or previous is None or previous < act.seen_at:
        return False
    is_second = previous - (now - previous) < act.seen_at
    return is_second or now - act.seen_at <= timedelta(minutes=settings.evenkeelHarmWatchMinutes)


def harm_of(samples: Sequence[Clients], now: Clients, published: float | None, settings: Settings) -> str | None:
    """Return the harm in words; None if there is none, or if it is unknown.

    `samples`: the bundle in the cycle that decided the command, and in the cycle before that, if any. `published`:
    msg/s that the bundle receives now; None if unknown.
    """
    if not samples:
        return None
    *earlier, then = samples
    before = next((sample for sample in earlier if sample.at < then.at), None)
    harms = [_gone(noun, before, then, now, settings) for noun in ("producers", "consumers")]
    harms.append(_piled_up(before, then, now, published, settings))
    return "; ".join(harm for harm in harms if harm) or None


def _gone(noun: str, before: Clients | None, then: Clients, now: Clients, settings: Settings) -> str | None:
    least = settings.evenkeelHarmClientsBackPercent
    had, have = getattr(then, noun), getattr(now, noun)
    if not had or have is None:
        return None
    expected = had - _as_before(getattr(before, noun, None), had, before, then, now, falling=True)
    if have >= expected * least / 100.0:
        return None
    enough = math.ceil(expected * least / 100.0)
    return (
        f"{have:,} of {had:,} {noun} are connected {_seconds(then, now):,.0f} s later, and {enough:,} would be enough"
    )


def _piled_up(
    before: Clients | None, then: Clients, now: Clients, published: float | None, settings: Settings
) -> str | None:
    most = settings.evenkeelHarmBacklogGrowthPercent
    if most <= 0 or then.backlog is None or now.backlog is None or published is None:
        return None
    came_in = published * _seconds(then, now)
    usual = _as_before(before.backlog if before else None, then.backlog, before, then, now, falling=False)
    grown = now.backlog - then.backlog - usual
    if grown < settings.evenkeelHarmBacklogMessages or grown <= came_in * most / 100.0:
        return None
    return (
        f"its backlog grew from {then.backlog:,} to {now.backlog:,} messages in {_seconds(then, now):,.0f} s, by "
        f"{grown:,.0f} more than it did before, while {came_in:,.0f} came in, of which {most:g} % are the most"
    )


def _as_before(
    first: int | None, second: int, before: Clients | None, then: Clients, now: Clients, *, falling: bool
) -> float:
    """Return how far a figure would fall (or grow) until now at its pace from before the command; never less than 0."""
    if first is None or before is None:
        return 0.0
    change = first - second if falling else second - first
    return max(0.0, change * _seconds(then, now) / _seconds(before, then))


def _seconds(later: Clients, other: Clients) -> float:
    return (other.at - later.at).total_seconds()


def samples_of(row: Mapping[str, Any] | None, at: str, before_at: str | None) -> list[dict[str, Any]]:
    """Return a row of `bundle_load` and its previous cycle's, in the form of the column `commands.clients`."""
    if row is None:
        return []
    now = {"at": at, **{name: row.get(name) for name in _FIGURES}}
    if before_at is None or all(row.get(f"{name}_before") is None for name in _FIGURES):
        return [now]
    return [{"at": before_at, **{name: row.get(f"{name}_before") for name in _FIGURES}}, now]


def clients_of(samples: Iterable[Mapping[str, Any]] | None) -> tuple[Clients, ...]:
    """Return the samples of a command."""
    return tuple(
        Clients(datetime.fromisoformat(sample["at"]), sample["producers"], sample["consumers"], sample["msg_backlog"])
        for sample in samples or ()
    )


_FIGURES = ("producers", "consumers", "msg_backlog")


def together(rows: Sequence[Mapping[str, Any]], at: datetime) -> Clients:
    """Return the sums over these rows of `bundle_load`. A bundle without owner has no clients."""
    return Clients(at, _sum(rows, "producers"), _sum(rows, "consumers"), _sum(rows, "msg_backlog"))


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int | None:
    figures = [0 if row["ownership"] == "unowned" and name != "msg_backlog" else row.get(name) for row in rows]
    return None if any(figure is None for figure in figures) else sum(int(figure) for figure in figures if figure)
