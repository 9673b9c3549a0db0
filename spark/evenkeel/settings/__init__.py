"""Settings: Pulsar's own keys (and Evenkeel's few) with unit, range, default and origin; the configuration file."""

from __future__ import annotations

from typing import Any

from evenkeel.pulsar.generations import Generation
from evenkeel.settings.compatibility import contradictions
from evenkeel.settings.key import Detected, Key, Value
from evenkeel.settings.keys import Settings, registry
from evenkeel.settings.parsing import simple_class_name
from evenkeel.settings.resolving import (
    EffectiveSettings,
    digest_with,
    read_overrides,
    resolve,
    settings_in,
    typed_overrides,
)

__all__ = [
    "Detected",
    "EffectiveSettings",
    "Generation",
    "Key",
    "Settings",
    "Value",
    "contradictions",
    "describe",
    "digest_with",
    "read_overrides",
    "registry",
    "resolve",
    "settings_in",
    "simple_class_name",
    "typed_overrides",
]


def describe() -> list[dict[str, Any]]:
    """Return one row per key for the reference page.

    A row holds key, type and range, defaults, the value before the key existed, unit, manager, dynamic, notes, alias
    and meaning.
    """
    return [
        {
            "key": k.name,
            "allowed": k.allowed,
            "default_4_x": k.default,
            "default_3_0": k.default_of("3.0"),
            "default_3_3": k.default_of("3.3"),
            "default_5_0": k.default_of("5.0"),
            "before": k.before,
            "unit": k.unit,
            "manager": k.manager,
            "dynamic": k.dynamic,
            "takes_effect_at_once": k.takes_effect_at_once,
            "decides": k.decides,
            "notes": list(k.notes),
            "deprecated_alias_of": k.deprecated_alias_of,
            "meaning": k.meaning,
        }
        for k in registry().values()
    ]
