"""Ingest: the raw snapshot of each cycle becomes observed rows.

Reads: the landed snapshot of every open cycle, and of the earlier one that lends it configuration and topic lists; one
that lends to many cycles is read once.
Writes: broker_reports, topic_stats, namespace_bundles, bundle_ownership, cluster_policies, raw_answers, settings,
rejected, and resource_quotas where a bundle has one. The hand-over gets each cycle's settings and load manager.
Skips: a cycle whose snapshot cannot be read, contradicts itself, or in which no broker gave its figures; what can be
read of it is written all the same, and the reason stands in `rejected`.
Fails when: the lake cannot be written, or the Spark server does not see the snapshots.

Small answers are collected and read in this process: warm, 0.4 s where a grouped map that does nothing took 1.1 s. In a
window, too: a snapshot of 3 brokers, 100 bundles and 300 topics takes 3 ms, so a day of them less than a second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput
from evenkeel.handover import FAILED, SKIPPED, CycleKey, Handover
from evenkeel.ingest.ingest_frames import (
    SmallRows,
    body_frame,
    raw_answers,
    read_figures,
    refused_topics,
    settings_frame,
    topic_frames,
)
from evenkeel.ingest.reconcile_outcomes import Settled, settled
from evenkeel.ingest.snapshot_intake import (
    KnownSnapshots,
    SettingsInForce,
    SnapshotIntake,
    leave_out_the_largest,
    leave_out_topics,
    look_at,
    mark_unreadable_figures,
    opened,
)
from evenkeel.lake.store import Lake
from evenkeel.pulsar.limits import Limits
from evenkeel.pulsar.quotas import QUOTAS
from evenkeel.sources.collected import SnapshotAnswers, collect_answers, together
from evenkeel.sources.landed import Landed, requests_of_snapshots, set_apart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SMALL_TABLES = ("broker_reports", "namespace_bundles", "bundle_ownership", "cluster_policies")


_PIECE = 4
"""In a window rows leave this process as soon as they take this part of what they may (`run_mib`)."""


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Takes in the snapshots of all open cycles and hands on what was written; see the module's text."""
    known = KnownSnapshots()
    intakes = [opened(cycle, known) for cycle in handover.open_cycles()]
    readable = [intake for intake in intakes if intake.own is not None]
    small, told = SmallRows(spark, (*_SMALL_TABLES, QUOTAS)), _Told()
    frames = _frames(spark, readable, small, told, in_pieces=handover.is_window()) if readable else {}
    handover = _remembering(handover, told, frames, spark)
    topics = frames.pop("rejected", None)
    frames |= small.frames(intakes, always=_SMALL_TABLES if readable else ())
    if topics is not None:
        frames["rejected"] = topics.unionByName(frames["rejected"]) if "rejected" in frames else topics
    settled = _settled(handover, intakes)
    return settled.with_writes(Lake(handover.lake).append(spark, frames, handover=settled, task="ingest"))


class _Told:
    """What became of commands that are still open, by what each cycle's snapshot shows."""

    def __init__(self) -> None:
        self.of: dict[CycleKey, Settled] = {}

    def look(self, intakes: Iterable[SnapshotIntake]) -> None:
        """Looks at the rows of intakes, which must be at hand."""
        for one in intakes:
            if one.cycle.acts and one.observed is not None and one.own is not None:
                lag = _lag_of_ownership(one)
                self.of[one.key] = settled(one.cycle, one.observed.rows, one.own.header.finished_at, lag=lag)


def _lag_of_ownership(intake: SnapshotIntake) -> timedelta:
    """How much older than the snapshot's end ownership may be: nothing where brokers listed what they own."""
    if intake.observed is None or intake.own is None or intake.settings is None:
        return timedelta(0)
    claims = intake.observed.rows["bundle_ownership"]
    if all(claim["is_active"] is not None for claim in claims if claim["is_owned"]):
        return timedelta(0)
    took = intake.own.header.finished_at - intake.own.header.started_at
    return took + timedelta(seconds=intake.settings.settings.statsUpdateFrequencyInSecs)


def _remembering(handover: Handover, told: _Told, frames: dict[str, DataFrame], spark: SparkSession) -> Handover:
    """The hand-over with what became of commands. A run of one cycle of each cluster also puts it on record: of past
    cycles, of which a window is made, nothing is told anew."""
    outcomes = [row for one in told.of.values() for row in one.outcomes]
    if outcomes and handover.run.kind != "backfill" and not handover.is_window():
        frames["outcomes"] = body_frame(spark, "outcomes", outcomes)
    return handover.with_cycles(
        replace(cycle, acts=told.of[cycle.key].acts) if cycle.key in told.of else cycle for cycle in handover.cycles
    )


def _frames(
    spark: SparkSession, intakes: Sequence[SnapshotIntake], small: SmallRows, told: _Told, *, in_pieces: bool
) -> dict[str, DataFrame]:
    """The frames to append, of cycles whose snapshot can be read; the judgement on each goes into its intake."""
    snapshots = _number(intakes)
    requests = requests_of_snapshots(spark, list(snapshots.values()))
    apart = seen_by_the_server(requests)
    with ThreadPoolExecutor(1) as pool:  # the server reads topics while this process reads the small answers
        reading = pool.submit(read_figures, requests, intakes)
        _take_in(apart, intakes, small, told, in_pieces=in_pieces)
        topics = topic_frames(reading.result(), apart, intakes)
    by_key = {intake.key: intake for intake in intakes}
    for key, count in topics.too_many.items():
        leave_out_topics(by_key[key], count)
    for key, marks in topics.unreadable.items():
        mark_unreadable_figures(by_key[key], {broker for _, broker in marks})
    frames = {
        "topic_stats": topics.topic_stats,
        "raw_answers": raw_answers(requests, apart, intakes, topics.unreadable),
        "settings": settings_frame(spark, intakes),
    }
    if topics.refused is not None:
        files = {number: str(landed.path) for number, landed in enumerate(snapshots.values())}
        frames["rejected"] = refused_topics(topics.refused, files)
    return frames


def _number(intakes: Iterable[SnapshotIntake]) -> dict[tuple[Path, Limits], Landed]:
    """The snapshots to read, each once and what lends before those that borrow; intakes get their numbers."""
    found: dict[tuple[Path, Limits], Landed] = {}
    numbers: dict[tuple[Path, Limits], int] = {}

    def number(landed: Landed, limits: Limits) -> int:
        key = (landed.path, limits)
        found.setdefault(key, landed)
        return numbers.setdefault(key, len(numbers))

    for intake in intakes:
        assert intake.own is not None
        if intake.lent is not None:
            intake.lent_number = number(intake.lent, intake.limits)
        intake.own_number = number(intake.own, intake.limits)
    return found


def seen_by_the_server(requests: DataFrame) -> DataFrame:
    """The requests as Spark read them, topic figures set apart."""
    from pyspark.errors import AnalysisException

    try:
        return set_apart(requests)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        found = str(error).splitlines()[0]
        raise BadInput(
            f"the Spark server does not see the snapshot that this task sees ({found}): land it where both can read"
        ) from None


def _take_in(
    apart: DataFrame, intakes: Sequence[SnapshotIntake], small: SmallRows, told: _Told, *, in_pieces: bool
) -> None:
    """Reads the small answers of all cycles, each as soon as those of its snapshots are here."""
    limits: dict[int, Limits] = {}
    uses: Counter[int] = Counter()
    ready: dict[int, list[SnapshotIntake]] = defaultdict(list)
    for intake in intakes:
        ready[max(_numbers(intake))].append(intake)
        uses.update(_numbers(intake))
        limits |= dict.fromkeys(_numbers(intake), intake.limits)
    in_force, here, held = SettingsInForce(), dict[int, SnapshotAnswers](), list[SnapshotIntake]()
    for number, found in collect_answers(apart, limits, at_once=len(intakes) == 1):
        here[number] = found
        del found  # before the next one's come
        for intake in ready[number]:
            lent = None if intake.lent_number is None else here[intake.lent_number]
            look_at(intake, together(here[intake.own_number], lent, intake.limits), in_force)
            held.append(intake)
            leave_out_the_largest([intake] if in_pieces else held)
        for user in ready.pop(number):
            for one in _numbers(user):
                uses[one] -= 1
                if not uses[one]:
                    del here[one]
        if in_pieces and held and sum(one.held for one in held) > held[-1].limits.bytes_of("run_mib") // _PIECE:
            told.look(held)
            small.send(held)
            held.clear()
    told.look(held)


def _numbers(intake: SnapshotIntake) -> set[int]:
    return {intake.own_number} if intake.lent_number is None else {intake.own_number, intake.lent_number}


def _settled(handover: Handover, intakes: list[SnapshotIntake]) -> Handover:
    """The hand-over with each cycle's settings and manager, and without those that cannot be decided on."""
    found = {intake.key: intake for intake in intakes}
    texts = {id(one.settings): one.settings.to_json() for one in _distinct(intakes) if one.settings is not None}
    cycles = [
        replace(
            cycle,
            settings=texts[id(intake.settings)] if intake.settings is not None else None,
            settings_digest=intake.settings.digest if intake.settings is not None else None,
            manager=intake.manager,
        )
        if (intake := found.get(cycle.key)) is not None
        else cycle
        for cycle in handover.cycles
    ]
    settled = handover.with_cycles(cycles)
    for status, failed in ((FAILED, True), (SKIPPED, False)):
        reasons = {i.key: i.left_out for i in intakes if i.left_out is not None and i.failed is failed}
        settled = settled.leave_out(reasons, status=status)
    return settled


def _distinct(intakes: Iterable[SnapshotIntake]) -> Iterable[SnapshotIntake]:
    """One intake for each of the settings in force."""
    return {id(intake.settings): intake for intake in intakes}.values()
