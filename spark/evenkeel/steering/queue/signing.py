"""Signed messages: a message counts only if the other end of the queue wrote it.

The right to write to a queue gives no right to move bundles. Every message is a JSON Web Signature (RFC 7515, compact,
HS256) under a key that the pipeline and the agents of its cluster share. The signed header has the direction of the
message, its cluster, the time of signing and its number; the payload is the message itself. The number is the message's
deduplication id, under which the queue takes one message within five minutes. A copy under another id is not believed,
and neither is a command that came onto the queue later than that (`COPIED_AFTER`): so the queue alone decides that one
agent gets a command.

Keys come from the variable `EVENKEEL_KEYS_<NAME>` or the file that `EVENKEEL_KEYS_<NAME>_FILE` names, in Airflow also
from the password of the connection of that name; by default the name is `queue_<cluster>`. Several keys are separated
by commas or line feeds: the first one signs, all of them verify. To change a key, add the new one behind the old one at
both ends, then put it first at both, then remove the old one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from jwt.api_jws import PyJWS
from jwt.exceptions import InvalidTokenError

from evenkeel.errors import BadInput, SettingsError
from evenkeel.secret import FILE, Secret, text_given, variable_name
from evenkeel.steering.admin_request import shown
from evenkeel.steering.queue.fifo import MOST_BYTES, BadMessage
from evenkeel.times import moment_in, utc_text

Direction = Literal["to agents", "from agents"]
TO_AGENTS: Direction = "to agents"
FROM_AGENTS: Direction = "from agents"
TOLERANCE = timedelta(minutes=5)
"""Largest difference allowed between the clocks of pipeline and agents."""
COPIED_AFTER = timedelta(minutes=4)
"""Longest time from a command's signing to the queue: a minute less than the queue remembers its deduplication id."""

_VARIABLE = "EVENKEEL_KEYS_"
_ALGORITHM = "HS256"
_SHORTEST_KEY = 32  # characters; `openssl rand -hex 32` makes 64
_SIGNS = PyJWS(algorithms=[_ALGORITHM])


SigningKeys = tuple[Secret, ...]
"""The keys of one cluster's queues, at least one: the first signs, all verify."""
KeyResolver = Callable[[str], SigningKeys | None]
"""Function from the name of a cluster's keys to the keys; None if the name is unknown."""


def variable_of(name: str) -> str:
    """Return the environment variable that holds the keys of that name: `EVENKEEL_KEYS_QUEUE_EAST`."""
    return variable_name(_VARIABLE, name)


def keys_from_environment(name: str, environment: Mapping[str, str] = os.environ) -> SigningKeys | None:
    """Return the keys in the variable of that name, or in the file that its `…_FILE` names."""
    text = text_given(variable_of(name), environment)
    return None if text is None else keys_in(*text)


def keys_in(text: str, place: str) -> SigningKeys:
    """Return keys separated by commas or line feeds; raises `SettingsError`, which names the place and shows no key."""
    parts = [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if not parts:
        raise SettingsError(f"{place} holds no key: make one with `openssl rand -hex 32`")
    for number, part in enumerate(parts, start=1):
        if len(part) < _SHORTEST_KEY:
            raise SettingsError(
                f"{place}: key {number} has {len(part)} characters, and {_SHORTEST_KEY} are the fewest: make one with "
                "`openssl rand -hex 32`"
            )
    try:
        return tuple(Secret(part) for part in parts)
    except SettingsError:
        raise SettingsError(f"{place}: a key holds blanks or characters outside ASCII") from None


def resolved_keys(name: str, resolve: KeyResolver = keys_from_environment) -> SigningKeys:
    """Return the keys of that name; raises `SettingsError` if they are unknown."""
    keys = resolve(name)
    if keys is None:
        variable = variable_of(name)
        raise SettingsError(
            f"messages of a queue are signed, and the keys {name!r} are unknown: set {variable} to the key that "
            f"pipeline and agents share, or {variable + FILE} to a file that holds it (in Airflow, a connection of "
            "that name with the key as its password does as well); make one with `openssl rand -hex 32`"
        )
    return keys


@dataclass(frozen=True, slots=True)
class Signature:
    """One end of a cluster's queues: signs outgoing messages, verifies incoming ones."""

    cluster: str
    keys: SigningKeys
    tolerance: timedelta = TOLERANCE

    def signed(self, body: str, direction: Direction, at: datetime, number: str) -> str:
        """Return the message in its form on the queue; raises `BadInput` if it is too large for one.

        `number` identifies the message: a command's id, a control's id, or a report's token.
        """
        key = self.keys[0]
        header = {"kid": _name(key), "dir": direction, "cluster": self.cluster, "at": utc_text(at), "number": number}
        text = _SIGNS.encode(body.encode(), key.reveal(), _ALGORITHM, headers=header)
        if len(text) > MOST_BYTES:
            raise BadInput(f"the message {number[:12]} has {len(text)} bytes when signed; a queue takes {MOST_BYTES}")
        return text

    def verified(self, text: str, direction: Direction, now: datetime, number: str) -> tuple[str, datetime]:
        """Return the body of a message that the other end signed, and when.

        `number`: the deduplication id under which it came. Raises `BadMessage` for anything else.
        """
        header, payload = self._opened(text)
        if header.get("dir") != direction:
            raise BadMessage(f"a message that goes {shown(header.get('dir'))} came back on the queue {direction}")
        if header.get("cluster") != self.cluster:
            raise BadMessage(f"signed for cluster {shown(header.get('cluster'))}; this is {self.cluster!r}")
        at = moment_in(header.get("at"))
        if at is None:
            raise BadMessage(f"signed at {shown(header.get('at'))}, which is not a moment with a time zone")
        if at - now > self.tolerance:
            raise BadMessage(
                f"signed at {utc_text(at)}, {(at - now).total_seconds():.0f} s ahead of this machine's clock: "
                "set the clocks"
            )
        if header.get("number") != number:
            raise BadMessage(f"signed as message {shown(header.get('number'))}, and it came as {shown(number)}: a copy")
        return payload.decode("utf-8", "replace"), at

    def _opened(self, text: str) -> tuple[Mapping[str, Any], bytes]:
        if text.count(".") != 2 or not text.isascii():
            raise BadMessage("not signed")
        try:
            name = _SIGNS.get_unverified_header(text).get("kid")
            keys = {_name(key): key for key in self.keys}
            key = keys.get(str(name))
            if key is None:
                known = ", ".join(keys)
                raise BadMessage(f"signed with the key {shown(name)}, which is not one of this end's: {known}")
            payload = _SIGNS.decode_complete(text, key.reveal(), algorithms=[_ALGORITHM])
        except (InvalidTokenError, RecursionError) as error:
            reason = " ".join(str(error).split())[:80]
            raise BadMessage(f"the signature is not good ({reason}): changed on its way, or forged") from None
        return payload["header"], payload["payload"]


def _name(key: Secret) -> str:
    """Return the name of a key as messages have it: the beginning of its SHA-256."""
    return hashlib.sha256(key.reveal().encode()).hexdigest()[:12]
