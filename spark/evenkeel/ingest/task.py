"""Ingest: the raw snapshot of each cycle becomes observed rows.

Reads: the landed snapshot of every open cycle, and of the earlier one that lends it configuration and topic lists; one
that lends to many cycles is read once.
Writes: broker_reports, topic_stats, namespace_bundles, bundle_ownership, cluster_policies, raw_answers, settings,
rejected, and resource_quotas if a bundle has one. The hand-over gets each cycle's settings and load manager.
Skips: a cycle whose snapshot cannot be read, contradicts itself, or in which no broker gave its figures. Its readable
rows are still written, and the reason is in `rejected`.
Fails when: the lake cannot be written, or the Spark server does not see the snapshots.

Each snapshot is read once in this process, which takes the small answers and passes over the long ones: figures and
lists of topics. Spark reads those from the files. A snapshot of 3 brokers, 100 bundles and 300 topics takes 3 ms.

Open outcomes are settled by the next snapshot. A publisher looks for the effect of a command for some seconds only, and
may die before it sees it. Then the next cycle reads the outcome from the brokers' reported ownership and from the
boundaries in force. Modular brokers report ownership in their load reports, which may be a stats period old
(`statsUpdateFrequencyInSecs`): until then they only prove that the bundle has reached its destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import FAILED, SKIPPED, ClusterCycle, CycleKey, Handover
from evenkeel.ingest.ingest_frames import (
    RAW,
    SmallRows,
    body_frame,
    raw_answers,
    refused_topics,
    settings_frame,
    topic_frames,
)
from evenkeel.ingest.isolation_matches import Known, add_matches
from evenkeel.ingest.snapshot_intake import (
    SettingsInForce,
    SnapshotIntake,
    leave_out_the_largest,
    leave_out_topics,
    mark_unreadable_figures,
    taken_in,
)
from evenkeel.lake.outbox import OPEN, as_known_at, is_open
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import decode_number, namespace_of
from evenkeel.pulsar.quotas import QUOTAS
from evenkeel.sources.landed_answers import LongAnswers, SnapshotsOfRun
from evenkeel.steering.outcome import LONGEST_REQUEST_S, Observation, Outcome, outcome_of
from evenkeel.steering.premise import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SMALL_TABLES = ("broker_reports", "namespace_bundles", "bundle_ownership", "cluster_policies")


_PIECE = 4
"""In a window rows leave this process as soon as they take this part of their limit (`run_mib`)."""


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Take in the snapshots of all open cycles and return the hand-over with the writes; see the module's text."""
    small, outcomes = SmallRows(spark, (*_SMALL_TABLES, QUOTAS, RAW)), _Outcomes()
    intakes = _taken_in(spark, handover, small, outcomes)
    frames = _frames(spark, intakes, small)
    handover = _remembering(handover, outcomes, frames, spark)
    settled = _settled(handover, intakes)
    return settled.with_writes(Lake(handover.lake).append(spark, frames, handover=settled, task="ingest"))


def _taken_in(spark: SparkSession, handover: Handover, small: SmallRows, outcomes: _Outcomes) -> list[SnapshotIntake]:
    """Read the snapshots of all open cycles. In a window rows are sent on as they come."""
    cycles, in_pieces = handover.open_cycles(), handover.is_window()
    snapshots, in_force, matches = SnapshotsOfRun(cycles), SettingsInForce(), Known()
    intakes: list[SnapshotIntake] = []
    held: list[SnapshotIntake] = []
    for cycle in cycles:
        intake = taken_in(cycle, snapshots, in_force)
        intakes.append(intake)
        held.append(intake)
        leave_out_the_largest([intake] if in_pieces else held)
        if in_pieces and sum(intake_held.held for intake_held in held) > intake.limits.bytes_of("run_mib") // _PIECE:
            _look(held, outcomes)
            add_matches(spark, held, matches)
            small.send(held)
            held.clear()
    _look(held, outcomes)
    add_matches(spark, held, matches)
    return intakes


def _look(intakes: Iterable[SnapshotIntake], outcomes: _Outcomes) -> None:
    """Add the outcomes of commands that are still open by these intakes, whose rows must be in memory."""
    for intake in intakes:
        if intake.cycle.acts and intake.observed is not None and intake.own is not None:
            ended = intake.own.header.finished_at
            outcomes[intake.key] = settled(intake.cycle, intake.observed.rows, ended, lag=_lag_of_ownership(intake))


def _lag_of_ownership(intake: SnapshotIntake) -> timedelta:
    """Return how much older than the snapshot's end ownership may be: zero if brokers listed their bundles."""
    if intake.observed is None or intake.own is None or intake.settings is None:
        return timedelta(0)
    claims = intake.observed.rows["bundle_ownership"]
    if all(claim["is_active"] is not None for claim in claims if claim["is_owned"]):
        return timedelta(0)
    took = intake.own.header.finished_at - intake.own.header.started_at
    return took + timedelta(seconds=intake.settings.settings.statsUpdateFrequencyInSecs)


def _remembering(
    handover: Handover, known: Mapping[CycleKey, Settled], frames: dict[str, DataFrame], spark: SparkSession
) -> Handover:
    """Return the hand-over with the outcomes of commands.

    A run of one cycle of each cluster also records them. The past cycles of a window record none again.
    """
    outcomes = [row for settled in known.values() for row in settled.outcomes]
    if outcomes and handover.run.kind != "backfill" and not handover.is_window():
        frames["outcomes"] = body_frame(spark, "outcomes", outcomes)
    return handover.with_cycles(
        replace(cycle, acts=known[cycle.key].acts) if cycle.key in known else cycle for cycle in handover.cycles
    )


def _frames(spark: SparkSession, intakes: Sequence[SnapshotIntake], small: SmallRows) -> dict[str, DataFrame]:
    """Return the frames to append; results from long answers go into the intakes."""
    readable = [intake for intake in intakes if intake.own is not None]
    if not readable:
        return small.frames(intakes, always=())
    landed = (each for intake in readable for each in (intake.own, intake.lent))
    long = LongAnswers(spark, (each.path for each in landed if each is not None))
    topics = topic_frames(long, readable)
    by_key = {intake.key: intake for intake in readable}
    for key, count in topics.too_many.items():
        leave_out_topics(by_key[key], count)
    for key, marks in topics.unreadable.items():
        mark_unreadable_figures(by_key[key], {broker for _, broker in marks})
    frames = small.frames(intakes, always=_SMALL_TABLES)
    raw = raw_answers(long, frames.get(RAW), readable, topics.unreadable)
    frames |= {"topic_stats": topics.topic_stats, RAW: raw, "settings": settings_frame(spark, readable)}
    if topics.refused is not None:
        refused = refused_topics(topics.refused, long)
        frames["rejected"] = refused.unionByName(frames["rejected"]) if "rejected" in frames else refused
    return frames


def _settled(handover: Handover, intakes: list[SnapshotIntake]) -> Handover:
    """Return the hand-over with each cycle's settings and manager, and without those that cannot be decided on."""
    by_key = {intake.key: intake for intake in intakes}
    texts = {
        id(distinct.settings): distinct.settings.to_json()
        for distinct in {id(intake.settings): intake for intake in intakes}.values()
        if distinct.settings is not None
    }
    cycles = [
        replace(
            cycle,
            settings=texts[id(intake.settings)] if intake.settings is not None else None,
            settings_digest=intake.settings.digest if intake.settings is not None else None,
            manager=intake.manager,
        )
        if (intake := by_key.get(cycle.key)) is not None
        else cycle
        for cycle in handover.cycles
    ]
    settled = handover.with_cycles(cycles)
    for status, failed in ((FAILED, True), (SKIPPED, False)):
        reasons = {i.key: i.left_out for i in intakes if i.left_out is not None and i.failed is failed}
        settled = settled.leave_out(reasons, status=status)
    return settled


LONGEST_REQUEST = timedelta(seconds=LONGEST_REQUEST_S)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """A cluster's acts as this cycle knows them, and rows of `outcomes` that are not on record yet."""

    acts: tuple[dict[str, Any], ...]
    outcomes: tuple[dict[str, Any], ...]


_Outcomes = dict[CycleKey, Settled]


def settled(
    cycle: ClusterCycle, rows: Mapping[str, Sequence[Row]], observed_at: datetime, *, lag: timedelta = timedelta(0)
) -> Settled:
    """Return the acts of the day before, with the open ones judged as far as the observed `rows` (by table) show them.

    `lag`: how old the observed ownership may be. A request that the last publisher had under way at the end of its
    lease is over `namespaceBundleUnloadingTimeoutMs` later.
    """
    ended = None if cycle.steered_until is None else datetime.fromisoformat(cycle.steered_until)
    is_over = ended is None or observed_at - lag > ended + LONGEST_REQUEST
    # A re-run comes to the same outcome, and finds it on record.
    open_on_record = {act["command_id"] for act in cycle.acts if is_open(act)}
    acts: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    for act in as_known_at(cycle.acts, observed_at):
        is_expired = observed_at > datetime.fromisoformat(act["expires_at"])
        known = Observation(is_last=is_over or not lag, is_over=is_over, is_expired=is_expired)
        seen = outcome_of(act, look_of(act, rows), known) if is_open(act) else None
        if seen is None or seen[0] in OPEN:  # an outcome that is still unknown is not recorded again
            acts.append(act)
            continue
        outcome = Outcome(act["command_id"], seen[0], observed_at, f"seen by the next cycle: {seen[1]}")
        acts.append({**act, **asdict(outcome), "seen_at": observed_at.isoformat()})
        if outcome.command_id in open_on_record:
            its_cycle = {"cluster": cycle.cluster, "cycle_at": datetime.fromisoformat(act["cycle_at"])}
            outcomes.append({**its_cycle, **asdict(outcome)})
    return Settled(tuple(acts), tuple(outcomes))


def look_of(act: Row, rows: Mapping[str, Sequence[Row]]) -> Look:
    """Return the snapshot's state of a command's bundle."""
    namespace = namespace_of(act["bundle"])
    bounds = [row["boundaries"] for row in rows["namespace_bundles"] if row["namespace"] == namespace]
    silent = {row["broker"] for row in rows["broker_reports"] if row["is_listed"] and row["owned_bundles"] is None}
    owners = {row["broker"] for row in rows["bundle_ownership"] if row["bundle"] == act["bundle"] and row["is_owned"]}
    boundaries = tuple(sorted(decode_number(text) for text in bounds[0])) if bounds else None
    return Look(boundaries, frozenset(owners), frozenset(silent))
