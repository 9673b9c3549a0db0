"""How Evenkeel is run, as the configuration file says it: where the lake is, when the DAGs run, what may be sent.

Each entry has an environment variable of the same meaning. A variable that is set wins; else the file that
EVENKEEL_CONFIG names counts. `ENVIRONMENT` is the process's environment with what the file says behind it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from evenkeel.errors import SettingsError
from evenkeel.settings.resolving import toml_in

CONFIGURATION: Final = "EVENKEEL_CONFIG"
MODES: Final = ("dry_run", "approve", "auto")
_STORE = re.compile(r"[a-z0-9]+://")

EntryKind = Literal["text", "path", "address", "switch", "names", "lines"]
"""What a value is: a text; a file's path, or a lake's address, relative to the configuration file; true or false; a
list of names, or of lines."""


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """One entry of the file: its `table` ("" for the file's own level), its `name`, the `variable` that wins over it.

    `default`: in words, where neither says anything. `unless`: other variables that, where set, stand in its place.
    """

    table: str
    name: str
    variable: str
    kind: EntryKind
    default: str
    meaning: str
    choices: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The entry as messages and pages name it: `airflow.mode`."""
        return f"{self.table}.{self.name}" if self.table else self.name


def _schedule(name: str, variable: str, default: str, meaning: str) -> OperationEntry:
    return OperationEntry("airflow", name, variable, "text", default, meaning)


ENTRIES: Final = (
    OperationEntry("", "lake", "EVENKEEL_LAKE", "address", "none",
        "Root of the tables: a folder, relative to this file, or `s3a://bucket/prefix`. Beside `[lakes]`: of the "
        "clusters that no table names."),
    _schedule("schedule", "EVENKEEL_SCHEDULE", "*/5 * * * *",
        "When `rebalance` runs: a cron expression in UTC, or `none` for manual runs only."),
    _schedule("history_schedule", "EVENKEEL_HISTORY_SCHEDULE", "0 0 * * *",
        "The intervals of `rebalance_history`: a cron expression in UTC."),
    _schedule("heat_schedule", "EVENKEEL_HEAT_SCHEDULE", "*/10 * * * *",
        "When `heat` brings the tables of the heat map up to the record, or `none`."),
    _schedule("upkeep_schedule", "EVENKEEL_UPKEEP_SCHEDULE", "17 3 * * *", "When `upkeep` runs, or `none`."),
    OperationEntry("airflow", "mode", "EVENKEEL_MODE", "text", "dry_run",
        "What the schedule's runs may do: `dry_run` sends nothing, `approve` asks a person, `auto` sends.", MODES),
    OperationEntry("airflow", "mode_limit", "EVENKEEL_MODE_LIMIT", "text", "as `mode`",
        "The most that a run may be triggered with.", MODES),
    OperationEntry("airflow", "approvers", "EVENKEEL_APPROVERS", "names", "whoever may in Airflow",
        "The logins that may answer an approval."),
    OperationEntry("airflow", "four_eyes", "EVENKEEL_FOUR_EYES", "switch", "false",
        "Whether whoever triggered a run, or made a wish that it takes up, cannot approve its plan."),
    OperationEntry("airflow", "upkeep_shorten", "EVENKEEL_UPKEEP_SHORTEN", "switch", "false",
        "Whether whoever may trigger `upkeep` may have the record kept for a shorter time than was promised."),
    OperationEntry("airflow", "handover_key_file", "EVENKEEL_HANDOVER_KEY_FILE", "path", "a key of this machine",
        "The file with the key that seals what tasks hand to each other, relative to this file.",
        unless=("EVENKEEL_HANDOVER_KEY",)),
    OperationEntry("log", "key_file", "EVENKEEL_LOG_KEY_FILE", "path", "none: the lake is not signed",
        "The file with the private key of the transparency log, relative to this file; for its owner alone.",
        unless=("EVENKEEL_LOG_KEY", "EVENKEEL_LOG_CONNECTION")),
    OperationEntry("log", "witnesses", "EVENKEEL_WITNESSES", "lines", "none",
        "The witnesses of the log, a line each: `<verifier key> <URL>`, a file's path, `s3://bucket/prefix`, or "
        "`rfc3161 <URL> ca_file=PATH`."),
)  # fmt: skip
"""Every entry, in the order of the reference page."""

TABLES: Final = tuple(dict.fromkeys(entry.table for entry in ENTRIES if entry.table))
_BY_VARIABLE = {entry.variable: entry for entry in ENTRIES}


def operation_in(file: Path, body: Mapping[str, Any]) -> dict[str, str]:
    """Variable -> its text, of the entries that stand in the body of the configuration `file`.

    Raises SettingsError, with the file and the entry, for a value that it cannot have.
    """
    found: dict[str, str] = {}
    for entry in ENTRIES:
        table = body if not entry.table else body.get(entry.table, {})
        if not isinstance(table, Mapping):
            raise SettingsError(f"configuration {file}: `{entry.table}` is not a table")
        if entry.name in table:
            found[entry.variable] = _text(entry, table[entry.name], file)
    return found


def _text(entry: OperationEntry, value: Any, file: Path) -> str:
    if entry.kind == "switch":
        if isinstance(value, bool):
            return str(value).lower()
        raise _wrong(entry, value, file, "write true or false")
    if entry.kind in ("names", "lines"):
        if isinstance(value, list) and all(isinstance(one, str) and one.strip() for one in value):
            return ("," if entry.kind == "names" else "\n").join(value)
        raise _wrong(entry, value, file, 'write a list of texts, as in ["alice", "bob"]')
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _wrong(entry, value, file, "write a text")
    if entry.choices and value not in entry.choices:
        raise _wrong(entry, value, file, f"write one of {', '.join(entry.choices)}")
    if entry.kind == "address":
        return address_beside(file, value)
    return str(file.absolute().parent / value) if entry.kind == "path" else value


def address_beside(file: Path, value: str) -> str:
    """A lake's address as the configuration `file` gives it: a folder is relative to the file."""
    return value if _STORE.match(value) else str(file.absolute().parent / value)


def _wrong(entry: OperationEntry, value: Any, file: Path, advice: str) -> SettingsError:
    return SettingsError(f"configuration {file}: `{entry.path}` cannot be {value!r}: {advice}")


@lru_cache(maxsize=4)
def _read(path: str, changed: tuple[int, int] | None) -> Mapping[str, str]:
    """The entries of a file as it was at its last change (ns) and size."""
    file = Path(path)
    return operation_in(file, toml_in(file, "configuration")[0])


def _of_file(path: str) -> Mapping[str, str]:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return _read.__wrapped__(path, None)  # says why it cannot be read
    return _read(path, (stat.st_mtime_ns, stat.st_size))


class OperatorEnvironment(Mapping[str, str]):
    """An environment, and behind it what the configuration file says that it names.

    A variable that is set to nothing counts as not set where the file has its entry. SettingsError, when an entry is
    asked for, where the file cannot be read.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._own = environment

    def __getitem__(self, name: str) -> str:
        given = self._own.get(name)
        entry = _BY_VARIABLE.get(name)
        path = self._own.get(CONFIGURATION)
        if given or entry is None or not path or any(self._own.get(other) for other in entry.unless):
            return self._own[name]
        said = _of_file(path).get(name)
        return self._own[name] if said is None else said

    def __iter__(self) -> Iterator[str]:
        path = self._own.get(CONFIGURATION)
        said = _of_file(path) if path else {}
        yield from dict.fromkeys((*self._own, *(name for name in said if name in self)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


ENVIRONMENT: Final = OperatorEnvironment()
"""This process's environment, with what its configuration file says behind it."""
