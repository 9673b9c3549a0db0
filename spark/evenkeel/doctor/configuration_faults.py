"""Everything that is wrong with a configuration file: where, what, and what to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from croniter import CroniterBadDateError, CroniterError, croniter
from jsonschema import Draft202012Validator

from evenkeel.errors import SettingsError
from evenkeel.settings import resolve, toml_in
from evenkeel.settings.lakes import lake_faults
from evenkeel.settings.operation import ENTRIES, MODES, OperationEntry
from evenkeel.settings.parsing import check_allowed, coerce, known_key
from evenkeel.settings.resolving import SWITCHES
from evenkeel.sources.configuration import faults_of_clusters, read_configuration
from evenkeel.sources.configuration_schema import configuration_schema
from evenkeel.transparency.witness_lines import witnesses_of

_LINE = re.compile(r"\(at line (\d+), column")
_SHOWN = 120
_NEVER = "none"
EntryPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ConfigurationFault:
    """One fault: the entry, as in `clusters.east.silent_seconds` ("" for the file as a whole), the line that it stands
    in (None where that is not known), and what is wrong with what to do."""

    entry: str
    line: int | None
    text: str

    def words(self, file: Path) -> str:
        """The fault in one line, with the file before it as compilers write it."""
        place = str(file) if self.line is None else f"{file}:{self.line}"
        return f"{place}: {self.entry}: {self.text}" if self.entry else f"{place}: {self.text}"


def configuration_faults(file: Path) -> list[ConfigurationFault]:
    """The faults of a file in the order of its lines; none where it is sound. SettingsError where it cannot be read."""
    try:
        body, text = toml_in(file, "configuration")
    except SettingsError as error:
        if not str(error).startswith(f"configuration {file} is not TOML"):
            raise
        line = _LINE.search(str(error))
        said = str(error).removeprefix(f"configuration {file} ")
        return [ConfigurationFault("", None if line is None else int(line[1]), said)]
    lines = lines_of(text)
    found = [*_of_schema(body, lines), *_of_settings(body, lines), *_of_operation(body, lines)]
    found += _of_lakes(file, body, lines)
    if not found:
        found = [*_of_reader(file, lines)]
    first = {fault.entry or fault.text: fault for fault in reversed(found)}
    return sorted(first.values(), key=lambda fault: (fault.line or 0, fault.entry))


# By the schema: entries that are unknown or missing, and values of a wrong kind or range.


def _of_schema(body: Mapping[str, Any], lines: Mapping[EntryPath, int]) -> Iterator[ConfigurationFault]:
    schema = configuration_schema()
    for error in Draft202012Validator(schema).iter_errors(body):
        path = tuple(error.absolute_path)
        if path[:1] == ("lakes",):  # `_of_lakes` says what is wrong there
            continue
        for own, text in _told(path, error, schema):
            yield ConfigurationFault(".".join(map(str, own)), _line(own, lines), text)


def _told(path: EntryPath, error: Any, schema: Mapping[str, Any]) -> Iterator[tuple[EntryPath, str]]:
    """The entries that an error of the schema is about, each with its sentence."""
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        for name in (name for name in error.instance if name not in known):
            yield (*path, name), _unknown((*path, name), name, error.instance[name], known, schema)
    elif error.validator == "dependentRequired":
        (missing,) = [one for one in error.message.split("'")[1::2] if one not in error.instance][:1] or ("?",)
        beside = next(n for n, needs in error.validator_value.items() if n in error.instance and missing in needs)
        yield (*path, beside), f"goes with `{missing}`, which is missing"
    elif error.validator == "anyOf":
        yield (
            path,
            (
                "says nothing of where snapshots come from: give `admin` (web addresses of brokers), `connection`, "
                "`s3` or `recording`"
            ),
        )
    elif error.validator == "not":
        yield path, "is for a running cluster, and `recording` is a folder: take one"
    elif error.validator == "required":
        yield path, "names no cluster: add a table [clusters.NAME] with `admin`, `s3` or `recording`"
    elif error.validator == "minProperties":
        yield path, "names no cluster: add a table [clusters.NAME]"
    else:
        yield path, _wrong_value(path, error)


def _unknown(path: EntryPath, name: str, value: Any, known: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if _is_setting(path):
        return _setting_fault(name, value) or "is not a setting"
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(sorted(known))}"
    if not near and name in schema["$defs"]["settings"]["properties"]:
        hint = "; it is a setting: write it below [settings], or [clusters.NAME.settings]"
    return f"unknown entry{hint}"


def _wrong_value(path: EntryPath, error: Any) -> str:
    said = _setting_fault(str(path[-1]), error.instance) if _is_setting(path) else None
    if said is not None:
        return said
    limit = error.validator_value
    match error.validator:
        case "type":
            wanted = f"is to be {_kinds(limit)}"
        case "minimum":
            wanted = f"is to be {limit:,} at least"
        case "maximum":
            wanted = f"is to be {limit:,} at most"
        case "exclusiveMinimum":
            wanted = f"is to be more than {limit:,}"
        case "enum":
            near = get_close_matches(str(error.instance), limit, n=1)
            wanted = f"is to be one of {', '.join(limit)}{f'; did you mean {near[0]}?' if near else ''}"
        case "minItems":
            wanted = "is to name one at least"
        case _:
            wanted = "is to be a text that is not empty"
    return f"{repr(error.instance)[:_SHOWN]} {wanted}"


_KINDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "a table",
}


def _kinds(names: str | Sequence[str]) -> str:
    return " or ".join(_KINDS[name] for name in ([names] if isinstance(names, str) else names))


def _is_setting(path: EntryPath) -> bool:
    return (len(path) >= 2 and path[0] == "settings") or (len(path) >= 4 and path[2] == "settings")


def _of_settings(body: Mapping[str, Any], lines: Mapping[EntryPath, int]) -> Iterator[ConfigurationFault]:
    """Settings whose value no schema refuses and the settings do: text that is no number, what is not finite."""
    clusters = body.get("clusters")
    tables: list[tuple[EntryPath, Any]] = [((), body)]
    tables += [(("clusters", name), own) for name, own in clusters.items()] if isinstance(clusters, Mapping) else []
    for path, table in tables:
        settings = table.get("settings") if isinstance(table, Mapping) else None
        for name, value in settings.items() if isinstance(settings, Mapping) else ():
            own = (*path, "settings", name)
            said = _setting_fault(name, value)
            if said is not None:
                yield ConfigurationFault(".".join(map(str, own)), _line(own, lines), said)


def _setting_fault(name: str, value: Any) -> str | None:
    """What the settings themselves say of a value; None where it is fine by itself."""
    try:
        if name in SWITCHES:
            resolve(observed=None, overrides={name: value})
        key = known_key(name)
        check_allowed(key, coerce(key, value))
    except SettingsError as error:
        return str(error)
    return None


# Beyond the schema: what entries mean, and what the reader says.


def _of_lakes(file: Path, body: Mapping[str, Any], lines: Mapping[EntryPath, int]) -> Iterator[ConfigurationFault]:
    for path, said in lake_faults(file, body):
        yield ConfigurationFault(".".join(map(str, path)), _line(path, lines), said)


def _of_operation(body: Mapping[str, Any], lines: Mapping[EntryPath, int]) -> Iterator[ConfigurationFault]:
    for entry in ENTRIES:
        table = body if not entry.table else body.get(entry.table)
        value = table.get(entry.name) if isinstance(table, Mapping) else None
        said = None if value is None else _meaning_fault(entry, value, table or {})
        if said is not None:
            path = (entry.table, entry.name) if entry.table else (entry.name,)
            yield ConfigurationFault(entry.path, _line(path, lines), said)


def _meaning_fault(entry: OperationEntry, value: Any, table: Mapping[str, Any]) -> str | None:
    if entry.name.endswith("schedule") and isinstance(value, str) and value.strip():
        return _schedule_fault(entry, value)
    if entry.name == "mode_limit" and value in MODES:
        mode = table.get("mode", MODES[0])
        if mode in MODES and MODES.index(mode) > MODES.index(value):
            return f"allows {value} at most, and `mode` is {mode}: change one of them"
    if entry.kind == "lines" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        try:
            witnesses_of("\n".join(value), "`witnesses`")
        except SettingsError as error:
            return str(error)
    return None


def _schedule_fault(entry: OperationEntry, value: str) -> str | None:
    if value == _NEVER:
        needs = "the DAG needs intervals: leave it out, or give a cron expression"
        return needs if entry.name == "history_schedule" else None
    try:
        croniter(value, datetime.now(UTC)).get_next()
    except CroniterBadDateError:
        return f"{value!r} never comes: give a moment of a date that there is, as in {entry.default!r}"
    except (CroniterError, ValueError) as error:
        return f"{value!r} is not a cron expression, as in {entry.default!r} ({error})"
    return None


def _of_reader(file: Path, lines: Mapping[EntryPath, int]) -> Iterator[ConfigurationFault]:
    """What the reader of the pipeline refuses; of each cluster by itself, then of the file as a whole."""
    own = faults_of_clusters(file)
    for name, said in own.items():
        path = ("clusters", name)
        yield ConfigurationFault(f"clusters.{name}", _line(path, lines), said.rpartition(f"[clusters.{name}]: ")[2])
    if not own:
        try:
            read_configuration(file)
        except SettingsError as error:
            yield ConfigurationFault("", None, str(error).removeprefix(f"configuration {file}").lstrip(":, "))


# Lines of entries. `tomllib` keeps none, so each line that may begin an entry is read by itself.


def lines_of(text: str) -> dict[EntryPath, int]:
    """Entry -> the line, from 1 on, in which its table begins or its value stands."""
    found: dict[EntryPath, int] = {}
    table: EntryPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = _path_in(stripped) or table
            found.setdefault(table, number)
        elif "=" in stripped and not stripped.startswith("#"):
            own = _path_in(f"{stripped.partition('=')[0]} = 0")
            if own is not None:
                for size in range(1, len(own) + 1):
                    found.setdefault((*table, *own[:size]), number)
    return found


def _path_in(line: str) -> EntryPath | None:
    """The names that lead to the only entry of a line of TOML; None where it is none."""
    try:
        body: Any = tomllib.loads(line)
    except (ValueError, RecursionError):
        return None
    names: list[str | int] = []
    while isinstance(body, dict) and len(body) == 1:
        ((name, body),) = body.items()
        names.append(name)
    return tuple(names) or None


def _line(path: EntryPath, lines: Mapping[EntryPath, int]) -> int | None:
    """The line of an entry, or of the nearest table around it."""
    for size in range(len(path), 0, -1):
        if path[:size] in lines:
            return lines[path[:size]]
    return None
