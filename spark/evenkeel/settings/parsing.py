"""Conversion of texts from brokers and operators to values of the right type.

Messages name the key and what it takes. They repeat numbers and known spellings: another text may be a secret at the
wrong key.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable

from evenkeel.errors import SettingsError
from evenkeel.settings.key import INT_HIGHEST, Key, Value
from evenkeel.settings.keys import registry

_PULSAR_PACKAGE = re.compile(r"org\.apache\.pulsar\.[\w.$]*[.$](\w+)")
_OPTIONAL = re.compile(r"Optional\[(.*)\]")
_BOOLS = {"true": True, "false": False}


def known_key(name: str) -> Key:
    """Return the key of that name; raises a `SettingsError` that names the nearest known key."""
    key = registry().get(name)
    if key is None:
        raise SettingsError(f"unknown setting {name!r}: {nearest(name)}")
    return key


def nearest(name: str) -> str:
    """Return a hint at the known key, or the word of known keys, that looks most like `name`."""
    lower = {k.lower(): k for k in registry()}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    if close:
        return f"the nearest known key is {lower[close[0]]!r}"
    words = {word.lower(): word for key in registry() for word in re.findall("[A-Z]?[a-z]+", key)}
    for word in difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.7):
        return f"`evenkeel settings {words[word]}` lists the keys that look like it"
    return "no known key looks like it; `evenkeel settings` lists them all"


def simple_class_name(text: str) -> str:
    """Return the simple name of Pulsar's own classes; any other class stays as written."""
    match = _PULSAR_PACKAGE.fullmatch(text.strip())
    return match.group(1) if match else text.strip()


def parse(key: Key, text: str) -> Value:
    """Return the value in a broker's text (`Optional[1.0]`, `[a, b]`, a class name, …); raises `SettingsError` if
    none."""
    text = text.strip()
    if key.kind == "bool":
        return _parse_bool(key, text)
    if key.kind in ("int", "float", "optional float"):
        return _parse_number(key, text)
    if key.kind == "class":
        return simple_class_name(text)
    if key.kind in ("list", "set"):
        return _collect(key, text.removeprefix("[").removesuffix("]").split(","))
    return text


def coerce(key: Key, given: object) -> Value:
    """Return an operator's value (typed, or text as from a command line) in the key's exact type, not range-checked."""
    if isinstance(given, str):
        return parse(key, given)
    if key.kind == "optional float" and given is None:
        return None
    if key.kind == "bool" and isinstance(given, bool):
        return given
    numeric = isinstance(given, int | float) and not isinstance(given, bool)
    if key.kind in ("int", "float", "optional float") and numeric:
        return _number(key, given)  # type: ignore[arg-type]
    if key.kind in ("list", "set") and isinstance(given, list | tuple | set | frozenset):
        return _collect(key, given)
    raise _wrong(key, given)


def check_allowed(key: Key, value: Value) -> None:
    """Raise `SettingsError` with key, value and allowed range if the value is out of range or not one of the
    choices."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        low = key.lowest is not None and value < key.lowest
        high = key.highest is not None and value > key.highest
        if low or high:
            raise SettingsError(f"{key.name} = {value} is out of range: allowed is {key.allowed} ({key.unit})")
    spelled = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple | frozenset) else []
    for text in spelled:
        if key.choices and text not in key.choices:
            lower = {choice.lower(): choice for choice in key.choices}
            close = difflib.get_close_matches(text.lower(), lower, n=1)
            hint = f"; did you mean {lower[close[0]]!r}?" if close else ""
            raise SettingsError(f"{key.name} has an unknown value: allowed is {key.allowed}{hint}")


def _parse_bool(key: Key, text: str) -> bool:
    value = _BOOLS.get(text.lower())
    if value is None:
        raise _wrong(key, text)
    return value


def _parse_number(key: Key, text: str) -> int | float | None:
    match = _OPTIONAL.fullmatch(text)
    text = match.group(1) if match else text
    if key.kind == "optional float" and text in ("", "Optional.empty", "null"):
        return None
    try:
        return _number(key, int(text) if key.kind == "int" else float(text))
    except ValueError:
        raise _wrong(key, text) from None


def _number(key: Key, given: int | float) -> int | float:
    try:
        is_finite = math.isfinite(given)
    except OverflowError:  # a whole number beyond the range of floats
        is_finite = False
    if not is_finite:
        raise _wrong(key, given)
    if key.kind != "int":
        return float(given)
    if given != int(given) or not -INT_HIGHEST - 1 <= given <= INT_HIGHEST:
        raise _wrong(key, given)
    return int(given)


def _collect(key: Key, parts: Iterable[object]) -> Value:
    texts = []
    for part in parts:
        if not isinstance(part, str):
            raise _wrong(key, part)
        if part.strip():
            texts.append(part.strip())
    return frozenset(texts) if key.kind == "set" else tuple(texts)


def _wrong(key: Key, given: object) -> SettingsError:
    shown = f" = {given}" if isinstance(given, int | float) else ""
    return SettingsError(f"{key.name}{shown} cannot be read: allowed is {key.allowed} ({key.unit})")


# Windows of the day (UTC), as operators write them: `22:00-04:30`.

_WINDOW = re.compile(r"(?P<from_h>[01]\d|2[0-3]):(?P<from_m>[0-5]\d)-(?P<to_h>[01]\d|2[0-3]):(?P<to_m>[0-5]\d)")


def minutes_of(window: str) -> tuple[int, int] | None:
    """Return the first minute of the day and the one after the last; over midnight the end is before the start.

    Returns None for an invalid window, and for one without length: it could mean never as well as always.
    """
    match = _WINDOW.fullmatch(window)
    if match is None:
        return None
    start = int(match["from_h"]) * 60 + int(match["from_m"])
    end = int(match["to_h"]) * 60 + int(match["to_m"])
    return None if start == end else (start, end)


def is_within(minute_of_day: int, windows: Iterable[str]) -> bool:
    """Return True if a minute of the day is in one of the windows; an invalid window contains no minute."""
    return any(_holds(minutes_of(window), minute_of_day) for window in windows)


def _holds(window: tuple[int, int] | None, minute: int) -> bool:
    if window is None:
        return False
    start, end = window
    return start <= minute < end if start < end else minute >= start or minute < end
