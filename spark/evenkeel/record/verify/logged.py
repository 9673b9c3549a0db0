"""Whether chains and transparency log say the same: every manifest has its leaf, every leaf its manifest.

A chain alone cannot show that its end was cut off, and whoever may write to the lake can write a whole chain anew. The
log shows both, as long as its own checkpoints are out of their reach: with whoever was given one, and with witnesses.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput, BadNote, EvenkeelError, InconsistentLog, LogError
from evenkeel.lake.merkle import leaf_of
from evenkeel.lake_log import LOG_FOLDER
from evenkeel.lake_log.catch_up import has_log, open_followed, storage_of
from evenkeel.lake_log.keys_leaf import KeysLeaf, parse_keys_leaf
from evenkeel.lake_log.leaves import (
    BEGUN,
    ChainEnd,
    ManifestLeaf,
    begun_leaf,
    manifest_leaf,
    parse_leaf,
    parse_manifest_leaf,
)
from evenkeel.lake_log.rotations import newest_checkpoint
from evenkeel.lake_log.row_leaves import RowsLeaf, parse_rows_leaf
from evenkeel.lake_log.witness_lines import LakeWitness
from evenkeel.lake_log.witnessing import witness_states
from evenkeel.model.amounts import plural
from evenkeel.record.verify.chain import LOG, Anchor, Fault
from evenkeel.record.verify.logged_keys import keys_faults, rotation_words
from evenkeel.record.verify.logged_rows import check_other_rows, first_kept
from evenkeel.record.verify.stamped import check_stamps
from evenkeel.transparency.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint
from evenkeel.transparency.keys import VerifierKey
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.proof_file import HEAD, ProofFile
from evenkeel.transparency.tiles import Tree
from evenkeel.transparency.time_stamp import authorities_in
from evenkeel.transparency.witness_client import latest_checkpoint
from evenkeel.transparency.witness_file import WitnessFile

_NAMED = 20
"""So many rows at most are named one by one of a chain that lacks more."""
_DIGEST, _NONE = 32, -1
_TABLE, _PLACE = "cycles", "the log"
_MANIFESTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class LogSources:
    """What the log of a lake is held against, beside its chains.

    `log_keys`: the log's verifier keys, from a place that whoever writes to the lake cannot change; none: those that
    the log names itself. `checkpoints`: the content of files that hold checkpoints of it, by the name of the file.
    `witnesses`: who is asked what they have seen. `expected_heads`: (cluster, or "" for any, digest). `stamp_ca`:
    certificates in PEM of time stamp authorities that are trusted, and the name of their file.
    """

    log_keys: tuple[VerifierKey, ...] = ()
    checkpoints: Mapping[str, bytes] = field(default_factory=dict)
    witnesses: tuple[LakeWitness, ...] = ()
    expected_heads: tuple[tuple[str, str], ...] = ()
    stamp_ca: tuple[bytes, str] | None = None

    @property
    def demands_log(self) -> bool:
        """Whether there has to be a log for what is asked."""
        return bool(self.log_keys or self.checkpoints or self.witnesses)


@dataclass(frozen=True, slots=True)
class LogReport:
    """What was found of a lake's log.

    `is_there`: whether the lake has one, or should have. `checkpoint` is None where it cannot be read. `keys`: by which
    it was read; `own_keys`: they follow from those that the log names itself. `before`: manifests that were there
    before it began. `agreed`: who else has a checkpoint from which it has grown. `lines`: of the witnesses. `waiting`:
    of rows outside manifests that the next publish takes in. `rotations`: a line on each change of the log's keys.
    `stamps`: lines on time stamps.
    """

    checkpoint: SignedCheckpoint | None = None
    keys: tuple[VerifierKey, ...] = ()
    own_keys: bool = False
    before: int = 0
    agreed: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    is_there: bool = True
    rotations: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()


class LoggedChain:
    """The leaves of a cluster's manifests by their sequences: 72 bytes each, and as much for one that was left out."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._digests = bytearray()
        self._hashes = bytearray()
        self._indices = array("q")

    @property
    def last(self) -> int:
        """The sequence of the last one."""
        return self.first + len(self._indices) - 1

    def add(self, leaf: ManifestLeaf, index: int, entry: bytes) -> None:
        """Takes in a leaf behind the last one."""
        left_out = leaf.sequence - self.last - 1
        self._digests += bytes(_DIGEST * left_out)
        self._hashes += bytes(_DIGEST * left_out)
        self._indices.extend([_NONE] * left_out)
        self._digests += bytes.fromhex(leaf.digest)
        self._hashes += leaf_of(entry)
        self._indices.append(index)

    def index(self, sequence: int) -> int:
        """The index of the leaf of a row."""
        return self._indices[sequence - self.first]

    def digest(self, sequence: int) -> bytes:
        """The manifest digest of a row, as its leaf has it."""
        at = (sequence - self.first) * _DIGEST
        return bytes(self._digests[at : at + _DIGEST])

    def leaf_hash(self, sequence: int) -> bytes:
        """The hash of a row's leaf."""
        at = (sequence - self.first) * _DIGEST
        return bytes(self._hashes[at : at + _DIGEST])

    def __contains__(self, sequence: int) -> bool:
        return self.first <= sequence <= self.last and self._indices[sequence - self.first] != _NONE


@dataclass
class LakeLogCheck:
    """A lake's log while its record is verified. `faults`: what was found so far."""

    report: LogReport
    faults: list[Fault] = field(default_factory=list)
    chains: dict[str, LoggedChain] = field(default_factory=dict)
    rows: list[tuple[int, RowsLeaf]] = field(default_factory=list)
    keys: list[tuple[int, KeysLeaf]] = field(default_factory=list)
    reached: dict[str, datetime] = field(default_factory=dict)
    kept_from: date | None = None
    tree: Tree | None = None
    opened: TransparencyLog | None = None
    _read_again: dict[str, LoggedChain] | None = None

    def check_links(self, cluster: str, links: Any, anchor: Anchor | None) -> None:
        """Holds a cluster's chain against its leaves; `links` as `Record.links` gives them, None for no chain.

        The log was read before the chain was, so a leaf without its row is one whose row is gone. Where the chain goes
        further, the log is read once more: it may have grown meanwhile.
        """
        if self.tree is None:
            return
        until = self.chains[cluster].last if cluster in self.chains else 0
        newest = 0 if links is None else int(links.column("sequence")[-1].as_py())
        logged = (self._later() if newest > until else self.chains).get(cluster)
        if logged is None:
            self.faults += _without_leaf(cluster, [*islice(_rows(links), _NAMED)], links.num_rows)
            return
        unlogged: list[_LinkRow] = []
        missing, reached = 0, logged.first - 1
        for row in _rows(links) if links is not None else ():
            if row.sequence > reached + 1:
                self._name_missing(cluster, reached + 1, min(row.sequence - 1, until), anchor, is_end=False)
            reached = max(reached, row.sequence)
            if row.sequence not in logged:
                missing += 1
                unlogged += [row] if len(unlogged) < _NAMED else []
            elif row.digest != logged.digest(row.sequence).hex():
                words = (
                    f"it is not the manifest that leaf {logged.index(row.sequence)} of the log holds (digest "
                    f"{logged.digest(row.sequence).hex()}): the past was rewritten"
                )
                self.faults.append(Fault(cluster, row.at, LOG, _TABLE, f"row {row.sequence}", words))
        self.faults += _without_leaf(cluster, unlogged, missing)
        self._name_missing(cluster, reached + 1, until, anchor, is_end=True)

    def _later(self) -> dict[str, LoggedChain]:
        """The chains by the log as it is now."""
        if self._read_again is None:
            again = LakeLogCheck(self.report)
            with suppress(LogError, BadNote):
                assert self.opened is not None
                _read(again, self.opened.tree())
            self._read_again = again.chains if again.chains.keys() >= self.chains.keys() else self.chains
        return self._read_again

    def check_other_rows(self, lake: str, clusters: Collection[str] | None) -> None:
        """Holds rows outside manifests against their leaves, of these clusters (None: all) and of none."""
        if self.tree is None:
            return
        chosen = None if clusters is None else frozenset(clusters)
        found = check_other_rows(lake, self.rows, self.reached, self.kept_from, chosen)
        self.faults += found.faults
        self.report = replace(self.report, waiting=found.waiting)

    def check_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Holds whole rows of `cycles` against their leaves, so that a leaf vouches for the very tables of its row."""
        for row in rows if self.tree is not None else ():
            logged, sequence = self.chains.get(row["cluster"]), int(row["sequence"])
            if logged is None or sequence not in logged:
                continue
            is_own = row["manifest_digest"] == logged.digest(sequence).hex()
            if is_own and _leaf_hash(row) != logged.leaf_hash(sequence):
                words = (
                    f"leaf {logged.index(sequence)} of the log names its digest, and other tables or figures than the "
                    "row has: the row was changed, or whoever signed the log has put them there"
                )
                self.faults.append(Fault(row["cluster"], row["cycle_at"], LOG, _TABLE, f"row {sequence}", words))

    def _name_missing(self, cluster: str, first: int, last: int, anchor: Anchor | None, *, is_end: bool) -> None:
        """Names the rows from one sequence to another whose leaves are there; those that expired are left out."""
        if last < first:
            return
        logged = self.chains[cluster]
        assert self.tree is not None
        if anchor is not None and first <= anchor.sequence:
            if anchor.sequence in logged and logged.digest(anchor.sequence).hex() != anchor.manifest_digest:
                words = (
                    f"the anchor at which the chain begins is not row {anchor.sequence} as leaf "
                    f"{logged.index(anchor.sequence)} of the log holds it: the anchor was forged"
                )
                self.faults.append(Fault(cluster, None, LOG, "anchors", f"row {anchor.sequence}", words))
            elif (fault := self._gone_too_early(cluster, anchor)) is not None:
                self.faults.append(fault)
            first = anchor.sequence + 1
        gone = [sequence for sequence in range(first, last + 1) if sequence in logged]
        for sequence in gone[:_NAMED]:
            leaf = parse_manifest_leaf(self.tree.entry(logged.index(sequence)))
            assert leaf is not None
            why = (
                "the end of the chain was cut off, or `cycles` was set back to an earlier version"
                if is_end
                else "it was removed from the middle of the chain"
            )
            words = f"it is gone, and leaf {logged.index(sequence)} of the log holds it ({leaf.status}): {why}"
            at = datetime.fromisoformat(leaf.cycle_at)
            self.faults.append(Fault(cluster, at, LOG, _TABLE, f"row {sequence}", words))
        if (more := len(gone) - _NAMED) > 0:
            words = f"{plural(more, 'further row')} up to row {last} are gone too, and the log holds them"
            self.faults.append(Fault(cluster, None, LOG, _TABLE, _PLACE, words))

    def _gone_too_early(self, cluster: str, anchor: Anchor) -> Fault | None:
        """A fault where the rows up to an anchor are gone before their period was over."""
        logged = self.chains[cluster]
        if anchor.sequence not in logged or self.tree is None:
            return None
        leaf = parse_manifest_leaf(self.tree.entry(logged.index(anchor.sequence)))
        assert leaf is not None
        at = datetime.fromisoformat(leaf.cycle_at)
        if self.kept_from is not None and at.date() < self.kept_from:
            return None
        kept = "of which there is none" if self.kept_from is None else f"which keep all from {self.kept_from} on"
        words = (
            f"the chain begins behind row {anchor.sequence} of {at.date()}, which is not past the periods of the "
            f"upkeeps in the log, {kept}: the anchor was forged, or the upkeep has not been logged yet"
        )
        return Fault(cluster, at, LOG, "anchors", f"row {anchor.sequence}", words)


def open_check(lake: str, sources: LogSources) -> LakeLogCheck:
    """Reads the log of a lake whole, and holds it against what others have of it.

    What is wrong comes as faults. Raises BadInput where a file of `sources` holds no checkpoint of this log, or no
    certificates.
    """
    authorities = () if sources.stamp_ca is None else authorities_in(*sources.stamp_ca)
    try:
        storage = storage_of(lake)
    except LogError:
        if sources.demands_log:
            raise
        return LakeLogCheck(LogReport(is_there=False))
    if not has_log(storage) and not sources.demands_log:
        return LakeLogCheck(LogReport(is_there=False))
    check = LakeLogCheck(LogReport())
    try:
        opened, followed = open_followed(storage, log_keys=sources.log_keys)
        newest = newest_checkpoint(storage, opened, followed)
        tree = opened.tree(newest.checkpoint)
        before = _read(check, tree)
        check.faults += map(_log_fault, keys_faults(storage, newest, check.keys))
    except (LogError, BadNote) as error:
        check.faults.append(_log_fault(f"{error}; without it nothing shows a cut end or another past"))
        return check
    check.tree, check.opened = tree, opened
    check.kept_from = first_kept(lake, check.rows, datetime.now(UTC))
    agreed = [*_given_out(check, opened, sources.checkpoints), *_witnessed(check, opened, sources.witnesses)]
    stamps = check_stamps(storage, opened, tree, authorities)
    check.faults += map(_log_fault, stamps.faults)
    states = witness_states(storage)
    for state in states.values():
        if state.is_inconsistent:
            check.faults.append(_log_fault(f"a witness has seen another tree: {state.fault}"))
    check.report = LogReport(
        newest,
        opened.log_keys,
        not sources.log_keys,
        before,
        tuple(agreed),
        tuple(state.words(newest.checkpoint.size) for _, state in sorted(states.items())),
        rotations=rotation_words(check.keys),
        stamps=tuple(stamps.lines),
    )
    return check


def _read(check: LakeLogCheck, tree: Tree) -> int:
    """Reads all leaves; returns how many manifests were there before the log began."""
    begun: dict[str, Any] = {}
    before = 0
    counted: dict[str, ChainEnd] = {}
    room = tree.size  # for rows that were left out: no leaf makes more of them than there are leaves
    for index, entry in enumerate(tree.entries(0, tree.size)):
        leaf = parse_manifest_leaf(entry)
        if leaf is None:
            begun = parse_leaf(entry) if index == 0 else begun
            before = _count_in(begun)
            if (other := parse_rows_leaf(entry)) is not None:
                check.rows.append((index, other))
            if (keys := parse_keys_leaf(entry)) is not None:
                check.keys.append((index, keys))
            continue
        at = datetime.fromisoformat(leaf.cycle_at)
        check.reached[leaf.cluster] = max(at, check.reached.get(leaf.cluster, at))
        chain = check.chains.setdefault(leaf.cluster, LoggedChain(leaf.sequence))
        if leaf.sequence != chain.last + 1:
            words = (
                f"leaf {index} of the log is of row {leaf.sequence}, and the leaf before it of row {chain.last}: a row "
                "was logged twice, or one was left out"
            )
            check.faults.append(Fault(leaf.cluster, at, LOG, LOG_FOLDER, f"leaf {index}", words))
            left_out = leaf.sequence - chain.last - 1
            if not 0 < left_out <= room:
                continue
            room -= left_out
        chain.add(leaf, index, entry)
        if index <= before:
            known = counted.get(leaf.cluster)
            counted[leaf.cluster] = ChainEnd(known.manifests + 1 if known else 1, leaf.sequence, leaf.digest)
    if tree.size and begun.get("kind") != BEGUN:
        check.faults.append(_log_fault("its first leaf does not say how it began"))
    elif tree.size and begun_leaf(counted).text != tree.entry(0):
        check.faults.append(_log_fault("its first leaf counts other manifests than the leaves that follow it"))
    return before


def _count_in(begun: Mapping[str, Any]) -> int:
    count = begun.get("manifests")
    return count if type(count) is int else 0


def _given_out(check: LakeLogCheck, opened: TransparencyLog, files: Mapping[str, bytes]) -> Iterator[str]:
    """Holds the log against checkpoints in files; yields who agrees, in words."""
    for name, data in files.items():
        kept = [*_checkpoints_in(name, data, opened)]
        for one in kept:
            _demand_continues(check, opened, one.checkpoint, name)
        largest = max(one.checkpoint.size for one in kept)
        yield f"{name} ({plural(len(kept), 'checkpoint')}, up to {plural(largest, 'leaf', 'leaves')})"


def _checkpoints_in(name: str, data: bytes, opened: TransparencyLog) -> Iterator[SignedCheckpoint]:
    """The checkpoints in a file: a signed note, a proof, or the lines of a witness's file."""
    notes = [data]
    if data.startswith(HEAD.encode()):
        notes = [ProofFile.read(data).checkpoint]
    elif data.startswith(b"{"):
        notes = [*WitnessFile.notes_in(data)]
    if not notes:
        raise BadInput(f"{name} holds no checkpoint")
    for note in notes:
        try:
            yield open_checkpoint(note, opened.origin, opened.all_keys)
        except BadNote as error:
            raise BadInput(f"{name} is no checkpoint that holds: {error}") from None


def _witnessed(check: LakeLogCheck, opened: TransparencyLog, witnesses: Sequence[LakeWitness]) -> Iterator[str]:
    """Asks witnesses what they have seen last; yields who agrees, in words. One that gives no answer is a fault."""
    for witness in witnesses:
        try:
            if witness.bucket is not None:
                yield from _kept_in_bucket(check, opened, witness)
                continue
            if witness.address is not None:
                seen = latest_checkpoint(witness.address, opened.origin, opened.all_keys)
            else:
                seen = WitnessFile(witness.path or Path(), opened.origin, opened.all_keys).latest()
        except EvenkeelError as error:
            check.faults.append(_log_fault(f"the witness does not say what it has seen: {error}"))
            continue
        if seen is None:
            check.faults.append(_log_fault(f"the witness {witness.name} has seen no checkpoint of it"))
        elif _demand_continues(check, opened, seen.checkpoint, f"the witness {witness.name}"):
            yield f"the witness {witness.name} ({plural(seen.checkpoint.size, 'leaf', 'leaves')})"


def _kept_in_bucket(check: LakeLogCheck, opened: TransparencyLog, witness: LakeWitness) -> Iterator[str]:
    """Holds the log against every checkpoint that a bucket keeps of it; yields how many agree, in words. Raises
    WitnessError and SettingsError where it cannot be read."""
    agreed, largest, wrong = 0, 0, list[str]()
    try:
        for kept in witness.bucket_of(opened.origin, opened.all_keys).kept():
            words = kept if isinstance(kept, str) else _contradiction(check, opened, kept.checkpoint)
            if words is not None:
                wrong.append(words)
            elif not isinstance(kept, str):
                agreed, largest = agreed + 1, max(largest, kept.checkpoint.size)
    finally:
        check.faults += [_log_fault(f"the witness {witness.name}: {words}") for words in wrong[:_NAMED]]
        if (more := len(wrong) - _NAMED) > 0:
            check.faults.append(_log_fault(f"the witness {witness.name}: {plural(more, 'further object')} like these"))
    if agreed:
        leaves = plural(largest, "leaf", "leaves")
        yield f"the witness {witness.name} ({plural(agreed, 'checkpoint')}, up to {leaves})"
    elif not wrong:
        check.faults.append(_log_fault(f"the witness {witness.name} has seen no checkpoint of it"))


def _demand_continues(check: LakeLogCheck, opened: TransparencyLog, kept: Checkpoint, who: str) -> bool:
    words = _contradiction(check, opened, kept)
    if words is not None:
        check.faults.append(_log_fault(f"{who}: {words}"))
    return words is None


def _contradiction(check: LakeLogCheck, opened: TransparencyLog, kept: Checkpoint) -> str | None:
    """What is wrong where the log has not grown from a checkpoint."""
    assert check.tree is not None
    if kept.size <= check.tree.size and check.tree.root_at(kept.size) == kept.root:
        return None
    try:
        opened.demand_continues(kept)
    except InconsistentLog as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class _LinkRow:
    """A row of a chain: its sequence, the time of its cycle, and its digest (hex)."""

    sequence: int
    at: datetime
    digest: str


def _rows(links: Any) -> Iterator[_LinkRow]:
    for part in links.to_batches(max_chunksize=_MANIFESTS_AT_ONCE):
        names = ("sequence", "cycle_at", "manifest_digest")
        yield from map(_LinkRow, *(part.column(name).to_pylist() for name in names))


def _leaf_hash(row: Mapping[str, Any]) -> bytes | None:
    """The hash of the leaf that a row has to have; None where it holds what no manifest does."""
    try:
        return leaf_of(manifest_leaf(row).text)
    except (BadInput, TypeError, ValueError, KeyError, AttributeError):
        return None


def _without_leaf(cluster: str, rows: Sequence[_LinkRow], count: int) -> Iterator[Fault]:
    words = (
        "it has no leaf in the log: the log was set back, or a publish has not come to it yet (`evenkeel log catch-up`)"
    )
    for row in rows[:_NAMED]:
        yield Fault(cluster, row.at, LOG, _TABLE, f"row {row.sequence}", words)
    if count > _NAMED:
        yield Fault(cluster, None, LOG, _TABLE, _PLACE, f"{plural(count - _NAMED, 'further row')} have no leaf either")


def _log_fault(words: str) -> Fault:
    return Fault("", None, LOG, LOG_FOLDER, _PLACE, words)


def check_heads(expected: Collection[tuple[str, str]], chains: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of heads that were noted elsewhere: a chain that still holds one was not cut before it."""
    for cluster, digest in expected:
        asked = [name for name in chains if cluster in ("", name)]
        if not any(_holds(chains[name], digest) for name in asked):
            words = f"no row has the digest {digest} that was noted: rows were removed, or the past was rewritten"
            yield Fault(cluster, None, LOG, _TABLE, "--expect-head", words)


def _holds(links: Any, digest: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = links.column("manifest_digest").cast(pa.string())
    return bool(pc.any(pc.equal(column, digest)).as_py())
