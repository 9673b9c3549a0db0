"""Explanations as data: one moment, or a range of them. Pure: equal rows give equal explanations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.explain.changes import Change, without_groups
from evenkeel.explain.subject import Subject
from evenkeel.lake.record import Attempt, Row
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.model.amounts import percent, plural
from evenkeel.model.averages import share_of_quota
from evenkeel.settings.compatibility import PLACEMENT

PLANNER = ("planner_targets", "planner_findings")
"""Tables of Evenkeel's own planner that an explanation reads; they have no rows if the planner is off."""
PLANNER_KEY = "evenkeelPlanner"
STEPS = {
    "split_decisions": "split",
    **dict.fromkeys(PLANNER, "planner"),
    "unload_decisions": "unload",
    "placement_decisions": "placement",
}
ACTS = frozenset({"split", "unload", "placed", "refused"})
MOST_OTHERS = 5
LEAST_SHARE_OF_QUOTA = 0.01
"""A smaller part of the long-term averages than this (fraction) is not worth a word."""


@dataclass(frozen=True, slots=True)
class Where:
    """The place of the subject, and its load; figures are None if unknown.

    Of a bundle: `broker` is its owner, `traffic` byte/s and `rate` msg/s in and out, as used for decisions. Of a
    broker: `broker` is itself, `usage` a fraction, `bundles` how many it owned.
    """

    broker: str | None
    state: str
    traffic: float | None
    rate: float | None
    topics: int | None
    usage: float | None = None
    bundles: int | None = None


@dataclass(frozen=True, slots=True)
class OtherOption:
    """A rejected broker or bundle, the reason, and its distance (`behind`, in `unit`) if measured."""

    name: str
    verdict: str
    measured: float | None
    behind: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision row: `step` is split, planner, unload, placement or guard. `margin` is measured - threshold."""

    step: str
    subject: str
    subject_kind: str
    broker: str | None
    destination: str | None
    strategy: str | None
    outcome: str
    rule: str
    setting: str | None
    measured: float | None
    threshold: float | None
    margin: float | None
    unit: str | None
    sentence: str
    alternatives: tuple[OtherOption, ...]
    changes: tuple[Change, ...]

    @property
    def acts(self) -> bool:
        """Return True if it would have changed something, or was kept from it. Planner verdicts never act."""
        return self.step != "planner" and (self.outcome in ACTS or self.step == "guard")


@dataclass(frozen=True, slots=True)
class SeenOutcome:
    """An observed outcome of a command."""

    outcome: str
    at: datetime
    detail: str


@dataclass(frozen=True, slots=True)
class SentCommand:
    """A command of the plan, with everything that was seen of it, oldest first. `topic`: of an unload of a topic."""

    command_id: str
    kind: str
    bundle: str
    from_broker: str | None
    destination: str | None
    mode: str
    request: str
    seen: tuple[SeenOutcome, ...]
    topic: str | None = None

    @property
    def act(self) -> str:
        """Return the act and its object in words."""
        return f"unload of {self.topic}" if self.topic is not None else f"{self.kind} of {self.bundle}"


@dataclass(frozen=True)
class Moment:
    """The part of a cycle about the subject. `bundle` is the one that a topic was in at that time."""

    subject: Subject
    bundle: str | None
    cluster: str
    cycle_at: datetime
    attempt: int
    attempt_id: str
    kind: str
    status: str
    reason: str | None
    mode: str
    plan_id: str | None
    where: Where | None
    reasons: tuple[Reason, ...]
    commands: tuple[SentCommand, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Quiet:
    """Cycles in a row without any act on the subject, and with no change of its place."""

    first: datetime
    last: datetime
    cycles: int
    broker: str | None
    sentence: str


@dataclass(frozen=True)
class Course:
    """A range of cycles: moments in full if they have an act, and the quiet stretches between, in the order of time."""

    subject: Subject
    cluster: str
    first: datetime
    last: datetime
    cycles: int
    steps: tuple[Moment | Quiet, ...]
    notes: tuple[str, ...]


Ask = Callable[[str, Row], Sequence[Change]]
"""Function from a table and a row of it to the changes that would have changed the row."""


def ask_nothing(table: str, row: Row) -> Sequence[Change]:
    """Return no changes: for answers without them."""
    return ()


@dataclass(frozen=True)
class CycleFacts:
    """The rows of one cycle that an explanation uses; `tables` also hold what was considered beside the subject."""

    attempt: Attempt
    subject: Subject
    bundle: str | None
    tables: Mapping[str, Sequence[Row]]
    commands: Sequence[Row]
    outcomes: Sequence[Row]
    notes: tuple[str, ...] = ()


def moment_of(facts: CycleFacts, ask: Ask = ask_nothing) -> Moment:
    """Return the explanation of one cycle. `ask`: returns the changes that would have changed a decision."""
    attempt, reasons = facts.attempt, tuple(_reasons(facts, ask))
    once = {row["command_id"]: row for row in facts.commands}
    return Moment(
        subject=facts.subject,
        bundle=facts.bundle,
        cluster=attempt.cluster,
        cycle_at=attempt.cycle_at,
        attempt=attempt.number,
        attempt_id=attempt.attempt_id,
        kind=attempt.kind,
        status=attempt.status,
        reason=attempt.reason,
        mode=attempt.mode,
        plan_id=attempt.plan_id,
        where=_where(facts),
        reasons=reasons,
        commands=tuple(
            _command(row, facts.outcomes)
            for row in sorted(once.values(), key=lambda row: (row["step"], row["command_id"]))
        ),
        notes=(*_of_quota(facts), *_of_shadow(facts, reasons), *facts.notes),
    )


def _of_shadow(facts: CycleFacts, reasons: Sequence[Reason]) -> tuple[str, ...]:
    """Return the sentence that the planner only watches and nothing follows from its verdict; "" otherwise."""
    is_shadow = any((row["key"], row["value"]) == (PLANNER_KEY, '"shadow"') for row in facts.tables["settings"])
    if not is_shadow or not any(reason.step == "planner" for reason in reasons):
        return ()
    return (f"The planner only looks on ({PLANNER_KEY} = shadow): nothing that it decides is sent to the cluster.",)


def _of_quota(facts: CycleFacts) -> tuple[str, ...]:
    """Return the sentence that the bundle's averages began from its resource quota, while it weighs in them."""
    row = next((r for r in facts.tables["bundle_load"] if r["bundle"] == facts.bundle), {})
    samples = row.get("samples_since_quota")
    if samples is None or (share := share_of_quota(samples)) < LEAST_SHARE_OF_QUOTA:
        return ()
    if samples == 0:
        return ("Its averages are its resource quota, as Pulsar's would be: it was not measured since they began.",)
    since = plural(samples, "sample")
    return (f"Its averages began from its resource quota, {since} ago: {percent(share)} of the long-term ones.",)


def _where(facts: CycleFacts) -> Where | None:
    if facts.subject.kind == "broker":
        row = next((r for r in facts.tables["broker_load"] if r["broker"] == facts.subject.name), None)
        if row is None:
            return None
        return Where(
            broker=row["broker"],
            state=row["state"],
            traffic=_both(row["msg_throughput_in"], row["msg_throughput_out"]),
            rate=_both(row["msg_rate_in"], row["msg_rate_out"]),
            topics=row["topics"],
            usage=row["weighted_usage"],
            bundles=row["bundles"],
        )
    row = next((r for r in facts.tables["bundle_load"] if r["bundle"] == facts.bundle), None)
    if row is None:
        return None
    return Where(
        broker=row["owner"],
        state=row["ownership"],
        traffic=_both(row["used_msg_throughput_in"], row["used_msg_throughput_out"]),
        rate=_both(row["used_msg_rate_in"], row["used_msg_rate_out"]),
        topics=row["topics"],
    )


def _both(first: float | None, second: float | None) -> float | None:
    return None if first is None and second is None else (first or 0.0) + (second or 0.0)


def _reasons(facts: CycleFacts, ask: Ask) -> list[Reason]:
    """The rows about the subject, in the order of the pipeline; of a cluster or broker before those of its bundles."""
    settings = facts.tables["settings"]
    reasons = []
    for table, step in STEPS.items():
        rows = facts.tables.get(table, ())
        chosen = [row for row in rows if _concerns(row, step, facts)]
        if step == "planner" and facts.subject.kind != "broker" and not any(_is_own(row, facts) for row in chosen):
            continue  # the planner has not looked at the bundle
        reasons += [reason_of(table, row, rows, settings, ask) for row in sorted(chosen, key=_order)]
    for row in sorted(facts.tables["guard_decisions"], key=lambda row: (row["position"], row["rule"])):
        if _concerns(row, "guard", facts):
            reasons.append(reason_of("guard_decisions", row, (), settings, ask))
    # If the planner decides, shedding copies its verdicts, and they are shown there.
    taken_over = {(reason.subject, reason.sentence) for reason in reasons if reason.step != "planner"}
    return [
        reason for reason in reasons if reason.step != "planner" or (reason.subject, reason.sentence) not in taken_over
    ]


_COPIED = (
    *("subject", "subject_kind", "broker", "destination", "strategy", "outcome", "rule", "setting"),
    *("measured", "threshold", "margin", "unit", "sentence"),
)
"""Columns of a decision that its reason has under the same names."""


def reason_of(table: str, row: Row, rows: Sequence[Row], settings: Sequence[Row], ask: Ask = ask_nothing) -> Reason:
    """Return one decision row with its rejected alternatives and the changes that would have changed it.

    `rows` are those of its table in its cycle, `settings` the rows that were read. The planner's verdicts are not
    repeated: a search decides them.
    """
    step = STEPS.get(table, "guard")
    sheds = table == "unload_decisions" and row["subject_kind"] == "broker" and row["outcome"] == "unload"
    others = _under_their_limit(row, rows)[:MOST_OTHERS] if sheds else []
    asked = () if step == "planner" else (row, *others)
    changes = [change for subject in asked for change in _of_other(subject, row, ask(table, subject))]
    groups = without_groups(row) if step == "placement" else []
    copied: dict[str, Any] = {name: row.get(name) for name in _COPIED}
    alternatives = tuple(_alternatives(row, step, rows, settings))
    return Reason(step=step, **copied, alternatives=alternatives, changes=(*changes, *groups))


def _of_other(other_row: Row, row: Row, changes: Sequence[Change]) -> Sequence[Change]:
    """Return all changes of the row itself; of a broker beside it, those of its own figures only."""
    return changes if other_row is row else [change for change in changes if change.subject == other_row["subject"]]


def _concerns(row: Row, step: str, facts: CycleFacts) -> bool:
    """Return the rows about the subject.

    Of a bundle: its own rows, and why its broker sheds. Of a topic: its bundle's and its own. Of a broker: its own, and
    the bundles that leave it or come to it.
    """
    if row["subject_kind"] == "cluster":
        return step in ("guard", "planner") or bool(row["outcome"] == "skipped" or step == "unload")
    if facts.subject.kind == "broker":
        name = facts.subject.name
        if row["subject_kind"] == "broker":
            return bool(row["subject"] == name)
        concerned = name in (row["broker"], row.get("destination"))
        return concerned and (step == "guard" or row["outcome"] in ACTS)
    if row["subject_kind"] == "broker":
        return bool(row["subject"] == _owner(facts))
    return _is_own(row, facts)


def _is_own(row: Row, facts: CycleFacts) -> bool:
    return row["subject"] in (facts.bundle, facts.subject.name)


def _owner(facts: CycleFacts) -> str | None:
    """Return the broker from which the bundle was, or could have been, shed: its decision names it, else its owner."""
    bundle_rows = [row for row in facts.tables["unload_decisions"] if row["subject"] == facts.bundle and row["broker"]]
    if bundle_rows:
        return str(min(bundle_rows, key=lambda row: (row["outcome"] != "unload", row["broker"]))["broker"])
    return next((row["owner"] for row in facts.tables["bundle_load"] if row["bundle"] == facts.bundle), None)


def _order(row: Row) -> tuple[int, float, str, str]:
    kinds = {"cluster": 0, "broker": 1, "bundle": 2, "topic": 3}
    rank = row["numbers"].get("rank", float(row.get("position") or 0))
    return (kinds[row["subject_kind"]], rank, row["subject"], row["wish_id"] or "")


def _alternatives(row: Row, step: str, rows: Sequence[Row], settings: Sequence[Row]) -> list[OtherOption]:
    if step == "placement":
        return _brokers_looked_at(row, settings)
    if step == "planner":
        return [
            OtherOption(alternative["name"], _option(alternative), alternative["measured"], None, row["unit"] or "")
            for alternative in row["alternatives"]
            if alternative["verdict"] != "best"
        ]
    if step == "unload" and row["subject_kind"] == "broker":
        return [
            OtherOption(other["subject"], "under its limit", other["measured"], -other["margin"], other["unit"] or "")
            for other in _under_their_limit(row, rows)[:MOST_OTHERS]
        ]
    if step == "unload" and row["subject_kind"] == "bundle" and row["outcome"] == "unload":
        bundle_traffic = row["numbers"].get("bundle_throughput")
        return [
            OtherOption(
                other["name"], "next in line", other["measured"], _gap(bundle_traffic, other["measured"]), "byte/s"
            )
            for other in row["alternatives"]
            if other["verdict"] == "next"
        ]
    return []


def _option(alternative: Mapping[str, Any]) -> str:
    """Return the outcome of a planner's alternative, in words."""
    rule = str(alternative["rule"] or "").replace("_", " ")
    if alternative["verdict"] == "removed":
        return f"ruled out: {rule}" if rule else "ruled out"
    words = "next in line" if alternative["verdict"] == "next" else "possible"
    return f"{words}, {rule}" if rule else words


def _gap(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _brokers_looked_at(row: Row, settings: Sequence[Row]) -> list[OtherOption]:
    strategy = strategy_of(row, settings)
    candidates = candidates_of(row, strategy)
    _, unit = scored_by(strategy)
    best = next((option.score for option in candidates if option.is_chosen), None)
    compared = {candidate["broker"] for candidate in row["candidates"] if candidate["removed_by"] is None}
    return [
        OtherOption(
            option.broker,
            option.verdict,
            option.score,
            _gap(option.score, best) if option.broker in compared else None,
            unit,
        )
        for option in candidates
        if not option.is_chosen
    ]


def _under_their_limit(row: Row, rows: Sequence[Row]) -> list[Row]:
    """Return the other checked brokers without an act, the nearest to their limit first."""
    others = [
        other
        for other in rows
        if other["subject_kind"] == "broker"
        and other["subject"] != row["subject"]
        and other["rule"] == "below_threshold"
        and other["margin"] is not None
    ]
    return sorted(others, key=lambda other: (-other["margin"], other["subject"]))


def _command(row: Mapping[str, Any], outcomes: Sequence[Row]) -> SentCommand:
    seen = {
        (outcome_row["seen_at"], outcome_row["outcome"], outcome_row["detail"])
        for outcome_row in outcomes
        if outcome_row["command_id"] == row["command_id"]
    }
    names = ("command_id", "kind", "bundle", "topic", "from_broker", "destination", "mode", "request")
    copied: dict[str, Any] = {name: row.get(name) for name in names}
    outcomes_seen = tuple(SeenOutcome(outcome, at, detail) for at, outcome, detail in sorted(seen))
    return SentCommand(**copied, seen=outcomes_seen)


# The brokers that were considered for a bundle, each with its result in words.

_FILTERS = {
    "anti_affinity": "more of its anti-affinity group there",
    "anti_affinity_domain": "more of its anti-affinity group in that failure domain",
    "topics_over_limit": "too many topics",
    "more_bundles_of_namespace": "more bundles of its namespace there",
    "other_load_manager": "other load manager than the leader",
    "older_version": "older version of Pulsar",
    "draining": "being emptied",
}
# Meanings of a placement strategy's scores; any other one's is a rate in msg/s.
_SCORED = {"LeastResourceUsageWithWeight": ("Average usage", "fraction"), BY_DRAINING: ("Usage by then", "fraction")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker that was checked for a bundle, with the outcome in words; `score` if it got so far."""

    broker: str
    verdict: str
    is_chosen: bool
    score: float | None


def candidates_of(row: Row, strategy: str) -> list[Candidate]:
    """All candidates of a placement: the one chosen, then by score, then those without one by name."""
    return sorted(
        (_candidate(candidate, row, strategy) for candidate in row["candidates"]),
        key=lambda c: (not c.is_chosen, c.score is None, c.score if c.score is not None else 0.0, c.broker),
    )


def scored_by(strategy: str) -> tuple[str, str]:
    """Return the meaning and the unit of a placement strategy's scores."""
    return _SCORED.get(strategy, ("Long-term rate", "msg/s"))


def strategy_of(row: Row, settings: Sequence[Row]) -> str:
    """Return the strategy that scored a row's candidates: for a manual request the one in force."""
    if row["strategy"] != BY_REQUEST:
        return str(row["strategy"])
    return next((json.loads(setting["value"]) for setting in settings if setting["key"] == PLACEMENT), "")


def _candidate(candidate: Row, row: Row, strategy: str) -> Candidate:
    broker, removed_by = candidate["broker"], candidate["removed_by"]
    if broker == row["destination"]:
        verdict = "chosen" if len(row["best"]) < 2 else f"chosen, first by name of {len(row['best'])} equals"
    elif removed_by:
        verdict = f"ruled out: {_FILTERS.get(removed_by, removed_by.replace('_', ' '))}"
    elif broker in row["best"]:
        verdict = "as good, later by name"
    elif strategy == "RoundRobinBrokerSelector" or row["rule"].startswith("in_turns"):
        verdict = "possible, not its turn"
    elif strategy == "AvgShedder":
        verdict = "possible, not planned"
    else:
        verdict = "possible, busier"
    return Candidate(broker, verdict, broker == row["destination"], candidate["score"])
