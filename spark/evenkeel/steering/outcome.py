"""Outcomes of commands, and precedence among several outcomes of one command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.schemas.acted import UNLOAD_TOPIC
from evenkeel.pulsar.admin.http_exchange import Hop
from evenkeel.steering.premise import Command, Look, Sight, effect_in_words, sight

# Pulsar gives an unload or split up after 60 s (namespaceBundleUnloadingTimeoutMs): no answer may still come then.
LONGEST_REQUEST_S = 65.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """An observation of a command. `outcome` is one of those that the table `outcomes` names."""

    command_id: str
    outcome: str
    seen_at: datetime
    detail: str


def not_sent(command_id: str, at: datetime, why: str) -> Outcome:
    """Return the outcome of a command that was held back and not sent."""
    return Outcome(command_id, "withheld", at, f"not sent: {why}")


def rehearsed(commands: Iterable[Command]) -> list[Outcome]:
    """Return the outcomes of a dry run, at each command's cycle's time: no clock, so a re-run gives equal rows."""
    words = "dry run: recorded and not sent"
    return [Outcome(command["command_id"], "dry_run", command["cycle_at"], words) for command in commands]


Stop = Callable[[], str | None]
"""Function that returns why no further command may be sent; None if all is well."""

ReportOutcome = Callable[[Outcome], None]
"""Function that takes an outcome as soon as it is seen."""


# Precedence among several outcomes of one command.
#
# Two agents may each report a command: one carried it out, and the other, to which the queue gave it again, found its
# premise gone. So a report of an effect wins over one of none, and a known outcome over an unknown one; of equals the
# earlier one.

STRENGTH = ("done", "overridden", "lost", "timed_out", "unknown", "refused", "stale", "withheld", "dry_run")
"""All outcomes that a command can have, the strongest first."""


def decisive(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return one outcome per `command_id`."""
    stands: dict[str, Outcome] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (STRENGTH.index(outcome.outcome), outcome.seen_at)):
        stands.setdefault(outcome.command_id, outcome)
    return stands


# The only table from an observation of a command to its outcome. Pure.
#
# The publisher and the agent use it after they have sent a command and when they look again after a crash. The next
# cycle uses it when it settles open commands. Equal observations give equal outcomes and words, from any observer.
#
# Only a refusal counts as an answer. A 204 does not prove that a command was done, and a missing answer does not prove
# that it was not: in both cases only the cluster shows the outcome. So the next cycle, which does not know the answers
# to a publisher that died, comes to that publisher's outcome.
#
# 404 and 412 mean that the command's premise is gone: the namespace, or the bundle with these boundaries. Other 4xx are
# refusals. A 5xx may come after the work was done, and a missing answer means nothing.

_MOST = 300
_PREMISE_GONE = re.compile(r"cannot find bundle|invalid upper boundary|not found under namespace|does not exist", re.I)
_MARKUP = re.compile(r"<[^>]*>")


class AnswerKind(Enum):
    """The kind of an answer."""

    TAKEN = "taken"
    NO_PREMISE = "what it was decided on is gone"
    REFUSED = "refused"
    FAILED = "failed"
    NONE = "no answer"


def answer_of(hop: Hop) -> AnswerKind:
    """Return the meaning of the answer for the command; redirects have been followed."""
    if hop.status == 0 or 300 <= hop.status < 400:
        return AnswerKind.NONE
    if hop.status < 300:
        return AnswerKind.TAKEN
    if hop.status == 404 or (hop.status == 412 and _PREMISE_GONE.search(reason_of(hop))):
        return AnswerKind.NO_PREMISE
    return AnswerKind.FAILED if hop.status >= 500 else AnswerKind.REFUSED


def in_words(hop: Hop) -> str:
    """Return the answer for the row of an outcome; empty for a plain success."""
    if 200 <= hop.status < 300:
        return ""
    reason = reason_of(hop)
    if hop.status == 0:
        return f"{hop.broker} did not answer: {reason}"
    return f"{hop.broker} answered {hop.status}{f': {reason}' if reason else ''}"


def reason_of(hop: Hop) -> str:
    """Return the telling line: a 500 has a stack trace, a proxy's answer a page of HTML."""
    text = hop.body
    try:
        value = parse_json(text)
        text = str(value["reason"]) if isinstance(value, dict) and "reason" in value else text
    except NotJson:
        pass
    after = re.search(r"Message:\s*(.+)", text)
    line = after.group(1) if after else next((each for each in _MARKUP.sub(" ", text).splitlines() if each.strip()), "")
    return " ".join(line.split())[:_MOST]


@dataclass(frozen=True, slots=True)
class Observation:
    """Knowledge of a command.

    `answer`: Pulsar's answer; `AnswerKind.NONE` if none came or none is known. `sight`: what the cluster shows; None
    before the first look. `any_broker`: an unload that leaves the destination to Pulsar. `had_left`: an earlier look
    found the bundle without an owner. `is_last`: the observer does not look again. `is_over`: no request is under way,
    and none has an effect to come. `is_expired`: the command's `expires_at` has passed.
    """

    answer: AnswerKind = AnswerKind.NONE
    sight: Sight | None = None
    any_broker: bool = False
    had_left: bool = False
    is_last: bool = False
    is_over: bool = False
    is_expired: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome, and its conditions: the fields of `Observation`, None if any value matches.

    `words`: the outcome's detail; `{seen}` is replaced by what the cluster shows.
    """

    outcome: str
    words: str = "{seen}"
    answer: AnswerKind | None = None
    sight: Sight | None = None
    any_broker: bool | None = None
    had_left: bool | None = None
    is_last: bool | None = None
    is_over: bool | None = None
    is_expired: bool | None = None

    def holds(self, seen: Observation) -> bool:
        """Return True if every condition of the row is met."""
        return all(getattr(self, name) in (None, getattr(seen, name)) for name in _CONDITIONS)


_CONDITIONS = tuple(field.name for field in fields(Observation))

TABLE = (
    Row("refused", "", answer=AnswerKind.REFUSED),
    Row("stale", "", answer=AnswerKind.NO_PREMISE),
    Row("done", sight=Sight.EFFECT),
    Row("done", sight=Sight.ELSEWHERE, any_broker=True),
    Row("refused", answer=AnswerKind.FAILED, sight=Sight.UNTOUCHED, had_left=False),
    # The bundle is closed; it opens at a client's request, and the modular leader has noted the destination.
    Row("done", sight=Sight.UNOWNED, is_last=True),
    Row("overridden", "{seen} again: it had left, and came back", sight=Sight.UNTOUCHED, had_left=True, is_over=True),
    Row("timed_out", "{seen}, as before; it is not sent any more", sight=Sight.UNTOUCHED, is_over=True),
    Row("overridden", sight=Sight.ELSEWHERE, is_last=True),
    Row("overridden", sight=Sight.GONE, is_last=True),
    Row("lost", sight=Sight.UNKNOWN, is_over=True, is_expired=True),
    Row("unknown", sight=Sight.UNKNOWN, is_over=True),
)
"""The first matching row counts. If none matches, there is no outcome yet: the cluster is looked at again."""


def row_of(seen: Observation) -> Row | None:
    """Return the row of the table for an observation; None if there is no outcome yet."""
    return next((row for row in TABLE if row.holds(seen)), None)


def outcome_of(
    command: Command,
    look: Look,
    known: Observation,
) -> tuple[str, str] | None:
    """Return the outcome of a command and the observation in words; None if there is no outcome yet.

    `command`: a row of `commands`; `look`: the cluster as seen last; `known`: all but `sight` and `any_broker`, which
    these two tell.
    """
    if command["kind"] == UNLOAD_TOPIC:
        return _outcome_of_topic(known.answer, is_over=known.is_over)
    any_broker = command["kind"] == "unload" and command["destination"] is None
    row = row_of(replace(known, sight=sight(command, look), any_broker=any_broker))
    return None if row is None else (row.outcome, row.words.format(seen=effect_in_words(command, look)))


def _outcome_of_topic(answer: AnswerKind, *, is_over: bool) -> tuple[str, str] | None:
    """Return the outcome of a topic's unload.

    The topic opens again at once at the same broker, so the cluster shows nothing of it: only the answer counts, and
    without one the outcome stays unknown.
    """
    if answer is AnswerKind.TAKEN:
        return "done", "its broker has closed the topic"
    if not is_over:
        return None
    return "lost", "whether the topic was unloaded cannot be seen; it is not sent again"
