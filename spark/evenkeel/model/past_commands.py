"""Recent commands, their effect on the figures and bundles that they touched, and bounces.

A bundle bounces if it returns to a broker that it left within the last hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from evenkeel.model.bundles import bundle_name, namespace_of, range_of, ranges_of
from evenkeel.settings import Settings

UNTOUCHED = frozenset({"refused", "stale", "withheld", "dry_run"})
"""Outcomes after which the cluster is unchanged."""

HARMED = "harmed"
"""Extra entry in `outcomes`, beside a command's own outcome; a row with it is not a further command."""


@dataclass(frozen=True, slots=True)
class Act:
    """A command that went out. `outcome`, `seen_at`: None until seen; `cuts`, `unload_children`: of splits."""

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
        """True if its outcome is unknown."""
        return self.outcome is None or self.outcome == "unknown"

    @property
    def touched(self) -> bool:
        """True if it changed the cluster, or may have."""
        return self.outcome not in UNTOUCHED

    def children(self) -> tuple[str, ...]:
        """Return the bundles that a split makes."""
        edges = range_of(self.bundle)
        namespace = namespace_of(self.bundle)
        bounds = sorted({edges.lower, *self.cuts, edges.upper})
        return tuple(bundle_name(namespace, child) for child in ranges_of(bounds))


def act_of(row: Mapping[str, Any]) -> Act:
    """Return the act of a hand-over's row, whose times are ISO-8601 text."""
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
    """Return the acts of a hand-over, by cycle and command; entries about their harm are left out."""
    acts = (act_of(row) for row in rows if row["outcome"] != HARMED)
    return tuple(sorted(acts, key=lambda act: (act.cycle_at, act.command_id)))


# Figures that are wrong for a while after a command, and times at which bundles left a broker.
#
# While a bundle moves, its topics are in no broker's figures or in two brokers'. The first rate at the new owner is
# inflated by what clients had buffered. So figures can be trusted only after two full stats periods
# (statsUpdateFrequencyInSecs). CPU, memory and network are means over whole minutes
# (loadBalancerHostUsageCheckIntervalMinutes), and take two of those.

PERIODS = 2


@dataclass(frozen=True, slots=True)
class Settling:
    """A wait until figures can be trusted again, at `until`; None while the command's outcome is unknown."""

    until: datetime | None
    why: str


def unsettled_bundles(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, Settling]:
    """Return the bundles whose figures are not to be trusted yet, children of a split among them."""
    wait = timedelta(seconds=PERIODS * settings.statsUpdateFrequencyInSecs)
    waits: dict[str, Settling] = {}
    for act in acts:
        mark = _mark(act, now, wait)
        if mark is None:
            continue
        for bundle in (act.bundle, *(act.children() if act.kind == "split" else ())):
            waits[bundle] = _later(waits.get(bundle), mark)
    return dict(sorted(waits.items()))


def owners_seen(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, str]:
    """Return bundle -> owner, of commands seen as done within the last stats period (statsUpdateFrequencyInSecs).

    Load reports of the modular manager may be older than that. Of several commands the last one counts. A bundle that
    no client has looked up yet counts for its destination, which the leader has noted.
    """
    period = timedelta(seconds=settings.statsUpdateFrequencyInSecs)
    done = [act for act in acts if act.outcome == "done" and act.seen_at is not None and now - act.seen_at <= period]
    owners: dict[str, str] = {}
    for act in sorted(done, key=lambda act: (act.seen_at, act.command_id)):
        if act.kind == "unload" and act.destination is not None:
            owners[act.bundle] = act.destination
        elif act.kind == "split" and not act.unload_children and act.from_broker is not None:
            owners |= dict.fromkeys(act.children(), act.from_broker)
    return owners


def split_children(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, str]:
    """Return bundle -> parent: children that splits made, or may have, until their own figures can be trusted."""
    wait = timedelta(seconds=PERIODS * settings.statsUpdateFrequencyInSecs)
    splits = [act for act in acts if act.kind == "split" and _mark(act, now, wait) is not None]
    parents = {child: act.bundle for act in splits for child in act.children() if child != act.bundle}
    return dict(sorted(parents.items()))


def unsettled_brokers(acts: Iterable[Act], now: datetime, settings: Settings) -> dict[str, Settling]:
    """Return the brokers whose resources still show their earlier load, or the work of the move itself."""
    wait = timedelta(minutes=PERIODS * settings.loadBalancerHostUsageCheckIntervalMinutes)
    waits: dict[str, Settling] = {}
    for act in acts:
        mark = _mark(act, now, wait) if act.kind == "unload" or act.unload_children else None
        if mark is None:
            continue
        for broker in (act.from_broker, act.destination):
            if broker is not None:
                waits[broker] = _later(waits.get(broker), mark)
    return dict(sorted(waits.items()))


def recently_unloaded(acts: Iterable[Act]) -> dict[str, int]:
    """Return bundle -> when its unload was seen as done, epoch ms (Pulsar: recentlyUnloadedBundles)."""
    unloaded_at: dict[str, int] = {}
    for act in acts:
        if act.kind == "unload" and act.outcome == "done" and act.seen_at is not None:
            at = round(act.seen_at.timestamp() * 1_000)
            unloaded_at[act.bundle] = max(at, unloaded_at.get(act.bundle, at))
    return dict(sorted(unloaded_at.items()))


def brokers_unloaded(acts: Iterable[Act]) -> Mapping[str, int]:
    """Return broker -> when a bundle was last seen to have left it, epoch ms (Pulsar: TransferShedder's cool-down)."""
    unloaded_at: dict[str, int] = {}
    for act in acts:
        if act.kind == "unload" and act.outcome == "done" and act.seen_at is not None and act.from_broker:
            at = round(act.seen_at.timestamp() * 1_000)
            unloaded_at[act.from_broker] = max(at, unloaded_at.get(act.from_broker, at))
    return dict(sorted(unloaded_at.items()))


def _mark(act: Act, now: datetime, wait: timedelta) -> Settling | None:
    if not act.touched:
        return None
    if act.is_open or act.seen_at is None:
        return Settling(None, f"what became of its {act.kind} of {act.cycle_at.isoformat()} is not known yet")
    until = act.seen_at + wait
    if now >= until:
        return None
    return Settling(until, f"its {act.kind} was seen at {act.seen_at.isoformat()} ({act.outcome})")


def _later(first: Settling | None, other: Settling) -> Settling:
    """Return the later of two waits; an unknown outcome outlasts any time."""
    if first is None or other.until is None:
        return other
    return first if first.until is None or first.until >= other.until else other


# Recent moves of bundles, by past commands and their seen outcomes.
#
# A cycle that is decided again has to give the same plan. So only what was known at its moment counts: commands of
# earlier cycles, and outcomes seen by then. A command without an outcome by then may have been carried out, and counts
# as a move. A command known to have done nothing does not count.


@dataclass(frozen=True, slots=True)
class Move:
    """A bundle left a broker, or may have; an unload known to have done nothing is not a move."""

    bundle: str
    source: str | None
    at: datetime


def past_moves(acts: Iterable[Act], now: datetime, settings: Settings) -> list[Move]:
    """Return the unloads before `now` that took a bundle from its broker, or may have. Duplicate rows of an id count
    once.

    In a dry run nothing moves; with evenkeelAssumeUnloadsSucceed the unload still counts.
    """
    idle = UNTOUCHED - {"dry_run"} if settings.evenkeelAssumeUnloadsSucceed else UNTOUCHED
    latest: dict[str, Act] = {}
    for act in acts:
        if act.kind == "unload" and act.cycle_at < now:
            known = latest.get(act.command_id)
            if known is None or _known_by(now, known) < _known_by(now, act):
                latest[act.command_id] = act
    moves = []
    for act in latest.values():
        _, at, outcome = _known_by(now, act)
        if outcome not in idle:
            moves.append(Move(act.bundle, act.from_broker, at))
    return sorted(moves, key=lambda move: (move.bundle, move.at, move.source or ""))


def _known_by(now: datetime, act: Act) -> tuple[bool, datetime, str]:
    """Return True if the outcome was seen by then, the act's moment as far as known, and the outcome, "" if unknown.

    Of duplicate rows the one that was seen last has the command's outcome.
    """
    if act.seen_at is None or act.seen_at > now:
        return False, act.cycle_at, ""
    return True, act.seen_at, act.outcome or ""


BOUNCE_MS = 3_600_000
"""A move back to an owner of this recent time is a bounce (milliseconds)."""


@dataclass
class FormerOwners:
    """Recent former owners of bundles: bundle -> owner -> when it last gave the bundle away (epoch ms)."""

    known: dict[str, dict[str, int]] = field(default_factory=dict)

    def left(self, bundle: str, owner: str, at: int) -> None:
        """Note that the owner gives the bundle away."""
        self.known.setdefault(bundle, {})[owner] = at

    def is_bounce(self, bundle: str, destination: str | None, at: int) -> bool:
        """Return True if the destination had the bundle within the last hour."""
        before = self.known.get(bundle, {}).get(destination or "")
        return before is not None and at - before <= BOUNCE_MS

    def forget(self, at: int) -> None:
        """Forget moves older than an hour."""
        if self.known:
            kept = {b: {o: t for o, t in owners.items() if at - t <= BOUNCE_MS} for b, owners in self.known.items()}
            self.known = {bundle: owners for bundle, owners in kept.items() if owners}
