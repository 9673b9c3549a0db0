"""The configuration file: its model, from which JSON schema and reference page are made, and its reader.

The reader returns the models, or all faults at once, each with its line and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from evenkeel.errors import SettingsError
from evenkeel.secret import variable_name
from evenkeel.settings.cluster_entries import ClusterEntries, LimitEntries, SettingEntries
from evenkeel.settings.entries import (
    FROM_ROOT,
    AirflowEntries,
    Entries,
    FileContext,
    LakeEntries,
    LogEntries,
    Operation,
    context_of,
    did_you_mean,
    raise_faults,
)
from evenkeel.settings.names import default_keys, default_landing
from evenkeel.settings.parsing import nearest
from evenkeel.settings.resolving import SWITCHES, FaultPath, NotToml, toml_in


class Configuration(Operation):
    """The whole file."""

    model_config = ConfigDict(title="Configuration of Evenkeel")

    settings: SettingEntries = SettingEntries()
    """Settings for all clusters, under Pulsar's own keys."""
    limits: LimitEntries = LimitEntries()
    """Limits on what is read of a cluster, for all clusters."""
    clusters: Annotated[dict[str, ClusterEntries], Field(min_length=1)]
    """A table for each cluster, under its name."""

    @field_validator("clusters", mode="after")
    @classmethod
    def _clusters_apart(cls, clusters: dict[str, ClusterEntries], info: ValidationInfo) -> dict[str, ClusterEntries]:
        raise_faults(_cluster_faults(clusters, context_of(info).file))
        return clusters


def _cluster_faults(clusters: Mapping[str, ClusterEntries], file: Path) -> Iterator[tuple[FaultPath, str]]:
    """Yield folders, queues and secrets that two clusters share.

    Two clusters in one folder would be mixed up. An agent rejects the commands of another cluster than its own.
    Different names that share a variable would give one cluster's token or keys to another.
    """
    folders: dict[Path, str] = {}
    queues: dict[str, str] = {}
    variables: dict[tuple[str, str], tuple[str, str]] = {}
    for name, cluster in sorted(clusters.items()):
        if cluster.recording is None:
            other = folders.setdefault((file.parent / (cluster.landing or default_landing(name))).resolve(), name)
            if other != name:
                yield (name, "landing"), f"{other} and {name} land in the same folder: give each its own `landing`"
        for entry, url in (("queue", cluster.queue), ("reports", cluster.reports)):
            if url is not None and (other := queues.setdefault(url, name)) != name:
                yield (name, entry), f"{other} and {name} share the queue: give each its own"
        keys = None if cluster.queue is None else cluster.queue_keys or default_keys(name)
        for entry, secret in (("connection", cluster.connection), ("queue_keys", keys)):
            if secret is None:
                continue
            first, other = variables.setdefault((entry, variable_name("", secret)), (secret, name))
            if first != secret:
                yield (
                    (name, entry),
                    f"{other} and {name} differ in `{entry}`, and one environment variable would stand for both: give "
                    f"one of them another `{entry}`",
                )


class _SchemaOfToml(GenerateJsonSchema):
    """JSON schema of values as TOML has them: without null."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        has_value = schema["default"] is not None and not isinstance(schema["default"], Entries)
        return super().default_schema(schema) if has_value else self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def configuration_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors.

    All valid files fit it. It cannot express faults between tables, such as two clusters in one folder.
    """
    return Configuration.model_json_schema(schema_generator=_SchemaOfToml)


def entries_at(path: FaultPath) -> type[Entries]:
    """Return the model of the table at a path of the file."""
    match path:
        case ("airflow",):
            return AirflowEntries
        case ("log",):
            return LogEntries
        case ("lakes", _):
            return LakeEntries
        case ("clusters", _):
            return ClusterEntries
        case (*_, "limits"):
            return LimitEntries
        case (*_, "settings"):
            return SettingEntries
    return Configuration


_MANY = 5
_MESSAGES = {
    "model_type": "Input should be a table",
    "dict_type": "Input should be a table",
    "too_short": "Input should have one item at least",
    "missing": "This entry is missing, and has no default",
}
_Model = TypeVar("_Model", bound=Entries)


@dataclass(frozen=True, slots=True)
class ConfigurationFault:
    """One fault of a file.

    `path` is that of its entry, as in `clusters.east.silent_seconds` ("" for the file as a whole). `line` is None if it
    is not known. The text says what is wrong and what to do.
    """

    entry: str
    line: int | None
    text: str

    def words(self, file: Path) -> str:
        """Return the fault in one line, with the file before it as compilers write it."""
        place = str(file) if self.line is None else f"{file}:{self.line}"
        return f"{place}: {self.entry}: {self.text}" if self.entry else f"{place}: {self.text}"


class FaultyConfiguration(SettingsError):
    """A configuration file with faults; the text has the first of them."""

    def __init__(self, file: Path, faults: Sequence[ConfigurationFault]) -> None:
        super().__init__(file, faults)
        self.file, self.faults = file, tuple(faults)

    def __str__(self) -> str:
        first = "; ".join(fault.words(self.file) for fault in self.faults[:_MANY])
        more = len(self.faults) - _MANY
        return f"configuration {first}" + (f"; and {more} more: see `evenkeel config check`" if more > 0 else "")


def faults_in(file: Path) -> tuple[ConfigurationFault, ...]:
    """Return the faults of a file in the order of its lines; raises SettingsError if it cannot be read."""
    try:
        configuration_in(file)
    except FaultyConfiguration as error:
        return error.faults
    return ()


def fault_at(file: Path, path: FaultPath, text: str) -> ConfigurationFault:
    """Return a fault of the entry at a path of the file."""
    return ConfigurationFault(".".join(map(str, path)), _line(path, _read(file)[1]), text)


def configuration_in(file: Path) -> Configuration:
    """Return the whole configuration; raises FaultyConfiguration for any fault."""
    return _validated(Configuration, file, *_read(file))


def operation_in(path: str) -> tuple[Operation, tuple[str, ...]]:
    """Return the operation settings, and the names of all clusters, of a file that is read again after a change.

    Faults of clusters are ignored. Raises FaultyConfiguration for others.
    """
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return _operation.__wrapped__(path, None)  # reading reports the reason
    return _operation(path, (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=4)
def _operation(path: str, _: tuple[int, int] | None) -> tuple[Operation, tuple[str, ...]]:
    file = Path(path)
    body, lines = _read(file)
    clusters = body.get("clusters")
    return _validated(Operation, file, body, lines), tuple(sorted(clusters)) if isinstance(clusters, dict) else ()


def _read(file: Path) -> tuple[dict[str, Any], Mapping[FaultPath, int]]:
    try:
        return toml_in(file, "configuration")
    except NotToml as error:
        raise FaultyConfiguration(file, [ConfigurationFault("", error.line, error.reason)]) from None


def _validated(model: type[_Model], file: Path, body: Mapping[str, Any], lines: Mapping[FaultPath, int]) -> _Model:
    """Return the model of a file's body; top-level entries that only the whole file has are left out."""
    entries = {name: value for name, value in body.items() if model is Configuration or name in model.model_fields}
    try:
        return model.model_validate(entries, context=FileContext(file, body))
    except ValidationError as error:
        faults = {_fault(detail, lines) for detail in error.errors(include_url=False, include_input=False)}
        raise FaultyConfiguration(
            file, sorted(faults, key=lambda detail: (detail.line or 0, detail.entry, detail.text))
        ) from None


def _fault(error: Any, lines: Mapping[FaultPath, int]) -> ConfigurationFault:
    path: FaultPath = error["loc"]
    if path[:2] == ("lakes", FROM_ROOT):
        path = path[2:]
    elif path[:1] == ("lakes",) and path[-1] == "[key]":  # pydantic's mark for a fault of a name
        path = path[:-1]
    text = _MESSAGES.get(error["type"], error["msg"])
    if error["type"] == "extra_forbidden":
        text = _unknown(path)
    elif path == ("clusters",) and error["type"] in ("missing", "too_short"):
        path, text = (), "No cluster is named: add a table [clusters.NAME] with `admin`, `s3` or `recording`"
    return ConfigurationFault(".".join(map(str, path)), _line(path, lines), text)


def _unknown(path: FaultPath) -> str:
    table, name = entries_at(path[:-1]), str(path[-1])
    if name in SWITCHES:
        return f"This is the brokers' own switch and does not switch Evenkeel: set {SWITCHES[name]}"
    if table is SettingEntries:
        return f"Unknown setting: {nearest(name)}"
    if name in SettingEntries.model_fields:
        return "This is a setting: write it below [settings], or [clusters.NAME.settings]"
    hint = did_you_mean(name, table.model_fields) or f"; known are {', '.join(sorted(table.model_fields))}"
    return f"Unknown entry{hint}"


def _line(path: FaultPath, lines: Mapping[FaultPath, int]) -> int | None:
    """Return the line of an entry, or of the nearest table around it."""
    return next((lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in lines), None)
