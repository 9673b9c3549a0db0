"""`prove`: a proof in a file that a cycle, or one decision of it, is in the transparency log of a lake.

Read without Spark. Whoever has the log's verifier key checks what comes out: `tools/check_proof.py` does so without
anything of Evenkeel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evenkeel.errors import BadInput, LakeError, LogError
from evenkeel.handover import Write
from evenkeel.lake.arrow_files import read_file, with_cluster
from evenkeel.lake.data_files import found_rows
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.roots_here import row_texts
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas.decided import DECIDED
from evenkeel.lake.store import Lake
from evenkeel.lake_log.catch_up import open_followed, storage_of
from evenkeel.lake_log.leaves import manifest_leaf
from evenkeel.lake_log.rotations import newest_checkpoint, signers_among
from evenkeel.model.amounts import plural
from evenkeel.record.read import Attempt, find_cycles
from evenkeel.record.read.ranges import nearest
from evenkeel.record.read.tables import open_table
from evenkeel.transparency.keys import VerifierKey
from evenkeel.transparency.leaf import LogLeaf, ProvenRow, prove_row
from evenkeel.transparency.notes import parse_note
from evenkeel.transparency.proof_file import ProofFile, prove
from evenkeel.transparency.tiles import Tree

if TYPE_CHECKING:
    import pyarrow as pa

TABLES_OF_DECISIONS = tuple(table.name for table in DECIDED)
"""The tables in which a decision is looked for."""
_SUBJECTS = ("subject", "broker", "destination", "wish_id", "sentence")
"""Columns that name what a decision is about; the first of them in which the name stands counts."""
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class ProvenCycle:
    """A proof, and what it is of.

    `row`: the manifest, a row of `cycles`. `decision`: the table and the JSON of the row under it, where one was asked
    for. `keys`: the log's keys that have signed its checkpoint.
    """

    proof: ProofFile
    row: dict[str, Any]
    decision: tuple[str, str] | None
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
    """The proof of the attempt that counts for a cycle, and with `subject` of the decision about it.

    `subject` is a bundle, a broker, a wish or a sentence; `table` and `number` (from 1, in the order of the list that
    BadInput gives) say which where there are several. Raises NoSuchCycle, BadInput with what there is, LogError where
    the manifest has no leaf, and DamagedLog.
    """
    (attempt,) = find_cycles(lake, cluster=cluster, cycle=cycle, option="CYCLE")
    row = dict(attempt.closed or attempt.planned)
    storage = storage_of(lake)
    log, followed = open_followed(storage, log_keys=log_keys)
    newest = newest_checkpoint(storage, log, followed)
    leaf = manifest_leaf(row)
    index = _index_of(log.tree(newest.checkpoint), leaf, row)
    decision = None if subject is None else _decision(Lake(lake), attempt, leaf, subject, table, number)
    proof = prove(log, index, leaf, decision, witness_keys)
    keys = signers_among(parse_note(proof.checkpoint), log.all_keys)
    return ProvenCycle(proof, row, None if decision is None else (decision.table, decision.row), keys)


def _index_of(tree: Tree, leaf: LogLeaf, row: dict[str, Any]) -> int:
    part = b'"digest":"%s"' % row["manifest_digest"].encode()
    for index, entry in tree.find(part):
        if entry == leaf.text:
            return index
        raise LogError(
            f"the leaf {index} of the log has the manifest's digest and says something else: {entry.decode()}"
        )
    raise LogError(
        f"the manifest of {row['cluster']} at {row['cycle_at'].isoformat()} (row {row['sequence']} of its chain) has "
        "no leaf in the log: `evenkeel log catch-up` takes in what a publish has left; `evenkeel verify` says more"
    )


@dataclass(frozen=True, slots=True)
class _DecisionRow:
    """A row of a table of decisions: its JSON, what that holds, and the digests of all rows of the table."""

    table: str
    text: str
    values: dict[str, Any]
    digests: Sequence[bytes]

    @property
    def words(self) -> str:
        """One line that tells the row from others."""
        own = [str(self.values.get(name)) for name in ("subject", "outcome", "rule", "strategy") if name in self.values]
        return f"{self.table}: {', '.join(own)}"


def _decision(
    lake: Lake, attempt: Attempt, leaf: LogLeaf, subject: str, table: str | None, number: int | None
) -> ProvenRow:
    if not leaf.tables:
        raise BadInput(
            f"the manifest of {attempt.cluster} at {attempt.cycle_at.isoformat()} is of schema version "
            f"{attempt.schema_version}, which listed no Merkle roots: its leaf can be proven, and no row under it"
        )
    rows = [row for name in TABLES_OF_DECISIONS if table in (None, name) for row in _rows_of(lake, attempt, leaf, name)]
    chosen = _about(rows, subject)
    if not chosen:
        raise BadInput(_not_there(attempt, rows, subject))
    if number is None and len(chosen) > 1:
        raise BadInput(
            f"{plural(len(chosen), 'decision')} are about {subject!r}: choose one (--number)\n{_list(chosen)}"
        )
    if number is not None and not 1 <= number <= len(chosen):
        raise BadInput(f"--number {number}: {plural(len(chosen), 'decision')} about {subject!r}: {_list(chosen)}")
    one = chosen[(number or 1) - 1]
    return prove_row(leaf, one.table, one.text, one.digests)


def _about(rows: Sequence[_DecisionRow], subject: str) -> list[_DecisionRow]:
    for column in _SUBJECTS:
        found = [row for row in rows if row.values.get(column) == subject]
        if found:
            return sorted(found, key=lambda row: (row.table, row.text))
    return []


def _not_there(attempt: Attempt, rows: Sequence[_DecisionRow], subject: str) -> str:
    # A model of the planner's has no subject: it is about a broker.
    there = sorted({str(row.values.get("subject") or row.values["broker"]) for row in rows})
    hint = nearest(subject, there) if there else " Nothing was decided in it."
    at = attempt.cycle_at.isoformat()
    return f"no decision of {attempt.cluster} at {at} is about {subject!r}.{hint}"


def _list(rows: Sequence[_DecisionRow]) -> str:
    lines = [f"{number} {row.words}" for number, row in enumerate(rows[:_SHOWN], start=1)]
    return "; ".join([*lines, *([f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else [])])


def _rows_of(lake: Lake, attempt: Attempt, leaf: LogLeaf, table: str) -> Iterator[_DecisionRow]:
    """The rows that the attempt wrote to a table, of which the leaf has the root."""
    if table not in leaf.tables:
        return
    parts = [_rows_in_files(lake, attempt, write) for write in attempt.writes_of(table) if write.rows]
    made = [row_texts(table, part) for part in parts]
    texts = [text for own in made if own is not None for text in own]
    if None in made or len(texts) != leaf.tables[table].rows:
        raise LakeError(
            f"table {table} holds {len(texts)} of the {leaf.tables[table].rows} rows that the manifest lists, or rows "
            "that cannot be written as they were digested: `evenkeel verify` says which"
        )
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    yield from (_DecisionRow(table, text, json.loads(text), digests) for text in texts)


def _rows_in_files(lake: Lake, attempt: Attempt, write: Write) -> pa.Table:
    """The rows of a write, from the files of its commit, or of its date where upkeep has put them together."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [name for name in types_of(write.table) if name not in STAMP_NAMES]
    try:
        found = found_rows(lake, write, columns)
        if found is not None:
            return found
        inside = [name for name in columns if name != "cluster"]
        parts = []
        for file in _files_of_date(lake, attempt, write.table):
            rows = read_file(file, write.table, (*inside, "write_id"))
            own = rows.filter(pc.equal(rows.column("write_id").cast("string"), write.write_id))
            parts.append(with_cluster(own.drop_columns("write_id"), write.cluster))
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise LakeError(f"table {write.table} of {lake.root} cannot be read: {str(error)[:200]}") from error
    return pa.concat_tables(parts, promote_options="default") if parts else pa.table({})


def _files_of_date(lake: Lake, attempt: Attempt, table: str) -> Iterator[str]:
    import pyarrow as pa

    actions = pa.table(open_table(lake.root, table).get_add_actions(flatten=True))
    day = attempt.cycle_at.date().isoformat()
    folder = Path(lake.path(table).removeprefix("file://"))
    for one in actions.select(["path", "partition.cluster", "partition.cycle_date"]).to_pylist():
        if one["partition.cluster"] == attempt.cluster and str(one["partition.cycle_date"]) == day:
            yield str(folder / unquote(one["path"]))
