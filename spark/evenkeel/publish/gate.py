"""The gate for sending, and the outbox.

Rules over facts gate sending: the newest cycle, pauses, approvals, and commands already sent. Commands are recorded
before they are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import RECORDING, ClusterCycle, Handover, Write
from evenkeel.lake.controls import APPROVED, WITHOUT_SPLITS, answers, paused
from evenkeel.lake.outbox import OPEN, SENT, is_steered, on_record
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import recent_acts
from evenkeel.lake.wishes import read_taken
from evenkeel.publish.dispatch import ClusterCommands, Gate, GateReasons, OutcomeRecorder, Sending, send_all
from evenkeel.publish.guards.situation import is_part_of
from evenkeel.settings import settings_in
from evenkeel.spark.sql import iso, moment, with_moments
from evenkeel.steering.admin_request import WITH_ARTICLE
from evenkeel.steering.outcome import Outcome, not_sent, rehearsed
from evenkeel.times import borne_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)
DRY_RUN = "dry_run"


@dataclass(frozen=True, slots=True)
class GateFacts:
    """Facts that gate sending one cluster's plan.

    `newest_at`: the newest recorded cycle that counts (`_newest`). `sent_plans`: plans of this same cycle of which a
    command was or may have been sent. `requested_at`: another cycle with a request of this plan, of which a command was
    or may have been sent. `max_age`: how old the cycle may be. `ahead`: how far the cycle is ahead of the
    publisher's clock.
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
    requested_at: datetime | None = None
    paused: str | None = None
    unreachable: str | None = None
    answers: tuple[Mapping[str, Any], ...] = field(default=())


def longest_age(cycle: ClusterCycle) -> timedelta:
    """Return how old a cycle may be when its commands are sent (evenkeelMaxReportAgeSeconds); it also limits
    approvals."""
    return timedelta(seconds=settings_in(cycle.settings).evenkeelMaxReportAgeSeconds)


def why_withheld(facts: GateFacts) -> str | None:
    """Return why no command of this plan may be sent, in a sentence; None if they may (or wait for an approval)."""
    return next((reason for reason in _reasons(facts) if reason is not None), None)


def _reasons(facts: GateFacts) -> Iterable[str | None]:
    age = facts.now - facts.cycle_at
    yield "a backfill decides anew what was, and never sends a command" if facts.kind == "backfill" else None
    yield facts.unreachable
    newest = facts.newest_at
    if newest is not None and newest > facts.cycle_at:
        yield f"a newer cycle is on record ({newest.isoformat()}): its view of the cluster counts"
    if age > facts.max_age:
        yield (
            f"the cycle is {_text(age)} old, and its figures count for {_text(facts.max_age)} "
            "(evenkeelMaxReportAgeSeconds): the next cycle decides on new ones"
        )
    if -age > facts.ahead:
        yield (
            f"the cycle lies {_text(-age)} ahead of this machine's clock, more than the {_text(facts.ahead)} that are "
            "let pass (evenkeelFutureToleranceSeconds): set the clock, or wait"
        )
    others = sorted(facts.sent_plans - {facts.plan_id})
    if others:
        yield f"commands of another plan of this cycle went out ({others[0][:12]}): a cycle sends one plan only"
    if facts.requested_at is not None:
        yield (
            f"the cycle of {facts.requested_at.isoformat()} took up a request of this plan, and commands of it went "
            "out: a request is carried out once, and the next cycle decides without it"
        )
    yield facts.paused
    yield _rejected(facts)


def _rejected(facts: GateFacts) -> str | None:
    answer = _last_answer(facts)
    if answer is None or answer["answer"] in _CONSENTS:
        return None
    return f"{answer['by']} rejected the plan at {answer['at'].isoformat()}{_note(answer)}"


def why_without_splits(facts: GateFacts) -> str | None:
    """Return why no command that splits, or depends on a split, may be sent, in a sentence; None if they may."""
    answer = _last_answer(facts)
    if answer is None or answer["answer"] != WITHOUT_SPLITS:
        return None
    return f"{answer['by']} approved the plan without its splits at {answer['at'].isoformat()}{_note(answer)}"


def gate_reasons(facts_of: Mapping[str, GateFacts]) -> GateReasons:
    """Return the reasons against sending these clusters' plans."""
    withheld = {cluster: why for cluster, facts in facts_of.items() if (why := why_withheld(facts)) is not None}
    splits = {cluster: why for cluster, facts in facts_of.items() if (why := why_without_splits(facts)) is not None}
    return GateReasons(withheld, splits)


def _note(answer: Mapping[str, Any]) -> str:
    return f": {answer['note']}" if answer["note"] else ""


def is_approved(facts: GateFacts) -> bool:
    """Return True if the plan may be sent as far as operators are concerned, with its splits or without: this very
    plan, by the last answer to it."""
    if facts.mode != "approve":
        return True
    answer = _last_answer(facts)
    return answer is not None and answer["answer"] in _CONSENTS


_CONSENTS = (APPROVED, WITHOUT_SPLITS)
"""The answers by which something goes out, that which sends more first."""


def _last_answer(facts: GateFacts) -> Mapping[str, Any] | None:
    """Return the last answer; of two answers of one moment the one that sends less."""
    answers = [answer for answer in facts.answers if answer["plan_id"] == facts.plan_id]
    return max(answers, key=lambda answer: (answer["at"], _caution(answer["answer"])), default=None)


def _caution(answer: str) -> int:
    return _CONSENTS.index(answer) if answer in _CONSENTS else len(_CONSENTS)


def on_splits(commands: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of a plan's commands that split, or that are for a bundle which a split of the plan makes.

    `commands`: all commands of the plan for one cluster. A bundle inside a larger one does not exist beside it: so the
    larger one's split makes it.
    """
    split = [command["bundle"] for command in commands if command["kind"] == SPLIT]
    return frozenset(
        command["command_id"]
        for command in commands
        if command["kind"] == SPLIT or any(is_part_of(command["bundle"], whole) for whole in split)
    )


def _text(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def gate_facts(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    plans: Mapping[str, str],
    sending: Sending | None,
    now: datetime,
) -> dict[str, GateFacts]:
    """Cluster -> the facts of its plan, for every cluster of `plans` (cluster -> plan id)."""
    clusters = sorted(plans)
    cycles = [cycle for cycle in handover.open_cycles() if cycle.cluster in plans]
    own = {cycle.cluster: cycle.at for cycle in cycles}
    pauses = paused(lake, clusters)
    observed = {cycle.cluster for cycle in handover.open_cycles() if cycle.source != RECORDING}
    newest = _newest(spark, lake, own, observed)
    rivals = _rivals(spark, lake, cycles, observed)
    moments = {*own.values(), *(at for ats in rivals.values() for at in ats)}
    acts = recent_acts(lake, clusters, since=min(moments), until=max(moments))
    replies = answers(lake, sorted(plans.values()))
    sent = [act for act in acts if act["mode"] != DRY_RUN and (act["outcome"] is None or act["outcome"] in SENT)]
    facts = {}
    for cycle in cycles:
        settings = settings_in(cycle.settings)
        halted = sending.halted(cycle.cluster) if sending is not None else None
        sent_at = {
            at: {act["plan_id"] for act in sent if (act["cluster"], act["cycle_at"]) == (cycle.cluster, at)}
            for at in (cycle.at, *rivals.get(cycle.cluster, ()))
        }
        facts[cycle.cluster] = GateFacts(
            cycle_at=cycle.at,
            plan_id=plans[cycle.cluster],
            kind=handover.run.kind,
            mode=handover.run.mode,
            now=now,
            newest_at=newest.get(cycle.cluster),
            max_age=longest_age(cycle),
            ahead=timedelta(seconds=settings.evenkeelFutureToleranceSeconds),
            sent_plans=frozenset(sent_at[cycle.at]),
            requested_at=max((at for at in sent_at if at != cycle.at and sent_at[at]), default=None),
            paused=pauses.get(cycle.cluster) or halted,
            unreachable=_unreachable(cycle, sending),
            answers=tuple(reply for reply in replies if reply["cluster"] == cycle.cluster),
        )
    return facts


def _rivals(
    spark: SparkSession, lake: Lake, cycles: Sequence[ClusterCycle], observed: Collection[str]
) -> dict[str, set[datetime]]:
    """Return cluster -> other recorded cycles that took up a request of its cycle.

    Two pipelines may open before either publishes, and take up the same requests. A plan is on record before its
    commands, and those before they are sent; so of two plans the one that asks later sees the other's.
    """
    requests = {
        cycle.cluster: (cycle.cycle_at, {wish["wish_id"] for wish in cycle.wishes if wish["kind"] in WITH_ARTICLE})
        for cycle in cycles
    }
    rivals: dict[str, set[datetime]] = {}
    if any(wish_ids for _, wish_ids in requests.values()):
        for attempt in read_taken(spark, lake, [cycle.key for cycle in cycles], observed):
            cycle_at, wish_ids = requests[attempt.cluster]
            if attempt.cycle_at != cycle_at and not wish_ids.isdisjoint(attempt.wish_ids):
                rivals.setdefault(attempt.cluster, set()).add(datetime.fromisoformat(attempt.cycle_at))
    return rivals


def _newest(
    spark: SparkSession, lake: Lake, own: Mapping[str, datetime], observed: Collection[str]
) -> dict[str, datetime]:
    """Return the newest recorded cycle of each cluster from its `own` on, without backfills.

    A cycle that a wrong clock dated far ahead does not count, and is logged (`times.borne_out`): else every later plan
    would be overtaken by it. Of running clusters that are `observed`, cycles over a recording do not count: a
    recording's maker chose its time and its cluster name.
    """
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(lake.path("cycles")).where(F.col("cluster").isin(sorted(own)))
    rows = rows.where(F.col("cycle_at") >= moment(min(own.values()).isoformat()))
    rows = rows.where(F.col("kind") != "backfill")
    if observed:
        rows = rows.where(~(F.col("cluster").isin(sorted(observed)) & F.col("source").eqNullSafe(F.lit(RECORDING))))
    # The ends of a date tell how far its cycles go on, and there may be years of dates.
    ends = rows.groupBy("cluster", F.to_date("cycle_at")).agg(
        F.min("cycle_at").alias("a"), F.max("cycle_at").alias("b")
    )
    moments = {cluster: [at] for cluster, at in own.items()}
    for row in ends.select("cluster", iso("a").alias("a"), iso("b").alias("b")).collect():
        ats = (datetime.fromisoformat(row[end]) for end in ("a", "b"))
        moments[row["cluster"]] += [at for at in ats if at >= own[row["cluster"]]]
    newest = {}
    for cluster, recorded in moments.items():
        newest[cluster] = borne_out(recorded) or own[cluster]
        if (last := max(recorded)) > newest[cluster]:
            ahead = "lies more than a day ahead of those before it, and is not the newest until a day of cycles follows"
            log.warning("%s: the cycle of %s %s. Check the clock that dated it", cluster, last.isoformat(), ahead)
    return newest


def _unreachable(cycle: ClusterCycle, sending: Sending | None) -> str | None:
    if is_steered(cycle) and sending is not None:
        return None
    return (
        f"no admin URL is configured for {cycle.cluster}: it is observed only. Name its brokers under `admin` in the "
        "configuration file to steer it, or the queues of an agent under `queue` and `reports`"
    )


Row = Mapping[str, Any]


@dataclass(frozen=True)
class SendingResult:
    """Results of sending a run's commands.

    `why`: cluster -> why its commands were not all sent; `withheld`: clusters of which none was sent. `unfinished`:
    clusters that another publisher or the next try continues. `error`: an unforeseen one, to be raised when all is
    recorded.
    """

    writes: tuple[Write, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    unfinished: frozenset[str] = frozenset()
    error: Exception | None = None


def put_out(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    commands: DataFrame,
    clusters: Sequence[str],
    begun: frozenset[str],
    found: GateReasons,
    sending: Sending | None,
    gate: Gate,
) -> SendingResult:
    """Record the clusters' commands and give them to their sink; clusters that `found` withholds get no sink.

    `gate` is checked again after every wait: for a lease, and for requests of an earlier try to end. Commands recorded
    by a killed try are not repeated; only clusters whose attempt has `begun`, with its plan recorded, can have any.
    """
    from pyspark.sql import functions as F

    withheld = found.withheld
    asked = commands.where(F.col("cluster").isin(list(clusters))).orderBy("cluster", "step")
    rows = with_moments(asked, ("cycle_at", "expires_at"))
    tried = [row["command_id"] for row in rows if row["cluster"] in begun]
    recorded = on_record(spark, lake, "commands", sorted(begun), tried, ("command_id",))
    missing = asked.where(~F.col("command_id").isin(sorted(row["command_id"] for row in recorded)))
    records = OutcomeRecorder(spark, lake, handover, sending, gate)
    records.own(lake.append(spark, {"commands": missing}, handover=handover, task="publish"))
    seen = on_record(spark, lake, "outcomes", sorted(begun), tried, ("command_id", "outcome"))
    final = {row["command_id"] for row in seen if row["outcome"] not in OPEN}
    left = [row for row in rows if row["command_id"] not in final]
    records.know(rows)
    records.without_splits = found.without_splits
    resting = {cluster: on_splits(rows_of(rows, cluster)) for cluster in clusters}
    records.write([*_without_sending(left, handover.run.mode, withheld)])
    going = [row for row in left if handover.run.mode != DRY_RUN and row["cluster"] not in withheld]
    done = send_all(records, _batches(handover, going, resting), sending) if going and sending is not None else {}
    stopped = {cluster: result.stopped for cluster, result in done.items() if result.stopped is not None}
    parted = {cluster: why for cluster, why in records.without_splits.items() if resting.get(cluster)}
    # A plan of splits alone had nothing to send.
    alone = {cluster: parted[cluster] for cluster in parted if len(resting[cluster]) == len(rows_of(rows, cluster))}
    stopped = {**alone, **stopped}
    unfinished = frozenset(cluster for cluster, result in done.items() if result.is_lost or result.error is not None)
    errors = [result.error for result in done.values() if result.error is not None]
    sent = records.sent | {row["command_id"] for row in seen if row["outcome"] in SENT}
    out = {row["cluster"] for row in rows if row["command_id"] in sent}
    return SendingResult(
        writes=tuple(records.writes),
        why={**parted, **withheld, **stopped},
        withheld=frozenset(withheld) | (frozenset(stopped) - out - unfinished),
        unfinished=unfinished,
        error=errors[0] if errors else None,
    )


def rows_of(rows: Iterable[Row], cluster: str) -> list[Row]:
    """The commands of one cluster."""
    return [row for row in rows if row["cluster"] == cluster]


def _without_sending(rows: Sequence[Row], mode: str, withheld: Mapping[str, str]) -> list[Outcome]:
    """Return outcomes of commands that are not sent: all of a dry run, and withheld ones."""
    if mode == DRY_RUN:
        return rehearsed(rows)
    now = datetime.now(UTC)
    held = [row for row in rows if row["cluster"] in withheld]
    return [not_sent(row["command_id"], now, withheld[row["cluster"]]) for row in held]


def _batches(handover: Handover, rows: Sequence[Row], resting: Mapping[str, frozenset[str]]) -> list[ClusterCommands]:
    batches = [
        ClusterCommands(cycle, rows_of(rows, cycle.cluster), on_splits=resting.get(cycle.cluster, frozenset()))
        for cycle in handover.open_cycles()
    ]
    return [batch for batch in batches if batch.commands]
