"""Formats of messages: commands to the agent, reports from it, and controls (pause, resume, withdraw).

A body is JSON: `{"evenkeel": KIND, "schema": 1, KIND: {…}}`. It is canonical (sorted keys, ASCII only, so that every
name survives the characters that SQS allows in a body), with moments as ISO-8601 UTC text with microseconds. A reader
refuses unknown content: another schema, a missing field, a field of another type. The signature shows the writer of a
message (`signing`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.json_text import NotJson, parse_json
from evenkeel.steering.admin_request import demand_sense, shown
from evenkeel.steering.outcome import STRENGTH, Outcome
from evenkeel.steering.queue.fifo import BadMessage
from evenkeel.times import moment_in, utc_text

SCHEMA = 1
WITHDRAW = "withdraw"
CONTROLS = ("pause", "resume", WITHDRAW)

_ID = re.compile(r"[!-~]{1,128}")  # characters that SQS accepts for a deduplication id
_TEXTS = ("command_id", "plan_id", "cluster", "kind", "bundle", "mode", "request")
_TEXTS_OR_NONE = ("from_broker", "destination", "algorithm")
_MOMENTS = ("cycle_at", "expires_at")
# The effect of a command on the cluster: two messages of one id that differ in these fields cannot both be that
# command.
_DEED = ("kind", "bundle", "from_broker", "destination", "algorithm", "cuts", "unload_children", "request")


@dataclass(frozen=True, slots=True)
class AgentReport:
    """An agent's report on one command. The cycle is None if the agent could not read it from the message."""

    outcome: Outcome
    agent: str
    cluster: str | None = None
    plan_id: str | None = None
    cycle_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """A message to every agent of a cluster: `pause` or `resume`, of which the one made last counts; or `withdraw`,
    which stops only the commands of one plan that have not begun."""

    kind: str
    cluster: str
    made_at: datetime
    by: str
    reason: str
    plan_id: str | None = None


def command_body(command: Mapping[str, Any]) -> str:
    """Return the message of a command; raises `BadInput` for a row that no agent would accept."""
    fields = {name: command.get(name) for name in (*_TEXTS, *_TEXTS_OR_NONE, "step", "cuts", "unload_children")}
    fields |= {name: _text_of(command.get(name), name) for name in _MOMENTS}
    if (
        command.get("topic") is not None
    ):  # without fields that do not concern it, agents from before topic unloads can read it
        fields["topic"] = command["topic"]
    if fields["cuts"] is not None:
        fields["cuts"] = list(fields["cuts"])
    body = _body("command", fields)
    read_command(body)
    return body


def report_body(report: AgentReport) -> str:
    """Return the message that reports an outcome."""
    moments = {"seen_at": report.outcome.seen_at, "cycle_at": report.cycle_at}
    texts = {name: None if at is None else _text_of(at, name) for name, at in moments.items()}
    return _body("report", {**asdict(report), **asdict(report.outcome), **texts})


def control_body(control: Control) -> str:
    """Return the message that pauses or resumes a cluster's agents, or withdraws a plan from them."""
    fields = {name: getattr(control, name) for name in ("kind", "cluster", "by", "reason")}
    if control.plan_id is not None:
        fields["plan_id"] = control.plan_id
    body = _body("control", fields | {"made_at": _text_of(control.made_at, "made_at")})
    read_message(body)
    return body


def read_message(body: str) -> dict[str, Any] | Control:
    """Return the command (a row as in `commands`, moments as aware datetimes) or the control; else raise
    `BadMessage`."""
    kind, fields = _opened(body, ("command", "control"))
    return _control(fields) if kind == "control" else _command(fields)


def read_command(body: str) -> dict[str, Any]:
    """Return the command in a body; raises `BadMessage` for anything else."""
    return _command(_opened(body, ("command",))[1])


def read_report(body: str) -> AgentReport:
    """Return the report in a body; raises `BadMessage` for anything else."""
    _, fields = _opened(body, ("report",))
    _demand_texts(fields, ("command_id", "outcome", "detail", "agent"))
    if fields["outcome"] not in STRENGTH:
        raise BadMessage(f"unknown outcome {fields['outcome']!r}", command_id=_id(fields))
    cycle_at = fields.get("cycle_at")
    return AgentReport(
        Outcome(_demand_id(fields), fields["outcome"], _moment(fields, "seen_at"), fields["detail"]),
        fields["agent"],
        _text_or_none(fields, "cluster"),
        _text_or_none(fields, "plan_id"),
        None if cycle_at is None else _moment(fields, "cycle_at"),
    )


def deed(command: Mapping[str, Any]) -> str:
    """Return the digest of a command's effect on the cluster."""
    return hashlib.sha256(_canonical({name: command[name] for name in _DEED}).encode()).hexdigest()


def _body(kind: str, fields: Mapping[str, Any]) -> str:
    return _canonical({"evenkeel": kind, "schema": SCHEMA, kind: fields})


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _opened(body: str, kinds: tuple[str, ...]) -> tuple[str, Mapping[str, Any]]:
    try:
        value = parse_json(body)
        json.dumps(value, ensure_ascii=False).encode()  # fails for half a character, which cannot be stored
    except NotJson as error:
        raise BadMessage(f"not JSON: {error.msg}") from None
    except ValueError:
        raise BadMessage("not JSON: a text in it holds half a character") from None
    if not isinstance(value, dict):
        raise BadMessage(f"not a message of Evenkeel: JSON {type(value).__name__}")
    kind = value.get("evenkeel")
    fields = value.get(kind) if isinstance(kind, str) else None
    fields = fields if isinstance(fields, dict) else {}
    known = _known(fields or value)
    if kind not in kinds:
        raise BadMessage(f"not a message of Evenkeel for this queue: kind {shown(kind)}", **known)
    if value.get("schema") != SCHEMA or isinstance(value.get("schema"), bool):
        raise BadMessage(f"unknown schema version {shown(value.get('schema'))}; this agent knows {SCHEMA}", **known)
    if not fields:
        raise BadMessage(f"a message of kind {kind} without a {kind}", **known)
    return kind, fields


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return all readable fields of the command of a message."""
    try:
        cycle_at = _moment(fields, "cycle_at")
    except BadMessage:
        cycle_at = None
    texts = {name: fields.get(name) for name in ("plan_id", "cluster")}
    readable = {name: value if isinstance(value, str) else None for name, value in texts.items()}
    return {"command_id": _id(fields), "cycle_at": cycle_at, **readable}


def _command(fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        _demand_texts(fields, _TEXTS)
        _demand_id(fields)
        command = {name: fields[name] for name in _TEXTS}
        command |= {name: _text_or_none(fields, name) for name in _TEXTS_OR_NONE}
        command |= {name: _moment(fields, name) for name in _MOMENTS}
        command |= {"topic": _text_or_none(fields, "topic")}
        command |= {"step": _step(fields), "cuts": _cuts(fields), "unload_children": _switch(fields)}
        demand_sense(command)
    except BadInput as error:
        raise BadMessage(str(error), **_known(fields)) from None
    return command


def _control(fields: Mapping[str, Any]) -> Control:
    _demand_texts(fields, ("kind", "cluster", "by", "reason"))
    if fields["kind"] not in CONTROLS:
        raise BadMessage(f"unknown control {shown(fields['kind'])}", cluster=fields["cluster"])
    plan_id = _text_or_none(fields, "plan_id")
    if (plan_id is not None) != (fields["kind"] == WITHDRAW):
        raise BadMessage("a plan is what `withdraw` names, and nothing else does", cluster=fields["cluster"])
    made_at = _moment(fields, "made_at")
    return Control(fields["kind"], fields["cluster"], made_at, fields["by"], fields["reason"], plan_id)


def _demand_texts(fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    wrong = [name for name in names if not isinstance(fields.get(name), str)]
    if wrong:
        raise BadMessage(f"no text in {', '.join(wrong)}", command_id=_id(fields))


def _demand_id(fields: Mapping[str, Any]) -> str:
    command_id = _id(fields)
    if command_id is None:
        raise BadMessage(f"{shown(fields.get('command_id'))} is not a command's id")
    return command_id


def _id(fields: Mapping[str, Any]) -> str | None:
    value = fields.get("command_id")
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadMessage(f"{name} is not text: {shown(value)}", command_id=_id(fields))
    return value


def _moment(fields: Mapping[str, Any], name: str) -> datetime:
    value = fields.get(name)
    moment = moment_in(value)
    if moment is None:
        raise BadMessage(f"{name} {shown(value)} is not a moment with a time zone", command_id=_id(fields))
    return moment


def _step(fields: Mapping[str, Any]) -> int:
    value = fields.get("step")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise BadMessage(f"step {shown(value)} is not a position in a plan")
    return value


def _cuts(fields: Mapping[str, Any]) -> list[int] | None:
    value = fields.get("cuts")
    if value is None:
        return None
    whole = isinstance(value, list) and all(isinstance(cut, int) and not isinstance(cut, bool) for cut in value)
    if not whole:
        raise BadMessage(f"cuts {shown(value)} are not whole numbers")
    return list(value)


def _switch(fields: Mapping[str, Any]) -> bool | None:
    value = fields.get("unload_children")
    if value is not None and not isinstance(value, bool):
        raise BadMessage(f"unload_children {shown(value)} is neither true nor false")
    return value


def _text_of(value: Any, name: str) -> str:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise BadInput(f"{name} {value!r} of a command has no time zone")
    return utc_text(moment)
