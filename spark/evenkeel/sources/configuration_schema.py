"""The JSON schema of the configuration file, made from the entries that the code knows.

Values are as TOML holds them. Whatever the reader takes fits the schema; what no schema can say (two clusters in one
folder or two lakes, settings that contradict each other, a mode above its limit) is left to the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evenkeel.pulsar.limits import LIMIT_MEANINGS, Limits, highest_limit
from evenkeel.settings import Key, registry
from evenkeel.settings.lakes import LAKE_ENTRIES, MAIN, NAME_PATTERN
from evenkeel.settings.operation import ENTRIES, TABLES, OperationEntry
from evenkeel.settings.resolving import SWITCHES
from evenkeel.sources.configuration_entries import CLUSTER_ENTRIES, ClusterEntry

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SOURCES = ("recording", "admin", "connection", "s3")
_WHOLE, _FIGURE = r"^\s*[+-]?[0-9_]+\s*$", r"^\s*[+-]?[0-9_]*\.?[0-9_]*([eE][+-]?[0-9]+)?\s*$"
_BOOL = r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])\s*$"
Schema = dict[str, Any]


def configuration_schema() -> Schema:
    """The schema of the whole file; settings and limits are defined once, under `$defs`."""
    operation = {table: _table({e.name: _operation(e) for e in ENTRIES if e.table == table}) for table in TABLES}
    return {
        "$schema": DRAFT,
        "title": "Configuration of Evenkeel",
        "type": "object",
        "required": ["clusters"],
        "additionalProperties": False,
        "properties": {
            **{entry.name: _operation(entry) for entry in ENTRIES if not entry.table},
            **operation,
            "lakes": {
                "description": "Further lakes, a table for each, under its name: which clusters belong to it.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": NAME_PATTERN, "not": {"const": MAIN}},
                "additionalProperties": {"$ref": "#/$defs/lake"},
            },
            "settings": _described("#/$defs/settings", "Settings for all clusters, under Pulsar's own keys."),
            "limits": _described("#/$defs/limits", "How much is read of a cluster at most, for all clusters."),
            "clusters": {
                "description": "A table for each cluster, under its name.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"$ref": "#/$defs/cluster"},
            },
        },
        "$defs": {
            "cluster": _cluster(),
            "lake": {
                **_table({entry.name: {**entry.schema, "description": entry.meaning} for entry in LAKE_ENTRIES}),
                "required": [entry.name for entry in LAKE_ENTRIES],
            },
            "settings": _table({name: _setting(key) for name, key in registry().items() if name not in SWITCHES}),
            "limits": _table({field.name: _limit(field.name) for field in fields(Limits)}),
        },
    }


def _table(properties: Mapping[str, Any]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _described(reference: str, meaning: str) -> Schema:
    return {"$ref": reference, "description": meaning}


def _operation(entry: OperationEntry) -> Schema:
    about = {"description": f"{entry.meaning} Default: {entry.default}. {entry.variable} wins over it."}
    if entry.kind == "switch":
        return {"type": "boolean", **about}
    text: Schema = {"type": "string", "pattern": r"\S"}
    if entry.kind in ("names", "lines"):
        return {"type": "array", "items": text, **about}
    return {**text, **({"enum": list(entry.choices)} if entry.choices else {}), **about}


def _cluster() -> Schema:
    running = [entry.name for entry in CLUSTER_ENTRIES if "recording" not in entry.of]
    own = {entry.name: _entry(entry) for entry in CLUSTER_ENTRIES}
    own["settings"] = _described("#/$defs/settings", "Settings of this cluster; they win over those for all.")
    own["limits"] = _described("#/$defs/limits", "Limits of this cluster; they win over those for all.")
    return {
        **_table(own),
        "anyOf": [{"required": [name]} for name in _SOURCES],
        "dependentRequired": {entry.name: list(entry.needs) for entry in CLUSTER_ENTRIES if entry.needs},
        "dependentSchemas": {"recording": {"properties": {key: {"not": {}} for key in running}}},
    }


def _entry(entry: ClusterEntry) -> Schema:
    unit = f" Unit: {entry.unit}." if entry.unit else ""
    return {**entry.schema, "description": f"{entry.meaning}{unit} Default: {entry.default}."}


def _limit(name: str) -> Schema:
    unit, meaning = LIMIT_MEANINGS[name]
    most = highest_limit(name)
    found: Schema = {"type": "integer", "minimum": 1, "default": getattr(Limits(), name)}
    return {**found, **({} if most is None else {"maximum": most}), "description": f"{meaning} Unit: {unit}."}


def _setting(key: Key) -> Schema:
    """The values of a setting; each may also stand there as text, as a broker would write it."""
    default = sorted(key.default) if isinstance(key.default, frozenset) else key.default
    default = list(default) if isinstance(default, tuple) else default
    newer = "" if key.default == key.default_5_0 else f" Default of Pulsar 5: {key.default_5_0}."
    about: Schema = {"description": f"{key.meaning} Unit: {key.unit}.{newer}"}
    if default is not None:
        about["default"] = default
    if key.deprecated_alias_of:
        about["deprecated"] = True
    return {**_values(key), **about}


def _values(key: Key) -> Schema:
    if key.kind == "bool":
        return {"type": ["boolean", "string"], "pattern": _BOOL}
    if key.kind == "int":
        return {"type": ["integer", "string"], "pattern": _WHOLE, **_range(key)}
    if key.kind == "float":
        return {"type": ["number", "string"], "pattern": _FIGURE, **_range(key)}
    if key.kind == "optional float":
        return {"type": ["number", "string"], **_range(key)}
    if key.kind in ("list", "set"):
        return {"type": ["array", "string"], "items": {"type": "string"}}
    if key.kind == "str" and key.choices:
        return {"type": "string", "enum": list(key.choices)}
    return {"type": "string"}


def _range(key: Key) -> Schema:
    found: Schema = {}
    if key.lowest is not None:
        found["minimum"] = key.lowest
    if key.highest is not None:
        found["maximum"] = key.highest
    return found
