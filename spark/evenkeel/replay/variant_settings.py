"""A variant as lines of the settings file: its differences from the settings in force."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.replay.history import HistorySpan, read_span
from evenkeel.replay.results import ReplayOnRecord
from evenkeel.replay.simulation import GENERATED_MANAGER, default_settings
from evenkeel.replay.variants import RECORDED, Variant, overrides_in, settings_of
from evenkeel.settings.key import Value

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class VariantLines:
    """A variant's lines for the file in EVENKEEL_CONFIG: its table's heading, and a line per key that differs.

    `note`: why there are none, or what they were compared with.
    """

    variant: str
    text: str
    note: str


def lines_of(lake: str, replay: ReplayOnRecord) -> list[VariantLines]:
    """Return the lines of each variant of a replay, compared with the settings of its cluster's newest decided cycle.

    With generated traffic they are compared with Pulsar's defaults.
    """
    span, trouble = None, ""
    if not replay.is_generated:
        try:
            span = read_span(lake, replay.cluster, None, None)
        except EvenkeelError as error:
            trouble = f"The settings in force are unknown: {error}."
    names = [name for name in replay.variants if name != RECORDED]
    return [_lines(replay, name, span) if not trouble else VariantLines(name, "", trouble) for name in names]


def _lines(replay: ReplayOnRecord, name: str, span: HistorySpan | None) -> VariantLines:
    in_force = default_settings() if span is None else span.settings
    manager = GENERATED_MANAGER if span is None else span.manager
    try:
        overrides = overrides_in(replay.variants[name])
        wanted = settings_of(Variant(name, overrides), in_force, manager, replay.cluster)
    except SettingsError as error:
        return VariantLines(name, "", f"These settings cannot be taken now: {error}.")
    if not overrides:
        return VariantLines(
            name, "", "It was decided with the settings recorded at that time: there is nothing to copy."
        )
    before, after = in_force.settings.values(), wanted.settings.values()
    differing = {key: value for key, value in after.items() if value != before[key]}
    if not differing:
        return VariantLines(name, "", "All of it is in force already.")
    heading = "[settings]" if span is None else f"[clusters.{_key(replay.cluster)}.settings]"
    note = "Compared with Pulsar's defaults, since the cluster was a model." if span is None else ""
    return VariantLines(name, "\n".join((heading, *toml_lines(differing))), note)


def toml_lines(values: Mapping[str, Value]) -> list[str]:
    """Keys with values as lines of TOML."""
    return [f"{key} = {_toml(value)}" for key, value in sorted(values.items())]


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, frozenset | tuple):
        each = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(map(_quoted, each))}]"
    return _quoted(value or "")  # no value, of a key that may have none, is written as an empty text


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
