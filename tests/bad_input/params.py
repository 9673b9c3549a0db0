"""Params of a DAG run, and variables of the environment, that are wrong in one place."""

from collections.abc import Iterator
from typing import Any

from tests.bad_input.values import JSON_VALUES, NAMES, TIMES

_NOTHING = {"null", "zero", "empty-text", "list", "object"}
"""What stands for a param that is not given."""


def params() -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and params that no run may have, also where they come past Airflow's own check of their shape."""
    for name in ("clusters", "source", "mode", "settings", "at", "wishes"):
        for kind, value in JSON_VALUES.items():
            if kind not in _NOTHING:
                yield f"{name} {kind}", {name: value}
    for kind, text in TIMES.items():
        if text:
            yield f"at time-{kind}", {"at": text}
    for kind, text in NAMES.items():
        if text:
            yield f"mode name-{kind}", {"mode": text}
            yield f"source name-{kind}", {"source": text}
            yield f"clusters name-{kind}", {"clusters": [text]}
            yield f"settings name-{kind}", {"settings": {text: 1}}
    for kind, value in JSON_VALUES.items():
        if kind == "zero":
            continue
        yield f"settings.minUnloadMessage {kind}", {"settings": {"minUnloadMessage": value}}
    yield "mode above the limit", {"mode": "auto"}
    yield "guards where commands go out", {"mode": "approve", "settings": {"evenkeelMaxMovedTrafficPercent": 100}}


VARIABLES = {
    "EVENKEEL_MODE": NAMES,
    "EVENKEEL_MODE_LIMIT": NAMES,
    "EVENKEEL_CONFIG": NAMES,
    "EVENKEEL_KEYS_QUEUE_LAB": NAMES,
    "EVENKEEL_KEYS_QUEUE_LAB_FILE": NAMES,
    "EVENKEEL_TOKEN_LAB_FILE": NAMES,
}


def variables() -> Iterator[tuple[str, str, str]]:
    """Id, variable and a text that it may not have."""
    for variable, texts in VARIABLES.items():
        for name, text in texts.items():
            if text and (variable, name) != ("EVENKEEL_KEYS_QUEUE_LAB", "long"):
                yield f"{variable} {name}", variable, text
