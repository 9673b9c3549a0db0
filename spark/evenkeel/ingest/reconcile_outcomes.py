"""Open outcomes, settled by the next snapshot.

A publisher looks for the effect of a command for some seconds only, and may die before it sees it. Then the next cycle
reads the outcome from the brokers' reported ownership and from the boundaries in force. Modular brokers report
ownership in their load reports, which may be a stats period old (`statsUpdateFrequencyInSecs`): until then they only
prove that the bundle has reached its destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel.handover import ClusterCycle
from evenkeel.lake.outbox import OPEN, as_known_at, is_open
from evenkeel.model.bundles import decode_number, namespace_of
from evenkeel.steering.outcome import LONGEST_REQUEST_S, Outcome, outcome_of
from evenkeel.steering.premise import Look

LONGEST_REQUEST = timedelta(seconds=LONGEST_REQUEST_S)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """A cluster's acts as this cycle knows them, and rows of `outcomes` that are not on record yet."""

    acts: tuple[dict[str, Any], ...]
    outcomes: tuple[dict[str, Any], ...]


def settled(
    cycle: ClusterCycle, rows: Mapping[str, Sequence[Row]], observed_at: datetime, *, lag: timedelta = timedelta(0)
) -> Settled:
    """Return the acts of the day before, with the open ones judged by the observed rows.

    `lag`: how old the observed ownership may be.
    """
    known = as_known_at(cycle.acts, observed_at)
    ended = None if cycle.steered_until is None else datetime.fromisoformat(cycle.steered_until)
    by_command = {
        outcome.command_id: outcome
        for outcome in settle(known, rows, observed_at=observed_at, steered_until=ended, lag=lag)
    }
    acts = tuple(
        {**act, "outcome": outcome.outcome, "detail": outcome.detail, "seen_at": outcome.seen_at.isoformat()}
        if (outcome := by_command.get(act["command_id"])) is not None
        else act
        for act in known
    )
    # A re-run comes to the same outcome, and finds it on record.
    open_on_record = {act["command_id"]: act for act in cycle.acts if is_open(act)}
    outcomes = tuple(
        {
            "cluster": cycle.cluster,
            "cycle_at": datetime.fromisoformat(open_on_record[outcome.command_id]["cycle_at"]),
            "command_id": outcome.command_id,
            "outcome": outcome.outcome,
            "seen_at": outcome.seen_at,
            "detail": outcome.detail,
        }
        for outcome in by_command.values()
        if outcome.command_id in open_on_record
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
    """Return the outcomes of the open commands, as far as the observed `rows` (by table) show them.

    `steered_until`: the end of the last publisher's lease; a request that it had under way is over
    `namespaceBundleUnloadingTimeoutMs` later. `lag`: how old the observed ownership may be.
    """
    outcomes = []
    is_over = steered_until is None or observed_at - lag > steered_until + LONGEST_REQUEST
    for act in acts:
        if not is_open(act):
            continue
        is_expired = observed_at > datetime.fromisoformat(act["expires_at"])
        is_last = is_over or not lag
        seen = outcome_of(act, look_of(act, rows), is_last=is_last, is_over=is_over, is_expired=is_expired)
        if seen is not None and seen[0] not in OPEN:  # an outcome that is still unknown is not recorded again
            outcomes.append(Outcome(act["command_id"], seen[0], observed_at, f"seen by the next cycle: {seen[1]}"))
    return outcomes


def look_of(act: Row, rows: Mapping[str, Sequence[Row]]) -> Look:
    """Return the snapshot's state of a command's bundle."""
    namespace = namespace_of(act["bundle"])
    bounds = [row["boundaries"] for row in rows["namespace_bundles"] if row["namespace"] == namespace]
    silent = {row["broker"] for row in rows["broker_reports"] if row["is_listed"] and row["owned_bundles"] is None}
    owners = {row["broker"] for row in rows["bundle_ownership"] if row["bundle"] == act["bundle"] and row["is_owned"]}
    boundaries = tuple(sorted(decode_number(text) for text in bounds[0])) if bounds else None
    return Look(boundaries, frozenset(owners), frozenset(silent))
