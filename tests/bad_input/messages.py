"""Messages of both queues and wishes that are wrong in one member."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.messages import AgentReport, Control, command_body, control_body, report_body
from tests.bad_input.values import BROKEN_JSON, JSON_VALUES, NAMES, TIMES
from tests.steering.queue.examples import command

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
COMMAND = command_body(command())
CONTROL = control_body(Control("pause", "lab", NOON, "olga", "why"))
REPORT = report_body(AgentReport(Outcome(command()["command_id"], "done", NOON, "seen"), "agent-1", "lab"))
_TEXTS = {"text", "empty-text", "nul", "control", "rtl", "quotes", "path", "long"}
_KINDS = {"command": COMMAND, "control": CONTROL, "report": REPORT}
# What may stand in a member: of these whatever text or nothing, of the others what is listed.
_FREE = {"detail", "agent", "by", "reason", "cluster", "plan_id", "algorithm"}
_RIGHT: dict[str, set[str]] = {
    **dict.fromkeys(_FREE, _TEXTS | {"null"}),
    "command_id": {"text", "quotes", "path"},
    "step": {"zero"},
    "unload_children": {"null", "true"},
    "cuts": {"null"},
    "from_broker": {"null"},
    "cycle_at": {"null"},
}


def bodies() -> Iterator[tuple[str, str, str]]:
    """Id, kind of message, and a body that is none."""
    for kind, sound in _KINDS.items():
        for name, content in BROKEN_JSON.items():
            yield f"{kind} {name}", kind, content.decode("utf-8", "surrogateescape")
        message = json.loads(sound)
        for member in ("evenkeel", "schema", kind):
            yield f"{kind} {member} missing", kind, json.dumps({k: v for k, v in message.items() if k != member})
            for name, value in JSON_VALUES.items():
                yield f"{kind} {member} {name}", kind, json.dumps({**message, member: value})
        for member in message[kind]:
            for name, value in JSON_VALUES.items():
                if name in _RIGHT.get(member, ()) and (kind, member) != ("command", "cycle_at"):
                    continue
                yield f"{kind} {kind}.{member} {name}", kind, json.dumps(_with(message, kind, member, value))
        for member in ("made_at", "seen_at", "cycle_at", "expires_at"):
            for name, text in TIMES.items() if member in message[kind] else ():
                yield f"{kind} {kind}.{member} time-{name}", kind, json.dumps(_with(message, kind, member, text))


def _with(message: dict[str, Any], kind: str, member: str, value: Any) -> dict[str, Any]:
    return {**message, kind: {**message[kind], member: value}}


WISHES = {
    "split": {"kind": "split", "namespace": "acme/orders", "bundle": "0x00000000_0x40000000"},
    "unload": {"kind": "unload", "namespace": "acme/orders", "bundle": "0x00000000_0x40000000"},
}
# Whether there is such an algorithm or broker is for the cycle to say. `quotes` has one slash, as a namespace has.
_RIGHT_IN_WISHES: dict[str, set[str]] = {
    "namespace": {"quotes"},
    "splitBoundaries": {"null", "list"},
    "unload": {"true"},
    **dict.fromkeys(("splitAlgorithmName", "destinationBroker"), _TEXTS | {"null"}),
}
_OF = {
    "split": {"kind", "namespace", "bundle", "splitBoundaries", "unload", "splitAlgorithmName"},
    "unload": {"kind", "namespace", "bundle", "destinationBroker"},
}
_OF_WISHES = ("kind", "namespace", "bundle", "splitBoundaries", "unload", "splitAlgorithmName", "destinationBroker")


def wishes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and a wish that is none."""
    for kind, sound in WISHES.items():
        for member in _OF_WISHES:
            for name, value in JSON_VALUES.items():
                is_known = member in _OF[kind]
                if not is_known or name not in _RIGHT_IN_WISHES.get(member, ()):
                    yield f"{kind} {member} {name}", {**sound, member: value}
        for name, text in NAMES.items():
            yield f"{kind} namespace name-{name}", {**sound, "namespace": text}
            yield f"{kind} bundle name-{name}", {**sound, "bundle": text}
            yield f"{kind} unknown name-{name}", {**sound, text: 1}
