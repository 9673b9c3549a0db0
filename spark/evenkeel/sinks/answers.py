"""What Pulsar's answer to a command means. Pure.

404 and 412 tell that what the command was decided on is gone: the namespace, or the bundle with these boundaries. Other
4xx are refusals. A 5xx may come after the work was done, and no answer at all tells nothing.
"""

from __future__ import annotations

import json
import re
from enum import Enum

from evenkeel.pulsar.admin.hop import Hop

_MOST = 300
_PREMISE_GONE = re.compile(r"cannot find bundle|invalid upper boundary|not found under namespace|does not exist", re.I)
_MARKUP = re.compile(r"<[^>]*>")


class Answer(Enum):
    """The kind of an answer."""

    TAKEN = "taken"
    NO_PREMISE = "what it was decided on is gone"
    REFUSED = "refused"
    FAILED = "failed"
    NONE = "no answer"


def answer_of(hop: Hop) -> Answer:
    """What the answer means for the command; redirects have been followed."""
    if hop.status == 0 or 300 <= hop.status < 400:
        return Answer.NONE
    if hop.status < 300:
        return Answer.TAKEN
    if hop.status == 404 or (hop.status == 412 and _PREMISE_GONE.search(reason_of(hop))):
        return Answer.NO_PREMISE
    return Answer.FAILED if hop.status >= 500 else Answer.REFUSED


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
        found = json.loads(text)
        text = str(found["reason"]) if isinstance(found, dict) and "reason" in found else text
    except ValueError:
        pass
    after = re.search(r"Message:\s*(.+)", text)
    line = after.group(1) if after else next((each for each in _MARKUP.sub(" ", text).splitlines() if each.strip()), "")
    return " ".join(line.split())[:_MOST]
