"""Reading an answer's text: what it holds, or in plain words why it holds nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from evenkeel.pulsar.answers import Answer

Outcome = Literal["read", "nothing", "no_answer", "unreadable"]

RECORD_CHARACTERS = 2_000
HTML_PAGE = "html_page"
UNREADABLE_JSON = "unreadable_json"

_REASON_CHARACTERS = 300
_PAGE_STARTS = ("<!doctype", "<html", "<?xml")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record set aside: the table it was meant for, its place in the snapshot, the rule, why, and the record."""

    rejected_from: str
    place: str
    rule: str
    reason: str
    record: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer says: `read` with a value, `nothing` (Pulsar says that there is none), `no_answer`, `unreadable`.

    `rule` names what is wrong with the text itself, where it is to be set aside.
    """

    outcome: Outcome
    value: Any = None
    reason: str | None = None
    rule: str | None = None

    @property
    def is_read(self) -> bool:
        """Whether the answer was read and has a value."""
        return self.outcome == "read"


def read_json(answer: Answer | None, expected: type, *, nothing_at: tuple[int, ...] = ()) -> Reading:
    """The JSON of an answer, of the type expected; statuses in `nothing_at` and 204 say that there is none."""
    refused = _refused(answer, nothing_at)
    if refused is not None or answer is None:
        return refused or not_asked()
    try:
        value = json.loads(answer.body or "")
    except (ValueError, RecursionError) as error:
        reason = f"it is no JSON or ends too early ({getattr(error, 'msg', error)})"
        return Reading("unreadable", reason=reason, rule=UNREADABLE_JSON)
    if not isinstance(value, expected):
        reason = f"it is a JSON {_word(type(value))} where {_word(expected)} is due"
        return Reading("unreadable", reason=reason, rule=UNREADABLE_JSON)
    return Reading("read", value)


def read_text(answer: Answer | None) -> Reading:
    """The plain text of an answer, unaltered (quotes around it belong to it); an empty one says that there is none."""
    refused = _refused(answer, (), is_text=True)
    if refused is not None or answer is None:
        return refused or not_asked()
    return Reading("read", answer.body) if answer.body else Reading("nothing")


def not_asked() -> Reading:
    """The reading of a question that the snapshot does not contain."""
    return Reading("no_answer", reason="it was not asked")


def rejection(reading: Reading, answer: Answer, table: str) -> Rejection | None:
    """The record to set aside where the text itself is at fault; None where there simply is no answer."""
    if reading.rule is None:
        return None
    return Rejection(table, place_of(answer), reading.rule, _sentence(reading, answer), excerpt(answer.body))


def place_of(answer: Answer) -> str:
    """Broker and path: where in the snapshot an answer stands."""
    return f"{answer.broker} {answer.path}"


def excerpt(text: str | None) -> str | None:
    """The first 2,000 characters."""
    return None if text is None else text[:RECORD_CHARACTERS]


def _sentence(reading: Reading, answer: Answer) -> str:
    return f"{place_of(answer)}: {reading.reason}; what it would have told is unknown in this cycle"


def _refused(answer: Answer | None, nothing_at: tuple[int, ...], *, is_text: bool = False) -> Reading | None:
    if answer is None:
        return not_asked()
    if answer.status == 0:
        return Reading("no_answer", reason=f"no HTTP answer ({_first_line(answer.body)})")
    if answer.is_redirect:
        return Reading("no_answer", reason=f"redirected to {answer.location}, which did not answer")
    if _is_page(answer.body or "", is_text=is_text):
        return Reading("no_answer", reason=f"answered {answer.status} with an HTML page", rule=HTML_PAGE)
    if answer.status == 204 or answer.status in nothing_at:
        return Reading("nothing")
    if not 200 <= answer.status < 300:
        return Reading("no_answer", reason=f"answered {answer.status}: {server_reason(answer.body)}")
    return None


def _is_page(body: str, *, is_text: bool) -> bool:
    """No JSON starts with `<`; a name may, but not as a page does."""
    start = body.lstrip()[:20].lower()
    return start.startswith(_PAGE_STARTS if is_text else "<")


def server_reason(body: str | None) -> str:
    """What Pulsar gives as the reason of an error, without the stack trace it sends along."""
    try:
        reason = json.loads(body or "")["reason"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _first_line(body)
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    messages = [line.removeprefix("Message:").strip() for line in lines if line.startswith("Message:")]
    return _short(messages[0] if messages else " ".join(lines[:1]))


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return _short(lines[0]) if lines else "no text"


def _short(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[: _REASON_CHARACTERS - 1] + "…"


def _word(kind: type) -> str:
    words = {
        dict: "an object",
        list: "an array",
        str: "a text",
        int: "a number",
        float: "a number",
        bool: "a truth value",
    }
    return words.get(kind, "null")
