"""Conditions of a cluster that need attention: every kind, defined once, with its rows. Pure.

`KINDS` are in the order of their urgency. A kind judges the rows of one cluster (`StatusRows`) at a moment that is
passed in. It returns one `Attention` with a count, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from evenkeel.explain.wording import age, ended
from evenkeel.handover import RECORDING
from evenkeel.lake.record import Attempt, Row
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.model.amounts import plural
from evenkeel.model.past_commands import BOUNCE_MS

SOLE_BUNDLE_RULES = frozenset({"sole_bundle", "sole_bundle_of_busiest", "sole_top_bundle"})
"""Rules of shedders that refuse to move the only bundle of a broker that is over its limit (`shed.strategies`)."""
TOO_HEAVY_RULE = "bundle_too_heavy"
"""The guard that holds a bundle with too much of the cluster's traffic (`publish.guards.budgets`)."""
AGE_KEY = "evenkeelMaxReportAgeSeconds"
"""The setting with the maximum age of figures for a plan that is sent."""
BROKEN_PROMISES_RULE = "promises_not_kept"
"""The finding of Evenkeel's planner that it is set aside, for its plans brought too little (`planner.findings`)."""
BOUNCE_RULES = frozenset({"returns", "moved_often"})
"""Guards that look at moves back (`publish.guards.bundle_guards`)."""
BOUNCE_SPAN = timedelta(milliseconds=BOUNCE_MS)
"""A move back to an owner of this last while is a bounce, as in replays."""
HARM_SPAN = timedelta(days=1)
"""Harm of commands of this last while is shown, as in a report."""
MISSED_CYCLES = 3
"""So many usual distances between cycles without a new one make a record stale."""
SOONEST_STALE = timedelta(minutes=5)
ALONE_STALE = timedelta(days=1)
"""After so long the record of a cluster with a single cycle is stale."""

BAD, WARN, NOTE = "bad", "warn", "note"


@dataclass(frozen=True, slots=True)
class StatusRows:
    """The recorded rows of one cluster that a line of the status needs.

    `attempts`: those that count, of the newest cycles, oldest first, at least one; manifests may lack columns that are
    not in `gather._LIGHT`. `newest`: the last of them with its writes and pauses. `broker_load`, `unload_decisions`,
    `guard_decisions` and `planner_findings`: rows of the newest cycle with decisions, as far as these rules name them.
    `failed_checks`: of the newest cycle, violated rules of severity quarantine, and those of what is configured.
    `hung`: its rows of `broker_reports` with that state. `harm`: commands that did harm, with the time it was seen and
    its kind. `moves`: unloads of the last hour that were sent, oldest first. `pause`: the row of `controls` that pauses
    the cluster. `answered`: plans that an operator answered. `answer_by`: until when the newest plan may be approved.
    """

    cluster: str
    attempts: Sequence[Attempt]
    newest: Attempt
    broker_load: Sequence[Row] = ()
    unload_decisions: Sequence[Row] = ()
    guard_decisions: Sequence[Row] = ()
    planner_findings: Sequence[Row] = ()
    failed_checks: Sequence[Row] = ()
    hung: Sequence[Row] = ()
    harm: Sequence[Row] = ()
    moves: Sequence[Row] = ()
    pause: Row | None = None
    answered: frozenset[str] = frozenset()
    answer_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs attention.

    `kind`: its name in KINDS; `mood`: bad, warn or note; `count`: number of commands, brokers or bundles; `text`: a
    sentence with names of the cluster in it.
    """

    kind: str
    label: str
    mood: str
    text: str
    count: int = 1


Finding = tuple[str, int]
"""A sentence, and how many it is about."""


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """A kind: its stored name, its label on a page, its mood, the tables that it is read from, and its judgement."""

    name: str
    label: str
    mood: str
    source: str
    meaning: str
    judge: Callable[[StatusRows, datetime], Finding | None]


def attention(rows: StatusRows, now: datetime) -> tuple[Attention, ...]:
    """Everything about the cluster that needs attention, the most urgent first."""
    kinds = KINDS[:1] if is_newer(rows.newest) else KINDS
    judged = ((kind, kind.judge(rows, now)) for kind in kinds)
    return tuple(Attention(kind.name, kind.label, kind.mood, *need) for kind, need in judged if need is not None)


def is_newer(attempt: Attempt) -> bool:
    """Return True if a newer version of Evenkeel wrote the attempt: its rows may have unknown meanings."""
    return attempt.schema_version > SCHEMA_VERSION


def usual_distance(attempts: Sequence[Attempt]) -> timedelta | None:
    """The median distance between the cycles; None of fewer than two."""
    moments = [attempt.cycle_at for attempt in attempts]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    return timedelta(seconds=median(gaps)) if gaps else None


def stale_after(attempts: Sequence[Attempt]) -> timedelta:
    """Return how old the newest of the cycles may be before the record counts as stale."""
    usual = usual_distance(attempts)
    return ALONE_STALE if usual is None else max(MISSED_CYCLES * usual, SOONEST_STALE)


def planned_commands(attempt: Attempt) -> int:
    """Return the number of commands of the attempt's plan, without those that guards hold back."""
    row = attempt.planned
    return int((row["splits"] or 0) + (row["unloads"] or 0) - (row["held"] or 0))


def waits_for_approval(attempt: Attempt) -> bool:
    """Return True if the attempt's plan has commands and waits for an answer."""
    is_open = attempt.mode == "approve" and attempt.closed is None and attempt.status == "planned"
    return is_open and planned_commands(attempt) > 0


def answer_by(attempt: Attempt, settings: Sequence[Row]) -> datetime | None:
    """Return until when the plan may be approved, by the row of AGE_KEY in the attempt's settings.

    No plan is sent on figures that are too old. None if no answer is due, or without such a row.
    """
    if not waits_for_approval(attempt) or not settings:
        return None
    return attempt.cycle_at.astimezone(UTC) + timedelta(seconds=float(settings[0]["value"]))


def _newer(rows: StatusRows, _: datetime) -> Finding | None:
    if not is_newer(rows.newest):
        return None
    return (
        f"Written by a newer version (tables {rows.newest.schema_version}, this version knows {SCHEMA_VERSION}): "
        "update what shows it.",
        1,
    )


def _harm(rows: StatusRows, _: datetime) -> Finding | None:
    if not rows.harm:
        return None
    last = max(rows.harm, key=lambda row: (row["seen_at"], row["command_id"]))
    where = f" to {last['destination']}" if last["destination"] else ""
    text = f"The {last['kind']} of {last['bundle']}{where} did harm: {ended(last['detail'])}"
    return text + _and_more(len(rows.harm), "command"), len(rows.harm)


def _failed(rows: StatusRows, _: datetime) -> Finding | None:
    if rows.newest.status != "failed":
        return None
    return f"The newest cycle failed: {ended(rows.newest.reason or 'no reason is on record')}", 1


def _stale(rows: StatusRows, now: datetime) -> Finding | None:
    since, most = now - rows.newest.cycle_at, stale_after(rows.attempts)
    if since <= most or str(rows.newest.planned.get("source") or "").startswith(RECORDING):
        return None
    usual = usual_distance(rows.attempts)
    often = "" if usual is None else f"; cycles used to come every {age(usual.total_seconds())}"
    return f"No cycle for {age(since.total_seconds())}{often}.", 1


def _waiting(rows: StatusRows, now: datetime) -> Finding | None:
    newest = rows.newest
    if not waits_for_approval(newest) or newest.plan_id in rows.answered:
        return None
    if rows.answer_by is not None and now > rows.answer_by:
        return None
    commands = planned_commands(newest)
    left = "" if rows.answer_by is None else f" for {age((rows.answer_by - now).total_seconds())} more"
    return f"A plan of {plural(commands, 'command')} waits for an answer{left}.", commands


def _bounces(rows: StatusRows, _: datetime) -> Finding | None:
    back = bounces(rows.moves)
    held = [row for row in rows.guard_decisions if row["rule"] in BOUNCE_RULES]
    if back:
        last = back[-1]
        text = f"{last['bundle']} moved back to {last['destination']}, which it had left within the hour."
        return text + _and_more(len(back), "move"), len(back)
    if held:
        return _first_sentence(held) + _and_more(len(held), "move"), len(held)
    return None


def bounces(moves: Iterable[Row]) -> list[Row]:
    """Return the moves (given oldest first) back to a broker that the bundle had left in the hour before."""
    left: dict[tuple[str, str], datetime] = {}
    bounced = []
    for move in moves:
        bundle, at = str(move["bundle"]), move["cycle_at"]
        before = left.get((bundle, str(move["destination"] or "")))
        if before is not None and at - before <= BOUNCE_SPAN:
            bounced.append(move)
        if move["from_broker"]:
            left[bundle, str(move["from_broker"])] = at
    return bounced


def _held(rows: StatusRows, _: datetime) -> Finding | None:
    number = int(rows.newest.planned["held"] or 0)
    cluster_rows = [
        row for row in rows.guard_decisions if row["outcome"] == "held" and row["subject_kind"] == "cluster"
    ]
    if not number and not cluster_rows:
        return None
    held = cluster_rows or [row for row in rows.guard_decisions if row["outcome"] == "held"]
    if not number:
        return _first_sentence(held), 1
    why = f": {_first_sentence(held)}" if held else "."
    return f"{plural(number, 'command')} held back{why}", number


def _withheld(rows: StatusRows, _: datetime) -> Finding | None:
    if rows.newest.status != "withheld":
        return None
    return f"The plan was not sent: {ended(rows.newest.reason or 'no reason is on record')}", 1


def _quarantined(rows: StatusRows, _: datetime) -> Finding | None:
    if rows.newest.status != "skipped":
        return None
    number = max(sum(row["severity"] == "quarantine" for row in rows.failed_checks), 1)
    return f"Left out of the newest cycle: {ended(rows.newest.reason or 'no reason is on record')}", number


MISCONFIGURED = frozenset(
    {
        *("namespaces_have_two_parts", "policies_name_brokers", "expressions_can_be_read"),
        *("domains_name_brokers_once", "groups_fit_domains"),
    }
)
"""Rules of `validation_results` on what is configured: `validate.configuration_rules`."""


def _misconfigured(rows: StatusRows, _: datetime) -> Finding | None:
    details = sorted(str(row["detail"]) for row in rows.failed_checks if row["rule"] in MISCONFIGURED)
    return (details[0], len(details)) if details else None


def _hung(rows: StatusRows, _: datetime) -> Finding | None:
    if not rows.hung:
        return None
    first = min(rows.hung, key=lambda row: str(row["broker"]))
    more = _and_more(len(rows.hung), "broker", " So")
    return f"{first['broker']}: {ended(str(first['state_reason']))}{more}", len(rows.hung)


def _idle(rows: StatusRows, _: datetime) -> Finding | None:
    drained = {row["subject"] for row in _drains(rows)}
    reported = [row for row in rows.broker_load if row["state"] == "reported" and row["broker"] not in drained]
    idle = [
        row
        for row in reported
        if not row["bundles"] or not (float(row["msg_rate_in"] or 0.0) + float(row["msg_rate_out"] or 0.0))
    ]
    if not idle or len(idle) == len(reported):
        return None
    names = [str(row["broker"]) for row in idle]
    fact = "owns no bundle" if not idle[0]["bundles"] else "has no messages"
    return f"{names[0]} {fact}{_and_more(len(names), 'broker', ' and so', '.')}", len(names)


def _too_hot(rows: StatusRows, _: datetime) -> Finding | None:
    sole = [row for row in rows.unload_decisions if row["rule"] in SOLE_BUNDLE_RULES]
    heavy = [row for row in rows.guard_decisions if row["rule"] == TOO_HEAVY_RULE]
    hot = [*sole, *heavy]
    return (_first_sentence(hot) + _and_more(len(hot), "bundle"), len(hot)) if hot else None


def _planner_set_aside(rows: StatusRows, _: datetime) -> Finding | None:
    broken = [row for row in rows.planner_findings if row["rule"] == BROKEN_PROMISES_RULE]
    return (f"Evenkeel's planner is set aside: {_first_sentence(broken)}", 1) if broken else None


def _paused(rows: StatusRows, _: datetime) -> Finding | None:
    if rows.pause is None:
        return None
    why = f": {ended(str(rows.pause['reason']))}" if rows.pause["reason"] else "."
    return f"Paused by {rows.pause['by']}{why}", 1


def _draining(rows: StatusRows, _: datetime) -> Finding | None:
    drains = _drains(rows)
    return (_first_sentence(drains) + _and_more(len(drains), "broker"), len(drains)) if drains else None


def _drains(rows: StatusRows) -> list[Row]:
    drain_rows = [row for row in rows.unload_decisions if row["strategy"] == BY_DRAINING]
    return [row for row in drain_rows if row["subject_kind"] == "broker"]


def _first_sentence(rows: Sequence[Row]) -> str:
    return str(min(rows, key=lambda row: str(row["subject"]))["sentence"])


def _and_more(number: int, noun: str, start: str = " So", end: str = ".") -> str:
    if number < 2:
        return "" if start == " So" else end
    return f"{start} {'does' if number == 2 else 'do'} {plural(number - 1, 'other ' + noun)}{end}"


KINDS: tuple[AttentionKind, ...] = (
    AttentionKind(
        "newer_version", "newer version", BAD, "cycles.schema_version",
        "a newer version of Evenkeel wrote the newest cycle; upgrade this one to see more", _newer,
    ),
    AttentionKind(
        "harm", "harm after a move", BAD, "outcomes (harmed), commands",
        "clients of a bundle were harmed by a command of the last day", _harm,
    ),
    AttentionKind(
        "hung_broker", "hung broker", BAD, "broker_reports",
        "a broker answers, and its metadata store or its load manager does not", _hung,
    ),
    AttentionKind("failed", "failed", BAD, "cycles.status", "the newest cycle failed", _failed),
    AttentionKind(
        "stale", "record stale", BAD, "cycles.cycle_at",
        "no cycle for three usual distances between cycles, and for five minutes at least; not of a recording", _stale,
    ),
    AttentionKind(
        "approval", "waits for approval", WARN, "cycles, approvals, settings",
        "a plan in mode approve has no answer yet, and may still be approved", _waiting,
    ),
    AttentionKind(
        "bounces", "bounces", WARN, "commands, guard_decisions",
        "a bundle moved back within an hour, or a guard looked at such a move", _bounces,
    ),
    AttentionKind(
        "quarantined", "quarantined", WARN, "cycles.status, validation_results",
        "the newest cycle was skipped: what was observed cannot be trusted, or was not to be had", _quarantined,
    ),
    AttentionKind("withheld", "not sent", WARN, "cycles.status", "the newest plan was not sent", _withheld),
    AttentionKind(
        "too_hot", "too hot to move", WARN, "unload_decisions, guard_decisions",
        "a bundle would overload any broker: the only one of a broker over its limit, or too heavy to move", _too_hot,
    ),
    AttentionKind(
        "idle_broker", "idle broker", WARN, "broker_load",
        "a broker that reports owns no bundle or has no messages, while others have some; drained ones aside", _idle,
    ),
    AttentionKind(
        "planner_set_aside", "planner set aside", WARN, "planner_findings",
        "three plans of Evenkeel's planner in a row brought less than half of what they promised: for a day the "
        "strategy in force decides", _planner_set_aside,
    ),
    AttentionKind(
        "misconfigured", "misconfigured", NOTE, "validation_results",
        "namespaces of the old form, or an isolation policy, failure domain or anti-affinity group that cannot work",
        _misconfigured,
    ),
    AttentionKind("held", "held back", NOTE, "cycles.held, guard_decisions", "guards held commands back", _held),
    AttentionKind("paused", "paused", NOTE, "controls", "an operator paused the cluster", _paused),
    AttentionKind(
        "draining", "draining", NOTE, "unload_decisions (strategy draining)", "a broker is being emptied", _draining
    ),
)  # fmt: skip
"""All kinds, the most urgent first."""
URGENCY = {kind.name: place for place, kind in enumerate(KINDS)}
