"""Checks of the files of a table's log that Spark and deltalake read: commits, checkpoints, checksums, metadata.

The commits are replayed in this process, from version 0 or from the oldest checkpoint that all later commits follow.
Every other file of the log is compared with the result. `check_tables` checks all tables of a record;
`counted_upkeeps` says which upkeeps may remove rows.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import HINT, HINT_NAME, LOG_FOLDER, commit_name
from evenkeel.lake.pending_commits import OUTSIDE_MANIFESTS
from evenkeel.lake.record import Attempt
from evenkeel.lake.record.tables import Row, damaged, is_table, rows_where
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, files_of, links_at
from evenkeel.lake.table_log import (
    DamagedLogFile,
    LoggedCommit,
    LogListing,
    TableState,
    checksum_name,
    listing,
    read_checkpoint,
    read_commits,
    read_object,
)
from evenkeel.lake.table_metadata import metadata_faults, protocol_faults
from evenkeel.verify.chain import CHAIN, CONTENT, Fault
from evenkeel.verify.export import MANIFEST as EXPORT
from evenkeel.verify.table_states import file_fault, state_faults, statistics_fault

_CHECKPOINTS = 3
"""The newest checkpoints that are compared: readers begin with the newest, older ones serve to read an old version."""
_CHECKSUMS = 20
"""The newest version checksums that are compared: Spark goes by the newest."""
_TRIES = 3
_KEEPING_ROWS = frozenset({"OPTIMIZE", "REORG"})


def _fault(table: str, place: str, words: str) -> Fault:
    """Return a fault in a table's folder; `place`: the commit, checkpoint, checksum or file."""
    return Fault("", None, CHAIN if table == "cycles" else CONTENT, table, place, words)


@dataclass(slots=True)
class TableLog:
    """A table's log, and the result of replaying it.

    `known`: version -> SHA-256 (hex) of the commit's JSON on record. `upkeeps`: ids of upkeeps whose commits may remove
    rows. `faults`: the oldest version first. `sound`: commits that have the digest on record. `rewritten`: commits that
    removed files. `written_at`: commit -> the time that it gives for itself, None without one. `state`: the newest
    version, None if it cannot be built.
    """

    files: TableFiles
    table: Table
    known: Mapping[int, str]
    upkeeps: Container[str]
    faults: list[Fault] = field(default_factory=list)
    sound: set[int] = field(default_factory=set)
    rewritten: set[int] = field(default_factory=set)
    written_at: dict[int, datetime | None] = field(default_factory=dict)
    state: TableState | None = None

    def replay(self) -> TableLog:
        """Replay the commits, and compare all other files of the log with the result."""
        names = listing(self.files)
        if not names.commits:
            if self.known:
                self._say("its log", "it holds no commit, though some are on record. Restore the table from a copy")
            return self
        self._check_gaps(names)
        for name in names.unused:
            self._say(
                f"{LOG_FOLDER}/{name}",
                "Evenkeel neither writes nor reads such a file, other readers go by it. Remove it",
            )
        self._replay(names)
        if names.has_hint:
            self._check_hint(names)
        if self.state is not None:
            self._check_files(self.state)
        return self

    def _say(self, place: str, words: str) -> None:
        self.faults.append(_fault(self.table.name, place, words))

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
        self.state = state

    def _basis(self, names: LogListing) -> tuple[int | None, TableState | None]:
        """Return the checkpoint that the replay begins with (None: version 0), and its state (None without a start)."""
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
            self.sound.add(commit.version)
        elif commit.ended == known:
            name = self.files.full(commit_name(commit.version))
            self._say(place, f"its last byte, a line feed, is cut off, and nothing else. Put it back: echo >> {name}")
        elif known is not None:
            self._say(
                place,
                "its bytes are not those on record: it was changed or replaced after it was written, so readers may be "
                "led to other files or past some of them. Restore it from a copy",
            )
        self.written_at[commit.version] = commit.at
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
            self.rewritten.add(commit.version)
        if _removes_rows(commit) and _upkeep_of(commit.info) not in self.upkeeps:
            self._say(place, _rewriting(commit))

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
        checkpoint = self._read_checkpoint(names, version, are_commits_there=True)
        for words in () if checkpoint is None else state_faults(state, checkpoint):
            self._say(
                f"checkpoint {version}",
                f"{words}: readers that begin with it see another table than the commits make. Remove "
                f"{self._files_of(names.checkpoints[version])}; the commits hold all of it",
            )

    def _files_of(self, parts: Collection[str]) -> str:
        names = ", ".join(self.files.full(f"{LOG_FOLDER}/{name}") for name in parts)
        return f"{names} and {self.files.full(HINT_NAME)}"

    def _check_checksum(self, version: int, state: TableState) -> None:
        place, name = f"checksum {version}", checksum_name(version)
        checksum = self._json(place, name)
        for words in () if checksum is None else _checksum_faults(state, checksum):
            self._say(place, f"{words}: Spark goes by it. Remove {self.files.full(name)}; readers do without it")

    def _json(self, place: str, name: str) -> Mapping[str, Any] | None:
        """Return the content of a checksum or hint; None if it is gone, or cut short, which is a fault."""
        try:
            return read_object(self.files, name)
        except FileNotFoundError:
            return None
        except DamagedLogFile:
            self._say(place, f"it is empty or cut short. Remove {self.files.full(name)}; readers do without it")
            return None

    def _check_hint(self, names: LogListing) -> None:
        name = self.files.full(HINT_NAME)
        hint = self._json(HINT, HINT_NAME)
        if hint is None:
            return
        version = hint.get("version")
        # A writer may have added a checkpoint since `names` was listed.
        checkpoints = {**listing(self.files).checkpoints, **names.checkpoints}
        if not isinstance(version, int) or version not in checkpoints:
            self._say(HINT, f"it names checkpoint {version}, which is not there. Remove {name}")
        elif (hint.get("parts") or 1) != len(checkpoints[version]) or "v2Checkpoint" in hint:
            self._say(HINT, f"it names other files of checkpoint {version} than are there. Remove {name}")

    def _check_files(self, state: TableState) -> None:
        """Compare the statistics of files with their rows, unless the commit that added them has the digest on record.

        In tables that manifests list, only files of upkeep are compared: manifests prove the others.
        """
        for path, add in state.files.items():
            added_in = state.added_in.get(path)
            by_upkeep = added_in is None or added_in in self.rewritten
            if added_in in self.sound or not (by_upkeep or self.table.name in OUTSIDE_MANIFESTS):
                continue
            if words := statistics_fault(self.files, self.table, add):
                place = f"file {path}" if added_in is None else f"commit {added_in}, file {path}"
                self._say(
                    place,
                    f"{words}: queries pass over rows, or count them wrong. Restore the log or the file from a copy",
                )


def replay(lake: str, table: str, known: Mapping[int, str], upkeeps: Container[str] = frozenset()) -> TableLog:
    """Replay the log of a table and check it; `known` and `upkeeps` as in `TableLog`.

    A table that was never created has a fault only if commits of it are on record.
    """
    files = files_of(Lake(lake).path(table))
    try:
        for _ in range(_TRIES):
            first, log = listing(files).commits[:1], TableLog(files, TABLES[table], known, upkeeps).replay()
            if not log.faults or listing(files).commits[:1] == first:  # else upkeep has removed the oldest meanwhile
                break
    except OSError as error:
        raise damaged(lake, table, error) from error
    return log


def _checksum_faults(state: TableState, checksum: Mapping[str, Any]) -> Iterator[str]:
    sizes = sum(int(add.get("size") or 0) for add in state.files.values())
    for name, value in (("numFiles", len(state.files)), ("tableSizeBytes", sizes), ("numMetadata", 1)):
        if name in checksum and checksum[name] != value:
            yield f"its {name} is {checksum[name]}, and the commits make {value}"
    metadata, protocol = checksum.get("metadata") or state.metadata, checksum.get("protocol") or state.protocol
    other = TableState(metadata, protocol, state.files)
    if isinstance(listed := checksum.get("allFiles"), list):
        other.files = {str(add.get("path")): add for add in listed}
    yield from state_faults(state, other)
    for name in ("domainMetadata", "setTransactions"):
        if checksum.get(name):
            yield f"it has {name}, which no writer of Evenkeel leaves"


def _removes_rows(commit: LoggedCommit) -> bool:
    """Return True for a commit that may have changed rows; putting files together does not."""
    changes = any(remove.get("dataChange", True) for remove in commit.removes)
    return bool(commit.removes) and (changes or commit.info.get("operation") not in _KEEPING_ROWS)


def _rewriting(commit: LoggedCommit) -> str:
    info = commit.info
    when = "" if commit.at is None else f" of {commit.at.isoformat(timespec='seconds')}"
    by = info.get("engineInfo") or info.get("clientVersion") or "an unknown writer"
    return (
        f"it is a {info.get('operation', 'commit')}{when} by {by} that removes or changes rows, and no upkeep on "
        "record: rows are not what they were. Restore the table from a copy"
    )


def _upkeep_of(info: Mapping[str, Any]) -> str:
    """Return the id of the upkeep that a commit names, "" if it names none."""
    try:
        metadata = parse_json(info.get("userMetadata") or "{}")
    except NotJson:
        return ""
    return str(metadata.get("upkeep") or "") if isinstance(metadata, dict) else ""


def _runs(versions: list[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last of each run of versions that follow each other."""
    for version in versions:
        if version - 1 not in versions:
            yield version, next(end for end in range(version, versions[-1] + 1) if end + 1 not in versions)


def _commits(first: int, last: int) -> str:
    return f"commit {first}" if first == last else f"commits {first} to {last}"


Known = dict[str, dict[int, str]]
"""Table -> version -> SHA-256 (hex) of the commit's JSON, for the commits that are on record."""

_UPKEEPS = "upkeeps"
_FILE = "__filename"
_COLUMNS = ("upkeep_id", "state", "begun_at", "periods", _FILE)
_CLOCKS = timedelta(days=1)
"""The most by which the clock of an upkeep may be ahead of the clock of its commit, or of this machine."""


def note_commits(known: Known, attempts: Iterable[Attempt]) -> None:
    """Add the commits that manifests list to `known`; a digest that it already has, from the log, stays."""
    for attempt in attempts:
        for write in (*attempt.writes, *attempt.reads):
            known.setdefault(write.table, {}).setdefault(write.version, write.commit)


def check_tables(lake: str, known: Known, upkeeps: Iterable[Row]) -> list[Fault]:
    """Return the faults of all tables' folders; commits of `upkeeps` may remove rows.

    An export has other table versions than the record, so `known` is not used for one.
    """
    if files_of(Lake(lake).root).exists(EXPORT):
        known = {}
    ids = frozenset(str(row["upkeep_id"]) for row in upkeeps)
    words = "it is a symbolic link, by which readers and upkeep leave the lake. Remove it"
    faults = [_fault(link.parent.name, link.name, words) for link in links_at(Lake(lake).root)]
    return faults + [fault for table in OF_RECORD for fault in replay(lake, table, known.get(table, {}), ids).faults]


def counted_upkeeps(lake: str, known: Mapping[int, str], now: datetime) -> tuple[list[Row], list[Fault]]:
    """Return the rows of `upkeeps` that count, and a fault for each other row.

    The commit of a row that counts is on record, if any commit of the table is. Its time is not after its commit, nor
    after `now`. An earlier time is no fault: exports and upkeep copy rows into later commits.
    """
    if not is_table(lake, _UPKEEPS):
        return [], []
    log = replay(lake, _UPKEEPS, known)
    if log.state is None:  # its own check says what is wrong with the log
        return [], []
    added_in = {path.rpartition("/")[2]: version for path, version in log.state.added_in.items()}
    counted, faults = [], []
    for row in rows_where(lake, _UPKEEPS, columns=[*_COLUMNS]):
        reason = next(_reasons_against(row, added_in.get(row[_FILE].rpartition("/")[2]), log, known, now), None)
        if reason is None:
            counted.append(row)
        else:
            place = f"{row['state']} row of upkeep {row['upkeep_id']}"
            faults.append(_fault(_UPKEEPS, place, f"{reason}: it counts for nothing, and no row expires by it"))
    return counted, faults


def _reasons_against(
    row: Row, version: int | None, log: TableLog, known: Mapping[int, str], now: datetime
) -> Iterator[str]:
    if known and version not in log.sound:
        yield f"commit {version}, which added it, is not on record with that digest"
    written_at = None if version is None else log.written_at.get(version)
    if row["begun_at"] > (written_at or now) + _CLOCKS:
        yield f"it began at {row['begun_at'].isoformat()}, after its commit of {(written_at or now).isoformat()}"
    if row["begun_at"] > now + _CLOCKS:
        yield f"it began at {row['begun_at'].isoformat()}, which is yet to come"
