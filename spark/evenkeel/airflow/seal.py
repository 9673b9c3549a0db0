"""Sealed values that a task leaves in XCom for a later one: users who may trigger a DAG may often edit XComs too.

The seal is an HMAC-SHA256 over the text, and the run and task that made it. A later task knows the expected run and
task. It rejects a changed value, a value of another task or run, and one without a seal. A hand-over in a file is
covered by its digest in the sealed reference to it.

The keys are in `EVENKEEL_HANDOVER_KEY`, or in the file in `EVENKEEL_HANDOVER_KEY_FILE`, separated by commas: the first
seals and all open. Without them a key is made once, in the folder `.evenkeel` of EVENKEEL_HOME, else of AIRFLOW_HOME,
for the user of the tasks alone. That is enough if all tasks run on one machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import BadInput, SettingsError
from evenkeel.secret import FILE, Secret, text_given
from evenkeel.settings.operation import ENVIRONMENT

KEY_VARIABLE = "EVENKEEL_HANDOVER_KEY"
_KEPT_AS = "handover_key"
_FORM = re.compile(r"sealed ([0-9a-f]{64}) (.{,64000})", re.DOTALL)
"""A sealed value. No task seals a longer text: a large hand-over is in a file."""


class NotSealed(BadInput):
    """The value in XCom is not the one that its task left."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The task whose text it is, and the run that the task was part of."""

    dag_id: str
    run_id: str
    task_id: str

    def __str__(self) -> str:
        return f"the task {self.task_id} of the run {self.run_id} of {self.dag_id}"


def sealed(text: str, origin: Origin) -> str:
    """Return the text for XCom, with the seal of the task that writes it."""
    return f"sealed {_seal(_keys()[0], text, origin)} {text}"


def opened(value: object, origin: Origin) -> str:
    """Return the text that this task sealed. Raises NotSealed for any other text."""
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NotSealed(
            f"what {origin} left in XCom has no seal: an earlier version of Evenkeel left it, or another user or "
            f"program wrote it. {_NOTHING_DONE}"
        )
    seal, text = match.groups()
    if not any(hmac.compare_digest(seal, _seal(key, text, origin)) for key in _keys()):
        raise NotSealed(
            f"what {origin} left in XCom does not have its seal: it was changed, was left by another task or run, or "
            f"was sealed with another key ({KEY_VARIABLE} has to be the same on all machines). {_NOTHING_DONE}"
        )
    return text


def without_seal(value: str) -> str:
    """Return the text of a sealed value, whatever its seal: only for display, never for decisions."""
    match = _FORM.fullmatch(value)
    return value if match is None else match.group(2)


_NOTHING_DONE = (
    "Nothing was done with it, and nothing was sent: trigger a new run of rebalance, or clear all tasks of that run"
)


def _seal(key: Secret, text: str, origin: Origin) -> str:
    covered = json.dumps([origin.dag_id, origin.run_id, origin.task_id, text])
    return hmac.new(key.reveal().encode(), covered.encode(), hashlib.sha256).hexdigest()


def _keys(environment: Mapping[str, str] = ENVIRONMENT) -> tuple[Secret, ...]:
    """Return the key that seals, and further keys that open; `SettingsError` if there is none and none can be
    stored."""
    # Imported late: DAG files import this module, and are read often.
    from evenkeel.spark.home import Home

    given = text_given(KEY_VARIABLE, environment)
    if given is not None:
        from evenkeel.steering.queue.signing import keys_in

        return keys_in(*given)
    home = Path(environment.get("EVENKEEL_HOME") or environment.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    try:
        return (Secret(Home.of(home).secret(_KEPT_AS)),)
    except OSError as error:
        raise SettingsError(
            f"the key that seals what tasks hand on cannot be kept in {home}: {error}. Set {KEY_VARIABLE} (or "
            f"{KEY_VARIABLE + FILE}) for all of Airflow; make one with `openssl rand -hex 32`"
        ) from None
