"""Commands that went out lately, and what follows for the figures and bundles that they touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel.model.bundles import bundle_name, namespace_of, range_of, ranges_of
from evenkeel.settings import Settings

UNTOUCHED = frozenset({"refused", "stale", "withheld", "dry_run"})
"""Outcomes after which the cluster is as it was."""

HARMED = "harmed"
"""Stands in `outcomes` beside what became of a command, never in its place; a row with it is not a further command."""


@dataclass(frozen=True, slots=True)
class Act:
    """`outcome` and `seen_at` are None while nothing was seen. `cuts` and `unload_children` belong to splits."""

    command_id: str
    kind: str
    bundle: str
    from_broker: str | None
    destination: str | None
    cycle_at: datetime
    outcome: str | None = None
    seen_at: datetime | None = None
    cuts: tuple[int, ...] = ()
    unload_children: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not known what became of it."""
        return self.outcome is None or self.outcome == "unknown"

    @property
    def touched(self) -> bool:
        """Whether it changed the cluster, or may have."""
        return self.outcome not in UNTOUCHED

    def children(self) -> tuple[str, ...]:
        """The bundles that a split makes."""
        edges = range_of(self.bundle)
        namespace = namespace_of(self.bundle)
        bounds = sorted({edges.lower, *self.cuts, edges.upper})
        return tuple(bundle_name(namespace, found) for found in ranges_of(bounds))


def act_of(row: Mapping[str, Any]) -> Act:
    """The act of a hand-over's row, whose times are ISO-8601 text."""
    seen = row["seen_at"]
    return Act(
        command_id=row["command_id"],
        kind=row["kind"],
        bundle=row["bundle"],
        from_broker=row["from_broker"],
        destination=row["destination"],
        cycle_at=datetime.fromisoformat(row["cycle_at"]),
        outcome=row["outcome"],
        seen_at=None if seen is None else datetime.fromisoformat(seen),
        cuts=tuple(row["cuts"] or ()),
        unload_children=bool(row["unload_children"]),
    )


def acts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Act, ...]:
    """The acts of a hand-over, by cycle and command; what is said of their harm left out."""
    acts = (act_of(row) for row in rows if row["outcome"] != HARMED)
    return tuple(sorted(acts, key=lambda act: (act.cycle_at, act.command_id)))


# Whose figures are wrong for a while after a command, and since when bundles have been gone from a broker.
#
# While a bundle moves, its topics are in no broker's figures or in two brokers', and the first rate at the new owner is
# inflated by what clients had buffered: it takes two full stats periods (statsUpdateFrequencyInSecs) until figures can
# be trusted. CPU, memory and network are means over whole minutes (loadBalancerHostUsageCheckIntervalMinutes), and take
# two of those.

PERIODS = 2


@dataclass(frozen=True, slots=True)
class Settling:
    """`until`: when the figures can be trusted again; None while it is not known what became of the command."""

    until: datetime | None
    why: str


def unsettled_bundles(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, Settling]:
    """The bundles whose figures are not to be trusted yet, children of a split among them."""
    wait = timedelta(seconds=PERIODS * settings.statsUpdateFrequencyInSecs)
    found: dict[str, Settling] = {}
    for act in acts:
        mark = _mark(act, now, wait)
        if mark is None:
            continue
        for bundle in _bundles(act):
            found[bundle] = _later(found.get(bundle), mark)
    return dict(sorted(found.items()))


def owners_seen(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, str]:
    """Bundle -> owner, of commands that were seen to be done within the last stats period (statsUpdateFrequencyInSecs).

    Load reports of the modular manager may be older than that. Of several commands the last one counts. A bundle that
    no client has looked up yet counts for its destination, which the leader has noted.
    """
    period = timedelta(seconds=settings.statsUpdateFrequencyInSecs)
    done = [act for act in acts if act.outcome == "done" and act.seen_at is not None and now - act.seen_at <= period]
    found: dict[str, str] = {}
    for act in sorted(done, key=lambda act: (act.seen_at, act.command_id)):
        if act.kind == "unload" and act.destination is not None:
            found[act.bundle] = act.destination
        elif act.kind == "split" and not act.unload_children and act.from_broker is not None:
            found |= dict.fromkeys(act.children(), act.from_broker)
    return found


def split_children(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, str]:
    """Bundle -> parent: what splits have made, or may have, as long as its own figures are not to be trusted yet."""
    wait = timedelta(seconds=PERIODS * settings.statsUpdateFrequencyInSecs)
    splits = [act for act in acts if act.kind == "split" and _mark(act, now, wait) is not None]
    found = {child: act.bundle for act in splits for child in act.children() if child != act.bundle}
    return dict(sorted(found.items()))


def unsettled_brokers(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, Settling]:
    """The brokers whose resources still show what they carried before, or the work of the move itself."""
    wait = timedelta(minutes=PERIODS * settings.loadBalancerHostUsageCheckIntervalMinutes)
    found: dict[str, Settling] = {}
    for act in acts:
        mark = _mark(act, now, wait) if act.kind == "unload" or act.unload_children else None
        if mark is None:
            continue
        for broker in (act.from_broker, act.destination):
            if broker is not None:
                found[broker] = _later(found.get(broker), mark)
    return dict(sorted(found.items()))


def recently_unloaded(acts: Iterable[Act]) -> dict[str, int]:
    """Bundle -> when its unload was seen to be done, epoch ms (Pulsar: recentlyUnloadedBundles)."""
    found: dict[str, int] = {}
    for act in acts:
        if act.kind == "unload" and act.outcome == "done" and act.seen_at is not None:
            at = round(act.seen_at.timestamp() * 1_000)
            found[act.bundle] = max(at, found.get(act.bundle, 0))
    return dict(sorted(found.items()))


def brokers_unloaded(acts: Iterable[Act]) -> Mapping[str, int]:
    """Broker -> when a bundle was last seen to have left it, epoch ms (Pulsar: TransferShedder's cool-down)."""
    found: dict[str, int] = {}
    for act in acts:
        if act.kind == "unload" and act.outcome == "done" and act.seen_at is not None and act.from_broker:
            at = round(act.seen_at.timestamp() * 1_000)
            found[act.from_broker] = max(at, found.get(act.from_broker, 0))
    return dict(sorted(found.items()))


def _mark(act: Act, now: datetime, wait: timedelta) -> Settling | None:
    if not act.touched:
        return None
    if act.is_open or act.seen_at is None:
        return Settling(None, f"what became of its {act.kind} of {act.cycle_at.isoformat()} is not known yet")
    until = act.seen_at + wait
    if now >= until:
        return None
    return Settling(until, f"its {act.kind} was seen at {act.seen_at.isoformat()} ({act.outcome})")


def _bundles(act: Act) -> tuple[str, ...]:
    return (act.bundle, *act.children()) if act.kind == "split" else (act.bundle,)


def _later(one: Settling | None, other: Settling) -> Settling:
    """Not knowing outlasts any time."""
    if one is None or other.until is None:
        return other
    return one if one.until is None or one.until >= other.until else other


# Which bundles moved lately, by the commands of the past and what was seen of them.
#
# A cycle that is decided again has to come to the same plan, so only what was known at its moment counts: commands of
# earlier cycles, and outcomes that were seen by then. A command of which nothing was seen by then may have been carried
# out, and counts as a move; one that is known to have done nothing does not.


@dataclass(frozen=True, slots=True)
class Move:
    """A bundle left a broker, or may have: an unload that is known to have done nothing is none."""

    bundle: str
    source: str | None
    at: datetime


def past_moves(acts: Iterable[Act], now: datetime, settings: Settings) -> list[Move]:
    """The unloads before `now` that took a bundle from its broker, or may have. Doubled rows of one id are one.

    In a dry run nothing moves; with evenkeelAssumeUnloadsSucceed it counts all the same.
    """
    idle = UNTOUCHED - {"dry_run"} if settings.evenkeelAssumeUnloadsSucceed else UNTOUCHED
    latest: dict[str, Act] = {}
    for act in acts:
        if act.kind == "unload" and act.cycle_at < now:
            known = latest.get(act.command_id)
            if known is None or _known_by(now, known) < _known_by(now, act):
                latest[act.command_id] = act
    found = []
    for act in latest.values():
        _, at, outcome = _known_by(now, act)
        if outcome not in idle:
            found.append(Move(act.bundle, act.from_broker, at))
    return sorted(found, key=lambda move: (move.bundle, move.at, move.source or ""))


def _known_by(now: datetime, act: Act) -> tuple[bool, datetime, str]:
    """Whether the outcome was seen by then, when the act took place as far as is known, and the outcome, "" while it is
    not. Of doubled rows the one that was seen last says what became of the command."""
    if act.seen_at is None or act.seen_at > now:
        return False, act.cycle_at, ""
    return True, act.seen_at, act.outcome or ""
