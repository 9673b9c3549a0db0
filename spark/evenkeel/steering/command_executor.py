"""Carrying one command out on a running cluster: fence, send, and observe the effect.

Just before sending, ownership and boundaries are read again; a command whose premise no longer holds is `stale`. The
outcome is what was observed, not what was answered. Faults of the cluster raise nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from evenkeel.lake.schemas.acted import UNLOAD_TOPIC
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.http_exchange import Hop
from evenkeel.steering.admin_request import METHOD, request_of
from evenkeel.steering.outcome import (
    LONGEST_REQUEST_S,
    AnswerKind,
    Observation,
    Outcome,
    answer_of,
    in_words,
    outcome_of,
    row_of,
)
from evenkeel.steering.premise import Command, Look, OwnershipReader, Sight, sight, why_stale

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to look for an effect.

    `answered_s` after an answer that promises one, `unanswered_s` after none. `unowned_s`: until a bundle that has left
    its broker counts as one that no client needs at present.
    """

    answered_s: float = 15.0
    unanswered_s: float = LONGEST_REQUEST_S
    unowned_s: float = 5.0


class CommandExecutor:
    """Executor of commands, one at a time per bundle; several threads may use it for different bundles."""

    def __init__(
        self,
        client: AdminClient,
        *,
        patience: Patience = Patience(),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._watching = OwnershipReader(client)
        self._patience = patience
        self._now = now
        self._pause = pause

    def carry_out(self, command: Command, before_request: Callable[[], None] = lambda: None) -> Outcome:
        """Send the command if its premise still holds, and return what was seen.

        `before_request` is the last question: it is called once that is known. What it raises is raised, and nothing
        was sent.
        """
        stale = self._why_expired(command) or self._why_silent(command)
        if stale is None:
            look = self._watching.look(command)
            stale = why_stale(command, look) or _why_not_ready(command, look)
        if stale is None:
            before_request()
            stale = self._why_expired(command)
        if stale is not None:
            return self._seen(command, "stale", f"not sent: {stale}")
        begun = time.monotonic()
        (path, body), broker = request_of(command), command["from_broker"]
        hops = self._client.ask(path, broker=broker, method=METHOD, body=body, timeout_s=LONGEST_REQUEST_S)
        return self._after(command, hops[-1], begun)

    def look_again(self, command: Command) -> Outcome | None:
        """Return the outcome of a command that may have been sent; None if no effect is seen and it may be sent
        (again).

        Nothing is ever seen of a topic's unload, so it is not sent again. Call it only when the longest request is
        over.
        """
        look = self._watching.look(command)
        if sight(command, look) is Sight.UNTOUCHED and command["kind"] != UNLOAD_TOPIC:
            return None
        is_expired = self._is_expired(command)
        outcome = outcome_of(command, look, Observation(is_last=True, is_over=True, is_expired=is_expired))
        return None if outcome is None else self._seen(command, *outcome)

    def _after(self, command: Command, hop: Hop, begun: float) -> Outcome:
        """Look until an effect is seen, or as long as waiting is worth it."""
        answer, words = answer_of(hop), in_words(hop)
        row = row_of(Observation(answer))
        if row is not None:
            return self._seen(command, row.outcome, words)
        patience = self._patience.unanswered_s if answer is AnswerKind.NONE else self._patience.answered_s
        first_look = time.monotonic()
        wait, until = _FIRST_PAUSE_S, (begun if answer is AnswerKind.NONE else first_look) + patience
        had_left = False
        while True:
            look = self._watching.look(command)
            if sight(command, look) is Sight.UNOWNED:
                had_left = True
                if answer is AnswerKind.TAKEN:
                    until = min(until, first_look + self._patience.unowned_s)
            is_over = time.monotonic() >= until
            known = Observation(
                answer, had_left=had_left, is_last=is_over, is_over=is_over, is_expired=self._is_expired(command)
            )
            seen = outcome_of(command, look, known)
            if seen is not None:
                outcome, detail = seen
                return self._seen(command, outcome, f"{words}; {detail}" if words else detail)
            self._pause(min(wait, max(0.0, until - time.monotonic())))
            wait = min(wait * 2, _LONGEST_PAUSE_S)

    def _why_silent(self, command: Command) -> str | None:
        """Return why nothing is sent: a bundle does not leave a broker that hangs, and would not be served by one."""
        source, destination = command["from_broker"], command["destination"]
        if destination is not None and self._watching.is_silent(destination):
            return f"its destination {destination} does not answer"
        return f"{source} does not answer" if source is not None and self._watching.is_silent(source) else None

    def _why_expired(self, command: Command) -> str | None:
        return f"expired at {command['expires_at'].isoformat()}" if self._is_expired(command) else None

    def _is_expired(self, command: Command) -> bool:
        return bool(self._now() > command["expires_at"])

    def _seen(self, command: Command, outcome: str, detail: str) -> Outcome:
        return Outcome(command["command_id"], outcome, self._now(), detail)


def _why_not_ready(command: Command, look: Look) -> str | None:
    """Return why the destination is not ready: Pulsar accepts any listed broker, also one with a load manager not
    ready."""
    destination = command["destination"]
    if destination is None or destination not in look.silent:
        return None
    return f"its destination {destination} does not say who owns the bundle, so it may not be ready"
