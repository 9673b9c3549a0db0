"""The fields of the form of *What if*, read as params of the DAG `replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.replay.run_params import NUMBERS, REPLAY, SIMULATE
from evenkeel.replay.variants import pairs_in

FIELDS = (*("kind", "cluster", "since", "until", "strategy", "settings", "variants", "limit", "scenario"), *NUMBERS)
_MOST_CHARACTERS = 20_000


def params_of(given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The params that differ from their defaults. BadInput names the field, and the line of it."""
    if sum(len(text) for values in given.values() for text in values) > _MOST_CHARACTERS:
        raise BadInput(f"the form holds more than {_MOST_CHARACTERS:,} characters")
    one = {name: (values[0].strip() if values else "") for name, values in given.items()}
    kind = one.get("kind") or REPLAY
    params: dict[str, Any] = {} if kind == REPLAY else {"kind": kind}
    is_generated = kind == SIMULATE and bool(one.get("scenario"))
    if is_generated:
        params |= {"scenario": one["scenario"], **_numbers(one)}
    else:
        params |= {name: one[name] for name in ("cluster", "since", "until") if one.get(name)}
    strategies = [text for text in given.get("strategy", ()) if text]
    if strategies:
        params["strategies"] = [*dict.fromkeys(strategies)]
    if settings := _pairs(_lines(given, "settings"), "Settings"):
        params["settings"] = settings
    if variants := _variants(_lines(given, "variants")):
        params["variants"] = variants
    if one.get("limit"):
        params["limit"] = _number(one["limit"], "Limit")
    return params


def _numbers(field_values: Mapping[str, str]) -> dict[str, Any]:
    numbers = {}
    for name, usual in NUMBERS.items():
        if text := field_values.get(name):
            value = _number(text, name.capitalize(), whole=isinstance(usual, int))
            if value != usual:
                numbers[name] = value
    return numbers


def _number(text: str, field: str, *, whole: bool = False) -> int | float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise BadInput(f"{field}: {text[:60]!r} is not a {'whole ' if whole else ''}number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise BadInput(f"{field}: {text[:60]!r} is not a number that can be counted with")
    return int(value) if isinstance(value, float) and value == int(value) else value


def _lines(given: Mapping[str, Sequence[str]], name: str) -> list[tuple[int, str]]:
    """Return lines with content, with their numbers; comments and headings of tables are left out."""
    lines = "\n".join(given.get(name, ())).splitlines()
    numbered = [(number, line.strip()) for number, line in enumerate(lines, start=1)]
    return [(number, line) for number, line in numbered if line and not line.startswith(("#", "["))]


def _pairs(lines: Sequence[tuple[int, str]], field: str) -> dict[str, str]:
    """`KEY = VALUE` lines, as a settings file or a command line has them."""
    pairs: dict[str, str] = {}
    for number, line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"{field}, line {number} is not KEY = VALUE")
        if key.strip() in pairs:
            raise BadInput(f"{field}, line {number}: {key.strip()[:80]!r} is set twice")
        pairs[key.strip()] = _plain(value.strip())
    return pairs


def _plain(value: str) -> str:
    """A value without the quotes and brackets of TOML."""
    if len(value) > 1 and value[0] == "[" and value[-1] == "]":
        return ",".join(_plain(part.strip()) for part in value[1:-1].split(",") if part.strip())
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _variants(lines: Sequence[tuple[int, str]]) -> dict[str, dict[str, str]]:
    """`NAME: KEY=VALUE, KEY=VALUE` lines."""
    variants: dict[str, dict[str, str]] = {}
    for number, line in lines:
        name, colon, text = line.partition(":")
        name = name.strip()
        if not colon or not name or not text.strip():
            raise BadInput(f"Variants, line {number} is not NAME: KEY=VALUE, KEY=VALUE")
        if name in variants:
            raise BadInput(f"Variants, line {number}: two variants are called {name[:80]!r}")
        pairs = pairs_in(",".join(part.strip() for part in text.split(",")))
        variants[name] = _pairs([(number, pair) for pair in pairs], "Variants")
    return variants
