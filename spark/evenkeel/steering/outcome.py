"""What was seen of a command, which of several outcomes of one command counts, and what a sink is.

Which sink it is makes no difference to what was decided: a dry run is the same code with another sink.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
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
    """What was seen of a command. `outcome` is one of those that the table `outcomes` names."""

    command_id: str
    outcome: str
    seen_at: datetime
    detail: str


def not_sent(command_id: str, at: datetime, why: str) -> Outcome:
    """The outcome of a command that was held back and not sent."""
    return Outcome(command_id, "withheld", at, f"not sent: {why}")


Stop = Callable[[], str | None]
"""Why no further command may go out; None while all is well."""

ReportOutcome = Callable[[Outcome], None]
"""Takes what was seen of a command, as soon as it was seen."""


# Which of several outcomes of one command stands.
#
# Two agents may each speak of a command: one carried it out, and the other, to whom the queue gave it again, found its
# premise gone. So a report of an effect stands against one of none, and what is known against what is
# not; of equals the earlier one.

STRENGTH = ("done", "overridden", "lost", "timed_out", "unknown", "refused", "stale", "withheld", "dry_run")
"""All outcomes that a command can have, the strongest first."""


def decisive(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """One outcome per `command_id`."""
    stands: dict[str, Outcome] = {}
    for one in sorted(outcomes, key=lambda one: (STRENGTH.index(one.outcome), one.seen_at)):
        stands.setdefault(one.command_id, one)
    return stands


# The one table from what was seen of a command to its outcome. Pure.
#
# The publisher and the agent ask it after they have sent a command and when they look again after a crash, the next
# cycle when it settles what was left open: the same observation has the same outcome and the same words, whoever made
# it.
#
# Only a refusal counts as an answer. A 204 is not a proof that something was done, and silence is no proof that nothing
# was: behind both the cluster alone says what came of the command. So the next cycle, which does not know what was
# answered to a publisher that died, comes to the outcome that the publisher would have come to.
#
# 404 and 412 say that what the command was decided on is gone: the namespace, or the bundle with these boundaries.
# Other 4xx are refusals. A 5xx may come after the work was done, and no answer at all says nothing.

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
    """What the answer means for the command; redirects have been followed."""
    if hop.status == 0 or 300 <= hop.status < 400:
        return AnswerKind.NONE
    if hop.status < 300:
        return AnswerKind.TAKEN
    if hop.status == 404 or (hop.status == 412 and _PREMISE_GONE.search(reason_of(hop))):
        return AnswerKind.NO_PREMISE
    return AnswerKind.FAILED if hop.status >= 500 else AnswerKind.REFUSED


def in_words(hop: Hop) -> str:
    """The answer for the row of an outcome; empty for a plain yes."""
    if 200 <= hop.status < 300:
        return ""
    reason = reason_of(hop)
    if hop.status == 0:
        return f"{hop.broker} did not answer: {reason}"
    return f"{hop.broker} answered {hop.status}{f': {reason}' if reason else ''}"


def reason_of(hop: Hop) -> str:
    """The telling line: a 500 carries a stack trace, a proxy a page of HTML."""
    text = hop.body
    try:
        found = parse_json(text)
        text = str(found["reason"]) if isinstance(found, dict) and "reason" in found else text
    except NotJson:
        pass
    after = re.search(r"Message:\s*(.+)", text)
    line = after.group(1) if after else next((each for each in _MARKUP.sub(" ", text).splitlines() if each.strip()), "")
    return " ".join(line.split())[:_MOST]


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a command.

    `answer`: Pulsar's answer; `AnswerKind.NONE` where none came or none is known.
    `sight`: what the cluster shows; None while nobody has looked.
    `any_broker`: an unload that leaves the destination to Pulsar.
    `had_left`: an earlier look found the bundle owned by nobody.
    `is_last`: the observer does not look again.
    `is_over`: no request is under way, and none has an effect to come.
    `is_expired`: the command's `expires_at` has passed.
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
    """An outcome, and the conditions under which it holds: the fields of `Observation`, None where any value will do.

    `words`: the outcome's detail; `{seen}` stands for what the cluster shows.
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
        """Whether every condition of the row is met."""
        return all(getattr(self, name) in (None, getattr(seen, name)) for name in _CONDITIONS)


_CONDITIONS = tuple(field.name for field in fields(Observation))

TABLE = (
    Row("refused", "", answer=AnswerKind.REFUSED),
    Row("stale", "", answer=AnswerKind.NO_PREMISE),
    Row("done", sight=Sight.EFFECT),
    Row("done", sight=Sight.ELSEWHERE, any_broker=True),
    Row("refused", answer=AnswerKind.FAILED, sight=Sight.UNTOUCHED, had_left=False),
    # The bundle is closed; it opens where a client asks for it, and the modular leader has noted the destination.
    Row("done", sight=Sight.UNOWNED, is_last=True),
    Row("overridden", "{seen} again: it had left, and came back", sight=Sight.UNTOUCHED, had_left=True, is_over=True),
    Row("timed_out", "{seen}, as before; it is not sent any more", sight=Sight.UNTOUCHED, is_over=True),
    Row("overridden", sight=Sight.ELSEWHERE, is_last=True),
    Row("overridden", sight=Sight.GONE, is_last=True),
    Row("lost", sight=Sight.UNKNOWN, is_over=True, is_expired=True),
    Row("unknown", sight=Sight.UNKNOWN, is_over=True),
)
"""The first row that holds counts. Where none holds, nothing can be said yet: the cluster is looked at again."""


def row_of(seen: Observation) -> Row | None:
    """The row of the table for an observation; None where nothing can be said yet."""
    return next((row for row in TABLE if row.holds(seen)), None)


def outcome_of(
    command: Command,
    look: Look,
    *,
    is_last: bool,
    is_over: bool,
    is_expired: bool,
    answer: AnswerKind = AnswerKind.NONE,
    had_left: bool = False,
) -> tuple[str, str] | None:
    """Outcome of a command and what was seen of it, in words; None where nothing can be said yet.

    `command`: a row of `commands`; `look`: the cluster as seen last. The others: see `Observation`.
    """
    if command["kind"] == UNLOAD_TOPIC:
        return _outcome_of_topic(answer, is_over=is_over)
    any_broker = command["kind"] == "unload" and command["destination"] is None
    seen = sight(command, look)
    row = row_of(Observation(answer, seen, any_broker, had_left, is_last, is_over, is_expired))
    return None if row is None else (row.outcome, row.words.format(seen=effect_in_words(command, look)))


def _outcome_of_topic(answer: AnswerKind, *, is_over: bool) -> tuple[str, str] | None:
    """The outcome of a topic's unload. The topic is open again at once at the same broker, so the cluster shows nothing
    of it: only the answer counts, and without one the outcome stays unknown."""
    if answer is AnswerKind.TAKEN:
        return "done", "its broker has closed the topic"
    if not is_over:
        return None
    return "lost", "whether the topic was unloaded cannot be seen; it is not sent again"
