"""The settings in force for one cluster: values, where each came from, and what was odd on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.settings.key import Value
from evenkeel.settings.reading import coerce, known_key
from evenkeel.settings.settings import Settings, registry

Origin = str
"""Where a value came from. Its first word is default, observed or override; what follows says more, e.g. "default of
Pulsar 5" for a key whose default differs between generations."""

KINDS = ("override", "observed", "default")


@dataclass(frozen=True)
class EffectiveSettings:
    """Settings in force with the origin of each value; travels as JSON text (`to_json`, `from_json`)."""

    settings: Settings
    origins: Mapping[str, Origin]
    problems: tuple[str, ...] = field(default=())

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over all keys and values, whatever their origins."""
        return hashlib.sha256(_canonical(self.settings.values()).encode()).hexdigest()

    def rows(self) -> list[dict[str, str]]:
        """One row per key in alphabetical order: key, value (JSON text), origin, unit."""
        values = self.settings.values()
        return [
            {"key": k.name, "value": _canonical(values[k.name]), "origin": self.origins[k.name], "unit": k.unit}
            for k in registry().values()
        ]

    def to_json(self) -> str:
        """Canonical JSON text: equal settings, origins and problems give equal text."""
        values = {name: _plain(value) for name, value in self.settings.values().items()}
        return _canonical({"settings": values, "origins": dict(self.origins), "problems": list(self.problems)})

    @classmethod
    def from_json(cls, text: str) -> EffectiveSettings:
        """The settings that `to_json` wrote; keys it did not know yet stand at their 4.x default and are listed."""
        try:
            given = json.loads(text)
            values, origins, problems = given["settings"].items(), given["origins"].items(), list(given["problems"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(f"this is no settings text of Evenkeel's: {error!r} in {text[:80]!r}") from None
        values, origins = dict(values), dict(origins)
        for name in sorted(registry().keys() - values.keys()):
            problems.append(f"{name} is missing in the settings text: its 4.x default holds")
        typed: dict[str, Value] = {name: coerce(known_key(name), value) for name, value in values.items()}
        return cls(
            settings=Settings().with_values(typed),
            origins={name: _origin(origins.get(name, "default")) for name in registry()},
            problems=tuple(problems),
        )


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


@lru_cache(maxsize=64)
def settings_in(text: str | None) -> Settings:
    """The settings in force by the JSON text of a hand-over; Pulsar's defaults where none have been resolved yet."""
    return EffectiveSettings.from_json(text).settings if text else Settings()
