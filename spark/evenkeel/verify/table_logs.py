"""Checks of the files of a table's log that Spark and deltalake read: commits, checkpoints, checksums, metadata.

The commits are replayed here, from version 0 or from the oldest checkpoint that all later commits follow, and every
other file of the log is compared with what they add up to.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import LOG_FOLDER
from evenkeel.lake.pending_commits import OUTSIDE_MANIFESTS
from evenkeel.lake.record.tables import damaged
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, files_of
from evenkeel.lake.table_log import (
    HINT,
    DamagedLogFile,
    LoggedCommit,
    LogListing,
    TableState,
    checksum_name,
    commit_name,
    listing,
    read_checkpoint,
    read_checksum,
    read_commits,
    read_hint,
)
from evenkeel.lake.table_metadata import metadata_faults, protocol_faults
from evenkeel.verify.table_states import file_fault, state_faults, statistics_fault

_CHECKPOINTS = 3
"""The newest checkpoints that are compared: readers begin with the newest, older ones serve to read an old version."""
_CHECKSUMS = 20
"""The newest version checksums that are compared: Spark goes by the newest."""
_TRIES = 3
_KEEPING_ROWS = frozenset({"OPTIMIZE", "REORG"})


@dataclass(frozen=True, slots=True, order=True)
class TableFault:
    """A fault in a table's folder: `place` names the commit, checkpoint, checksum or file, `words` say the rest."""

    table: str
    place: str
    words: str


@dataclass(slots=True)
class TableLog:
    """A table's log as it was replayed: `written_at` is commit -> when it was written, by itself (None if unsaid).

    `sound`: commits that have the digest on record; `rewritten`: those that removed files. `state`: the newest version,
    None where it cannot be put together.
    """

    faults: list[TableFault] = field(default_factory=list)
    sound: set[int] = field(default_factory=set)
    rewritten: set[int] = field(default_factory=set)
    written_at: dict[int, datetime | None] = field(default_factory=dict)
    state: TableState | None = None


def check_table(
    lake: str, table: str, known: Mapping[int, str], upkeeps: Container[str] = frozenset()
) -> list[TableFault]:
    """Return the faults of a table's folder, oldest version first.

    `known`: version -> SHA-256 (hex) of the commit's JSON on record. `upkeeps`: ids of upkeeps whose commits may remove
    rows. A table that was never made has no fault, unless commits of it are on record.
    """
    return replay(lake, table, known, upkeeps).faults


def replay(lake: str, table: str, known: Mapping[int, str], upkeeps: Container[str] = frozenset()) -> TableLog:
    """Replay the log of a table and check it, as `check_table` says."""
    files = files_of(Lake(lake).path(table))
    try:
        for _ in range(_TRIES):
            first, log = listing(files).commits[:1], _Replay(files, TABLES[table], known, upkeeps).run()
            if not log.faults or listing(files).commits[:1] == first:  # else upkeep has removed the oldest meanwhile
                break
    except OSError as error:
        raise damaged(lake, table, error) from error
    return log


@dataclass(slots=True)
class _Replay:
    files: TableFiles
    table: Table
    known: Mapping[int, str]
    upkeeps: Container[str]
    log: TableLog = field(default_factory=TableLog)

    def run(self) -> TableLog:
        names = listing(self.files)
        if not names.commits:
            if self.known:
                self._say("its log", "it holds no commit, though some are on record. Restore the table from a copy")
            return self.log
        self._check_gaps(names)
        for name in names.unused:
            self._say(
                f"{LOG_FOLDER}/{name}",
                "Evenkeel neither writes nor reads such a file, other readers go by it. Remove it",
            )
        self._replay(names)
        if names.has_hint:
            self._check_hint(names)
        if self.log.state is not None:
            self._check_files(self.log.state)
        return self.log

    def _say(self, place: str, words: str) -> None:
        self.log.faults.append(TableFault(self.table.name, place, words))

    # Which versions there are.

    def _check_gaps(self, names: LogListing) -> None:
        first, newest = names.commits[0], names.commits[-1]
        for begin, end in _runs(sorted({*range(first, newest)} - {*names.commits})):
            readable = any(version >= end for version in names.checkpoints)
            words = "readers begin after them" if readable else f"no version after {begin - 1} can be read"
            self._say(_commits(begin, end), f"missing in the middle of the log: {words}. Restore them from a copy")
        beyond = sorted(version for version in self.known if version > newest)
        for begin, end in _runs(beyond):
            self._say(
                _commits(begin, end),
                f"on record, but the log ends at {newest}: the table is shorter than a manifest or the log says. "
                "Restore the table from a copy, or decide the cycle again",
            )
        ahead = [version for version in {*names.checkpoints, *names.checksums} if version > newest]
        for version in sorted(ahead):
            if version not in self.known and not self.files.exists(commit_name(version)):
                self._say(
                    _commits(version, version),
                    f"a checkpoint or checksum of it is there, but the log ends at {newest}: commits at the end were "
                    "removed, or the file is forged. Restore the table from a copy",
                )

    # The commits, and what other files say of the versions that they make.

    def _replay(self, names: LogListing) -> None:
        basis, state = self._basis(names)
        checkpoints = sorted(version for version in names.checkpoints if version != basis)[-_CHECKPOINTS:]
        checksums = frozenset(sorted(names.checksums)[-_CHECKSUMS:])
        for commit in read_commits(self.files, names.commits):
            self._check_commit(commit, {} if state is None else state.metadata)
            if state is None or (basis is not None and commit.version <= basis):
                continue
            if commit.fault is not None:
                state = None  # nothing after it can be compared
                continue
            state.apply(commit)
            if commit.version in checkpoints:
                self._check_checkpoint(names, commit.version, state)
            if commit.version in checksums:
                self._check_checksum(commit.version, state)
        self.log.state = state

    def _basis(self, names: LogListing) -> tuple[int | None, TableState | None]:
        """Return the checkpoint that the replay begins with (None: version 0), and its state (None: no beginning)."""
        present, newest = {*names.commits}, names.commits[-1]
        begin = newest
        while begin - 1 in present:
            begin -= 1
        if begin == 0:
            return None, TableState()
        for version in sorted(version for version in names.checkpoints if begin - 1 <= version <= newest):
            state = self._read_checkpoint(names, version, are_commits_there=False)
            if state is not None:
                self._check_metadata(f"checkpoint {version}", state.metadata, state.protocol)
                return version, state
        self._say("its log", f"it begins at commit {begin} without a checkpoint: restore `{LOG_FOLDER}` from a copy")
        return None, None

    def _check_commit(self, commit: LoggedCommit, before: Mapping[str, Any]) -> None:
        place, known = f"commit {commit.version}", self.known.get(commit.version)
        if commit.digest == known:
            self.log.sound.add(commit.version)
        elif known is not None:
            self._say(
                place,
                "its bytes are not those on record: it was changed or replaced after it was written, so readers may be "
                "led to other files or past some of them. Restore it from a copy",
            )
        stamp = commit.info.get("timestamp")
        self.log.written_at[commit.version] = _moment(stamp)
        if commit.fault is not None:
            self._say(place, f"it {commit.fault}")
            return
        self._check_metadata(place, commit.metadata, commit.protocol)
        if commit.metadata is not None:
            lost = {*(before.get("configuration") or {})} - {*(commit.metadata.get("configuration") or {})}
            for name in sorted(lost):
                self._say(place, f"property {name} was removed, which no writer of Evenkeel does. Set it again")
        for kind in sorted({*commit.unknown}):
            self._say(place, f"it has an action `{kind}`, which no writer of Evenkeel leaves. Restore it from a copy")
        for add in commit.adds:
            if words := file_fault(self.table, add):
                self._say(place, f"{words}. Restore the table from a copy")
        if commit.removes:
            self.log.rewritten.add(commit.version)
        if _removes_rows(commit) and _upkeep_of(commit.info) not in self.upkeeps:
            self._say(place, _rewriting(commit.info))

    def _check_metadata(self, place: str, metadata: Any, protocol: Any) -> None:
        faults = [*metadata_faults(self.table, metadata)] if metadata else []
        faults += protocol_faults(protocol) if protocol else []
        for words in faults:
            self._say(
                place,
                f"{words}: no writer of Evenkeel leaves that, and readers go by it. Restore the table from a copy",
            )

    def _read_checkpoint(self, names: LogListing, version: int, *, are_commits_there: bool) -> TableState | None:
        parts = names.checkpoints[version]
        try:
            state, unknown = read_checkpoint(self.files, parts)
        except DamagedLogFile as error:
            advice = (
                f"All that it held is in the commits: remove {self._files_of(parts)}, and the table can be read"
                if are_commits_there
                else "The commits before it are gone: restore it from a copy"
            )
            self._say(f"checkpoint {version}", f"it is empty, cut short or no Parquet file ({error}). {advice}")
            return None
        for kind in sorted({*unknown}):
            self._say(f"checkpoint {version}", f"it has an action `{kind}`, which no writer of Evenkeel leaves")
        return state

    def _check_checkpoint(self, names: LogListing, version: int, state: TableState) -> None:
        found = self._read_checkpoint(names, version, are_commits_there=True)
        for words in () if found is None else state_faults(state, found):
            self._say(
                f"checkpoint {version}",
                f"{words}: readers that begin with it see another table than the commits make. Remove "
                f"{self._files_of(names.checkpoints[version])}; the commits hold all of it",
            )

    def _files_of(self, parts: Collection[str]) -> str:
        hint = self.files.full(f"{LOG_FOLDER}/{HINT}")
        return f"{', '.join(self.files.full(f'{LOG_FOLDER}/{name}') for name in parts)} and {hint}"

    def _check_checksum(self, version: int, state: TableState) -> None:
        place, name = f"checksum {version}", self.files.full(checksum_name(version))
        try:
            said = read_checksum(self.files, version)
        except FileNotFoundError:
            return
        except DamagedLogFile:
            self._say(place, f"it is empty or cut short. Remove {name}; readers do without it")
            return
        for words in _checksum_faults(state, said):
            self._say(place, f"{words}: Spark goes by it. Remove {name}; readers do without it")

    def _check_hint(self, names: LogListing) -> None:
        name = self.files.full(f"{LOG_FOLDER}/{HINT}")
        try:
            said = read_hint(self.files)
        except FileNotFoundError:
            return
        except DamagedLogFile:
            self._say(HINT, f"it is empty or cut short. Remove {name}; readers do without it")
            return
        version = said.get("version")
        there = {**listing(self.files).checkpoints, **names.checkpoints}  # a writer may have put one there meanwhile
        if not isinstance(version, int) or version not in there:
            self._say(HINT, f"it names checkpoint {version}, which is not there. Remove {name}")
        elif (said.get("parts") or 1) != len(there[version]) or "v2Checkpoint" in said:
            self._say(HINT, f"it names other files of checkpoint {version} than are there. Remove {name}")

    # The files that the newest version has.

    def _check_files(self, state: TableState) -> None:
        """Compare the statistics of files with their rows, if the commit that added them is not known by its digest.

        Of tables that manifests list, only files that upkeep wrote: others count by what manifests say.
        """
        for path, add in state.files.items():
            added_in = state.added_in.get(path)
            by_upkeep = added_in is None or added_in in self.log.rewritten
            if added_in in self.log.sound or not (by_upkeep or self.table.name in OUTSIDE_MANIFESTS):
                continue
            if words := statistics_fault(self.files, self.table, add):
                place = f"file {path}" if added_in is None else f"commit {added_in}, file {path}"
                self._say(
                    place,
                    f"{words}: queries pass over rows, or count them wrong. Restore the log or the file from a copy",
                )


def _checksum_faults(state: TableState, said: Mapping[str, Any]) -> Iterator[str]:
    sizes = sum(int(add.get("size") or 0) for add in state.files.values())
    for name, value in (("numFiles", len(state.files)), ("tableSizeBytes", sizes), ("numMetadata", 1)):
        if name in said and said[name] != value:
            yield f"its {name} is {said[name]}, and the commits make {value}"
    other = TableState(said.get("metadata") or state.metadata, said.get("protocol") or state.protocol, state.files)
    if isinstance(listed := said.get("allFiles"), list):
        other.files = {str(add.get("path")): add for add in listed}
    yield from state_faults(state, other)
    for name in ("domainMetadata", "setTransactions"):
        if said.get(name):
            yield f"it has {name}, which no writer of Evenkeel leaves"


def _removes_rows(commit: LoggedCommit) -> bool:
    """Return True for a commit that may have changed rows; putting files together does not."""
    changes = any(remove.get("dataChange", True) for remove in commit.removes)
    return bool(commit.removes) and (changes or commit.info.get("operation") not in _KEEPING_ROWS)


def _rewriting(info: Mapping[str, Any]) -> str:
    at = _moment(info.get("timestamp"))
    when = "" if at is None else f" of {at.isoformat(timespec='seconds')}"
    by = info.get("engineInfo") or info.get("clientVersion") or "an unknown writer"
    return (
        f"it is a {info.get('operation', 'commit')}{when} by {by} that removes or changes rows, and no upkeep on "
        "record: rows are not what they were. Restore the table from a copy"
    )


def _upkeep_of(info: Mapping[str, Any]) -> str:
    """Return the id of the upkeep that a commit says it belongs to, "" without one."""
    try:
        said = parse_json(info.get("userMetadata") or "{}")
    except NotJson:
        return ""
    return str(said.get("upkeep") or "") if isinstance(said, dict) else ""


def _moment(milliseconds: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _runs(versions: list[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last of each run of versions that follow each other."""
    for version in versions:
        if version - 1 not in versions:
            yield version, next(end for end in range(version, versions[-1] + 1) if end + 1 not in versions)


def _commits(first: int, last: int) -> str:
    return f"commit {first}" if first == last else f"commits {first} to {last}"
