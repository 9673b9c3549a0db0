"""Values in force: an operator's override wins over the cluster's own value, which wins over Pulsar's default."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.json_text import parse_json
from evenkeel.settings.compatibility import PLACEMENT, SHEDDING, StrategyPair, contradictions, in_force
from evenkeel.settings.key import Detected, Key, Value, generation_named, short_name
from evenkeel.settings.keys import Settings, registry
from evenkeel.settings.parsing import check_allowed, coerce, known_key, parse

Origin = str
"""Origin of a value. Its first word is default, observed or override. The rest gives details, e.g. "default of Pulsar
5" for a key whose default differs between generations."""

FaultPath = tuple[str | int, ...]
"""Names, and places in lists, that lead to an entry of a TOML file."""
KINDS = ("override", "observed", "default")


@dataclass(frozen=True)
class EffectiveSettings:
    """Settings in force with the origin of each value; stored as JSON text (`to_json`, `from_json`)."""

    settings: Settings
    origins: Mapping[str, Origin]
    problems: tuple[str, ...] = field(default=())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over all keys and values, whatever their origins."""
        return hashlib.sha256(_canonical(self.settings.values()).encode()).hexdigest()

    def rows(self) -> list[dict[str, str]]:
        """Return one row per key in alphabetical order: key, value (JSON text), origin, unit."""
        values = self.settings.values()
        return [
            {"key": k.name, "value": _canonical(values[k.name]), "origin": self.origins[k.name], "unit": k.unit}
            for k in registry().values()
        ]

    def to_json(self) -> str:
        """Return canonical JSON text: equal settings, origins and problems give equal text."""
        values = {name: _plain(value) for name, value in self.settings.values().items()}
        return _canonical({"settings": values, "origins": dict(self.origins), "problems": list(self.problems)})

    @classmethod
    def from_json(cls, text: str) -> EffectiveSettings:
        """Read the settings that `to_json` wrote.

        Keys that it did not know yet are listed, and have the value from before the key existed (`Key.before`): most
        their 4.x default.
        """
        try:
            given = parse_json(text)
            values, origins, problems = given["settings"].items(), given["origins"].items(), list(given["problems"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(f"this is not a settings text of Evenkeel's: {error!r} in {text[:80]!r}") from None
        values, origins = dict(values), dict(origins)
        typed: dict[str, Value] = {name: coerce(known_key(name), value) for name, value in values.items()}
        for name in sorted(registry().keys() - values.keys()):
            typed[name] = (missing := known_key(name)).before
            problems.append(f"{name} is missing in the settings text: {_what_held(missing)}")
        return cls(
            settings=Settings().with_values(typed),
            origins={name: _origin(origins.get(name, "default")) for name in registry()},
            problems=tuple(problems),
        )


def _what_held(missing: Key) -> str:
    if missing.before == missing.default:
        return "its 4.x default holds"
    return f"it is older than the key, and {_canonical(missing.before)} holds, as it did then"


def _origin(text: object) -> Origin:
    if isinstance(text, str) and text.replace(":", " ").replace(",", " ").split(" ")[0] in KINDS:
        return text
    raise SettingsError(f"unknown origin {text!r} in a settings text: it begins with {', '.join(KINDS)}")


def _plain(value: Value) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain, ensure_ascii=False)


@lru_cache(maxsize=512)  # of every cluster of a run: each task reads all of them, again and again
def settings_in(text: str | None) -> Settings:
    """Return the settings in force from the JSON text of a hand-over; Pulsar's defaults if none are resolved yet."""
    return EffectiveSettings.from_json(text).settings if text else Settings()


@lru_cache(maxsize=64)
def digest_with(text: str, name: str, value: str) -> str:
    """Return the digest of the settings in a text of `EffectiveSettings.to_json` if the key `name` had that value.

    Only the keys in the text count, so a digest does not change when keys are added.
    """
    values = parse_json(text)["settings"]
    return hashlib.sha256(_canonical({**values, name: value}).encode()).hexdigest()


SWITCHES = {
    "loadBalancerSheddingEnabled": "evenkeelSheddingEnabled",
    "loadBalancerAutoBundleSplitEnabled": "evenkeelSplitEnabled",
}
"""The cluster's own switches, never taken from it, and Evenkeel's own switches that replace them."""


def resolve(
    *,
    observed: Mapping[str, str] | None,
    overrides: Mapping[str, object] | None,
    generation: str | Detected = "4.x",
) -> EffectiveSettings:
    """Put default, observed and override together, the later over the earlier.

    `observed` is a broker's `GET /admin/v2/brokers/configuration/runtime`: all values text; keys that are not about
    load balancing are passed over. An unreadable value in it leaves the default in force and is listed in `problems`. A
    value out of range is taken, as the cluster runs with it, and listed. The cluster's shedding and split switches are
    never taken. `overrides` are an operator's: unknown keys, wrong types, values out of range and contradictions raise
    `SettingsError`. An override of `evenkeelPulsarVersion` other than "auto" wins over `generation`, which may also be
    the generation of the brokers' versions. If Pulsar itself runs another strategy than the configured one, that one is
    in force (see `compatibility`).
    """
    chosen = {name: _override(name, given) for name, given in (overrides or {}).items()}
    version = str(chosen.get("evenkeelPulsarVersion", "auto"))
    detected = generation if isinstance(generation, Detected) else Detected(generation_named(generation))
    held = detected if version == "auto" else Detected(generation_named(version))
    values: dict[str, Value] = Settings.for_generation(held.generation).values()
    origins: dict[str, Origin] = {name: _default_origin(key, held) for name, key in registry().items()}
    problems: list[str] = []
    seen, odd = _read_observed(observed or {})
    problems += odd
    for name, value in seen.items():
        values[name], origins[name] = value, "observed"
    for name, value in chosen.items():
        values[name], origins[name] = value, "override"
    values["evenkeelPulsarVersion"] = short_name(held.generation)
    if version == "auto" and held.known:
        origins["evenkeelPulsarVersion"] = f"observed{held.note}"
    _fall_back(values, origins, problems)
    settings = Settings().with_values(values)
    # Before the first snapshot the load manager is unknown, unless the operator names it.
    is_told = observed is not None or settings.evenkeelManager != "auto" or "loadManagerClassName" in chosen
    _judge(settings, origins, problems, manager_is_known=is_told)
    return EffectiveSettings(settings, origins, tuple(problems))


def _default_origin(key: Key, held: Detected) -> Origin:
    if key.name.startswith("evenkeel") or not key.defaults:
        return "default"
    return f"default of Pulsar {short_name(held.generation)}{held.note}"


def _fall_back(values: dict[str, Value], origins: dict[str, Origin], problems: list[str]) -> None:
    """Set the strategies that a broker runs instead of the configured ones. An operator's override is never changed."""
    settings = Settings().with_values(values)
    configured = StrategyPair.of(settings)
    run = in_force(configured, settings.manager, settings.generation)
    for key, was, now in (
        (SHEDDING, configured.shedder, run.shedder),
        (PLACEMENT, configured.placement, run.placement),
    ):
        if was == now or origins[key] == "override":
            continue
        values[key] = now
        # The extensible manager never reads the placement key: any value of it is fine.
        if not (settings.manager == "extensible" and key == PLACEMENT) and origins[key] == "observed":
            problems.append(
                f"{key} = {was} does not run beside the rest of the configuration: Pulsar runs {now} instead"
            )
        origins[key] += f", where Pulsar falls back from {was}"


def _override(name: str, given: object) -> Value:
    key = known_key(name)
    if name in SWITCHES:
        raise SettingsError(
            f"{name} is the brokers' own switch and does not switch Evenkeel: set {SWITCHES[name]} instead"
        )
    value = coerce(key, given)
    check_allowed(key, value)
    return value


def _read_observed(observed: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, key in registry().items():
        text = observed.get(name)
        if text is None or name.startswith("evenkeel") or name in SWITCHES:
            continue
        try:
            value = coerce(key, text) if not isinstance(text, str) else parse(key, text)
        except SettingsError as error:
            problems.append(f"observed {error}; brokers report {text!r}, and the default holds")
            continue
        try:
            check_allowed(key, value)
        except SettingsError as error:
            if key.choices:
                problems.append(f"observed {error}; brokers report {text!r}, and the default holds")
                continue
            problems.append(f"observed {error}; taken all the same, as the cluster runs with it")
        values[name] = value
    return values, problems


def _judge(settings: Settings, origins: Mapping[str, Origin], problems: list[str], *, manager_is_known: bool) -> None:
    for contradiction in contradictions(settings):
        if "loadManagerClassName" in contradiction.keys and not manager_is_known:
            continue
        if any(origins[name] == "override" for name in contradiction.keys):
            raise SettingsError(contradiction.text)
        problems.append(contradiction.text)


def read_overrides(path: str | Path) -> dict[str, Value]:
    """Read the overrides in a TOML file of plain `key = value` lines, typed and range-checked.

    Raises `SettingsError`, which names the file and, if known, the line. It is raised for a file that cannot be read or
    is not TOML, for a table, an unknown key, and a value of the wrong type or out of range.
    """
    file = Path(path)
    given, lines = toml_in(file, "settings file")
    overrides: dict[str, Value] = {}
    for name, value in given.items():
        place = f"settings file {file}{f', line {lines[name,]}' if (name,) in lines else ''}"
        if isinstance(value, dict):
            raise SettingsError(f"{place}: [{name}] is a table; write plain lines `key = value`")
        try:
            overrides[name] = _override(name, value)
        except SettingsError as error:
            raise SettingsError(f"{place}: {error}") from None
    return overrides


def typed_overrides(pairs: Iterable[str], option: str) -> dict[str, Value]:
    """Return the overrides in `KEY=VALUE` texts, typed and range-checked; raises `SettingsError`."""
    overrides: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name, is_known = name.strip(), name.strip() in registry()
        if not equals or not (is_known or text.strip("=")):  # a secret may end with `=`
            raise SettingsError(f"{option}{f' {name}' if is_known else ''}: write KEY=VALUE")
        overrides[name] = _override(name, text)
    return overrides


class NotToml(SettingsError):
    """A file is not TOML. `reason` is its fault; `line` is None if it is not known."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, f"is not TOML: {reason}"
        line = re.search(r"\(at line (\d+), column", reason)
        self.line = None if line is None else int(line[1])

    def __str__(self) -> str:
        return f"{self.name} {self.reason}"


def toml_in(file: Path, what: str) -> tuple[dict[str, Any], Mapping[FaultPath, int]]:
    """Return the content of a TOML file, and its entries' lines (`lines_of`); raises `SettingsError` about `what` for
    every fault."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a name that no file can have
        raise SettingsError(f"{what} {file} cannot be read: {error}") from None
    try:
        return tomllib.loads(text), lines_of(text)
    except RecursionError:
        raise NotToml(f"{what} {file}", "it is nested too deep") from None
    except ValueError as error:  # TOMLDecodeError, and whole numbers and dates that Python cannot hold
        raise NotToml(f"{what} {file}", str(error)) from None


# Lines of entries. `tomllib` keeps none, so each line that may begin an entry is parsed by itself.


def lines_of(text: str) -> dict[FaultPath, int]:
    """Return for each entry the line, from 1 on, of its table's beginning or of its value."""
    lines: dict[FaultPath, int] = {}
    table: FaultPath = ()
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        entry: FaultPath = ()
        if line.startswith("["):
            table = _path_in(line) or table
        elif "=" in line and not line.startswith("#"):
            entry = _path_in(f"{line.partition('=')[0]} = 0") or ()
        else:
            continue
        for size in range(1, len(table) + len(entry) + 1):
            lines.setdefault((*table, *entry)[:size], number)
    return lines


def _path_in(line: str) -> FaultPath | None:
    """Return the names that lead to the only entry of a line of TOML; None if it has none."""
    try:
        body: Any = tomllib.loads(line)
    except (ValueError, RecursionError):
        return None
    return tuple(_names(body)) or None


def _names(body: Any) -> Iterator[str]:
    while isinstance(body, dict) and len(body) == 1:
        ((name, body),) = body.items()
        yield name
