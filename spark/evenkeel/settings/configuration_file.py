"""Reading a configuration file: its models, or all its faults at once, each with its line and what to do."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from evenkeel.errors import SettingsError
from evenkeel.settings.cluster_entries import SettingEntries
from evenkeel.settings.configuration import Configuration, entries_at
from evenkeel.settings.entries import Entries, FaultPath, FileContext, did_you_mean
from evenkeel.settings.operation_entries import FROM_ROOT, Operation
from evenkeel.settings.parsing import nearest
from evenkeel.settings.resolving import SWITCHES, NotToml, toml_in

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
        body, text = toml_in(file, "configuration")
    except NotToml as error:
        raise FaultyConfiguration(file, [ConfigurationFault("", error.line, error.reason)]) from None
    return body, lines_of(text)


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


def _line(path: FaultPath, lines: Mapping[FaultPath, int]) -> int | None:
    """Return the line of an entry, or of the nearest table around it."""
    return next((lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in lines), None)
