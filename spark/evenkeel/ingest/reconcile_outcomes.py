"""Open outcomes, settled by what the next snapshot shows.

A publisher looks for the effect of a command for some seconds only, and may die before it has. What became of a command
is then read from what the brokers say they own and from the boundaries in force, as the next cycle observes them. What
modular brokers say comes from their load reports, which may be a stats period old (`statsUpdateFrequencyInSecs`): until
then they only prove that the bundle is where it was to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel.handover import ClusterCycle
from evenkeel.lake.outbox import OPEN, is_open
from evenkeel.model.bundles import decode_number, namespace_of
from evenkeel.steering.outcome import LONGEST_REQUEST_S, Outcome, outcome_of
from evenkeel.steering.premise import Look
from evenkeel.steering.recent_commands import as_known_at

LONGEST_REQUEST = timedelta(seconds=LONGEST_REQUEST_S)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """A cluster's acts as this cycle knows them, and rows of `outcomes` for what no one has put on record yet."""

    acts: tuple[dict[str, Any], ...]
    outcomes: tuple[dict[str, Any], ...]


def settled(
    cycle: ClusterCycle, rows: Mapping[str, Sequence[Row]], observed_at: datetime, *, lag: timedelta = timedelta(0)
) -> Settled:
    """The acts of the day before, with those that were open judged by what was observed.

    `lag`: how old the observed ownership may be.
    """
    known = as_known_at(cycle.acts, observed_at)
    ended = None if cycle.steered_until is None else datetime.fromisoformat(cycle.steered_until)
    told = {one.command_id: one for one in settle(known, rows, observed_at=observed_at, steered_until=ended, lag=lag)}
    acts = tuple(
        {**act, "outcome": one.outcome, "detail": one.detail, "seen_at": one.seen_at.isoformat()}
        if (one := told.get(act["command_id"])) is not None
        else act
        for act in known
    )
    # A re-run comes to the same, and finds it on record.
    open_on_record = {act["command_id"]: act for act in cycle.acts if is_open(act)}
    outcomes = tuple(
        {
            "cluster": cycle.cluster,
            "cycle_at": datetime.fromisoformat(open_on_record[one.command_id]["cycle_at"]),
            "command_id": one.command_id,
            "outcome": one.outcome,
            "seen_at": one.seen_at,
            "detail": one.detail,
        }
        for one in told.values()
        if one.command_id in open_on_record
    )
    return Settled(acts, outcomes)


def settle(
    acts: Iterable[Row],
    rows: Mapping[str, Sequence[Row]],
    *,
    observed_at: datetime,
    steered_until: datetime | None,
    lag: timedelta = timedelta(0),
) -> list[Outcome]:
    """Outcomes of the open commands, as far as the observed `rows` (by table) tell.

    `steered_until`: when the last publisher's lease ended; a request that it had under way is over
    `namespaceBundleUnloadingTimeoutMs` later. `lag`: how old the observed ownership may be.
    """
    told = []
    is_over = steered_until is None or observed_at - lag > steered_until + LONGEST_REQUEST
    for act in acts:
        if not is_open(act):
            continue
        is_expired = observed_at > datetime.fromisoformat(act["expires_at"])
        is_last = is_over or not lag
        found = outcome_of(act, look_of(act, rows), is_last=is_last, is_over=is_over, is_expired=is_expired)
        if found is not None and found[0] not in OPEN:  # that it is still not known is no news
            told.append(Outcome(act["command_id"], found[0], observed_at, f"seen by the next cycle: {found[1]}"))
    return told


def look_of(act: Row, rows: Mapping[str, Sequence[Row]]) -> Look:
    """What the snapshot shows of a command's bundle."""
    namespace = namespace_of(act["bundle"])
    bounds = [row["boundaries"] for row in rows["namespace_bundles"] if row["namespace"] == namespace]
    silent = {row["broker"] for row in rows["broker_reports"] if row["is_listed"] and row["owned_bundles"] is None}
    owners = {row["broker"] for row in rows["bundle_ownership"] if row["bundle"] == act["bundle"] and row["is_owned"]}
    boundaries = tuple(sorted(decode_number(text) for text in bounds[0])) if bounds else None
    return Look(boundaries, frozenset(owners), frozenset(silent))
