"""`prove`: a proof in a file that a data file of a logged commit contains a manifest, or a decision.

Spark is not needed. `tools/check_proof.py` checks the proof with the log's verifier key, without this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.errors import BadInput, LakeError, LogError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.plain_rows import read_file
from evenkeel.lake.record import Attempt, Record, find_cycles
from evenkeel.lake.record.ranges import nearest
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.decided import DECIDED
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.model.amounts import plural
from evenkeel.transparency.keys import VerifierKey
from evenkeel.transparency.lake_log import adding_commit, commit_at, commit_leaf_in, open_followed, storage_of
from evenkeel.transparency.leaves import CommitLeaf, files_digest
from evenkeel.transparency.notes import parse_note
from evenkeel.transparency.proof_file import ProofFile, prove
from evenkeel.transparency.rotations import newest_checkpoint, signers_among

TABLES_OF_DECISIONS = tuple(table.name for table in DECIDED)
"""The tables that are searched for a decision."""
_CYCLES = "cycles"
_SUBJECTS = ("subject", "broker", "destination", "wish_id", "sentence")
"""Columns that name the subject of a decision; the first column with a match counts."""
_DESCRIBING = ("outcome", "rule", "strategy")
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class ProvenRow:
    """A row of a table, and its place.

    `version`: the version of the commit that added the file. `file`: path of the data file below the table's folder.
    `where`: column -> value that select the row in the file.
    """

    table: str
    version: int
    file: str
    where: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProvenCycle:
    """A proof, and the row that it proves.

    `manifest`: a row of `cycles`. `row`: this manifest or a decision, which the proven file contains. `content`: the
    file's bytes. `keys`: the log's keys that signed the checkpoint.
    """

    proof: ProofFile
    manifest: dict[str, Any]
    row: ProvenRow
    content: bytes
    keys: tuple[VerifierKey, ...]


def prove_cycle(
    lake: str,
    cluster: str,
    cycle: str | datetime,
    *,
    subject: str | None = None,
    table: str | None = None,
    number: int | None = None,
    log_keys: Collection[VerifierKey] = (),
    witness_keys: Collection[VerifierKey] = (),
) -> ProvenCycle:
    """Return the proof of the manifest of a cycle's attempt that counts, or of the decision about `subject`.

    `subject` is a bundle, a broker, the id of a request or a sentence. `table` and `number` (from 1, in the order of
    the list in BadInput) choose among several decisions. Raises NoSuchCycle, BadInput with the decisions that exist,
    LogError if the commit has no leaf, LakeError if the file was changed after it was logged, and DamagedLog.
    """
    (attempt,) = find_cycles(lake, cluster=cluster, cycle=cycle, option="CYCLE")
    storage = storage_of(lake)
    log, followed = open_followed(storage, log_keys=log_keys)
    tree = log.tree(newest_checkpoint(storage, log, followed).checkpoint)
    row = manifest_row(lake, attempt) if subject is None else _decision(lake, attempt, subject, table, number)
    logged = commit_leaf_in(tree, row.table, row.version)
    if logged is None:
        raise LogError(
            f"version {row.version} of {row.table} has no leaf in the log: a publish logs what it was handed on, and "
            "`evenkeel log catch-up --adopt` takes in the rest; `evenkeel verify` says more"
        )
    index, leaf = logged
    files = {file.path: file for file in _files(lake, attempt, leaf)}
    proof = prove(log, index, leaf, files.values(), row.file, witness_keys)
    content = files_of(Lake(lake).path(row.table)).read(row.file)
    if hashlib.sha256(content).hexdigest() != files[row.file].digest:
        raise LakeError(
            f"{row.file} of {row.table} is not as it was logged: it was changed. `evenkeel verify` says more"
        )
    keys = signers_among(parse_note(proof.checkpoint), log.all_keys)
    return ProvenCycle(proof, dict(attempt.closed or attempt.planned), row, content, keys)


def manifest_row(lake: str, attempt: Attempt) -> ProvenRow:
    """Return the place of an attempt's newest manifest. Raises LakeError if no file has it."""
    manifest = attempt.closed or attempt.planned
    digest = str(manifest["manifest_digest"])
    for path in _active_files(lake, _CYCLES, attempt):
        if any(row["manifest_digest"] == digest for row in _read(lake, _CYCLES, path, ["manifest_digest"])):
            return ProvenRow(_CYCLES, _version_of(lake, _CYCLES, path), path, {"manifest_digest": digest})
    raise LakeError(f"no file of `cycles` in {lake} has row {manifest['sequence']} of {attempt.cluster} any more")


def _files(lake: str, attempt: Attempt, leaf: CommitLeaf) -> list[DataFile]:
    """Return the data files of a commit as its leaf has them, by the manifest or by the files themselves."""
    listed = [write.files for write in attempt.writes if (write.table, write.version) == (leaf.table, leaf.commit)]
    known = {file.path: file for files in listed for file in files}
    if files_digest(known.values()) == leaf.files_digest:
        return [*known.values()]
    path, commit = Lake(lake).path(leaf.table), commit_at(lake, leaf.table, leaf.commit)
    place, names = files_of(path), () if commit is None else commit.paths
    files = [known.get(name) or hashed(path, name) for name in names if name in known or place.exists(name)]
    if files_digest(files) != leaf.files_digest:
        raise LakeError(
            f"the files of version {leaf.commit} of {leaf.table} are not those that were logged: some were put "
            "together since and removed, or changed. `evenkeel verify` says which"
        )
    return files


@dataclass(frozen=True, slots=True)
class _Decision:
    """A row of a table of decisions, with the values that are shown.

    `write`: its write. `file`: path of its data file; `version` of the commit that added it, None if not known yet.
    """

    table: str
    values: Mapping[str, Any]
    write: Write
    file: str
    version: int | None

    @property
    def words(self) -> str:
        """Return one line that identifies the row."""
        shown = [str(self.values[name]) for name in ("subject", *_DESCRIBING) if self.values.get(name)]
        return f"{self.table}: {', '.join(shown)}"


def _decision(lake: str, attempt: Attempt, subject: str, table: str | None, number: int | None) -> ProvenRow:
    rows = [row for name in TABLES_OF_DECISIONS if table in (None, name) for row in _rows_of(lake, attempt, name)]
    column, chosen = _about(rows, subject)
    if not chosen:
        raise BadInput(_not_there(attempt, rows, subject))
    if number is None and len(chosen) > 1:
        raise BadInput(
            f"{plural(len(chosen), 'decision')} are about {subject!r}: choose one (--number)\n{_list(chosen)}"
        )
    if number is not None and not 1 <= number <= len(chosen):
        raise BadInput(f"--number {number}: {plural(len(chosen), 'decision')} about {subject!r}: {_list(chosen)}")
    row = chosen[(number or 1) - 1]
    version = row.version if row.version is not None else _version_of(lake, row.table, row.file)
    where = {"write_id": row.write.write_id, column: subject}
    where |= {name: str(row.values[name]) for name in _DESCRIBING if row.values.get(name)}
    return ProvenRow(row.table, version, row.file, where)


def _about(rows: Sequence[_Decision], subject: str) -> tuple[str, list[_Decision]]:
    for column in _SUBJECTS:
        about = [row for row in rows if row.values.get(column) == subject]
        if about:
            return column, sorted(about, key=lambda row: (row.table, str(row.values)))
    return "", []


def _not_there(attempt: Attempt, rows: Sequence[_Decision], subject: str) -> str:
    # A model of the planner has no subject: it is about a broker.
    subjects = sorted({str(row.values.get("subject") or row.values.get("broker")) for row in rows})
    hint = nearest(subject, subjects) if subjects else " Nothing was decided in it."
    at = attempt.cycle_at.isoformat()
    return f"no decision of {attempt.cluster} at {at} is about {subject!r}.{hint}"


def _list(rows: Sequence[_Decision]) -> str:
    lines = [f"{number} {row.words}" for number, row in enumerate(rows[:_SHOWN], start=1)]
    return "; ".join([*lines, *([f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else [])])


def _rows_of(lake: str, attempt: Attempt, table: str) -> Iterator[_Decision]:
    """Yield the rows that the attempt wrote to a table, from its own files or from those that upkeep merged."""
    columns = [name for name in (*_SUBJECTS, *_DESCRIBING) if name in TABLES[table].column_names()]
    place = files_of(Lake(lake).path(table))
    for write in attempt.writes_of(table):
        if not write.rows:
            continue
        files: list[tuple[str, int | None]] = [(file.path, write.version) for file in write.files]
        if not files or not all(place.exists(path) for path, _ in files):
            files = [(path, None) for path in _active_files(lake, table, attempt)]
        for path, version in files:
            for values in _read(lake, table, path, [*columns, "write_id"]):
                if values.get("write_id") == write.write_id:
                    yield _Decision(table, values, write, path, version)


def _active_files(lake: str, table: str, attempt: Attempt) -> Iterator[str]:
    """Yield the paths of a table's data files that may have rows of an attempt's cycle."""
    at = attempt.cycle_at
    yield from (file.path for file in Record(lake).files(table).between(attempt.cluster, at, at))


def _version_of(lake: str, table: str, path: str) -> int:
    version = adding_commit(lake, table, path)
    if version is None:
        raise LakeError(
            f"the commit that added {path} to {table} is gone: it is past the log retention of the table, so its list "
            "of files cannot be put together"
        )
    return version


def _read(lake: str, table: str, path: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    full = files_of(Lake(lake).path(table)).full(path)
    try:
        rows: list[dict[str, Any]] = read_file(full, table, columns).to_pylist()
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise LakeError(f"{full} cannot be read: {str(error)[:200]}; restore it") from error
    return rows
