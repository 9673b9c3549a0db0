"""Compare a lake's transparency log with the lake's tables, with checkpoints that were given out, and with witnesses.

A chain of manifests alone cannot show that its end was cut off. Users who may write to the lake can also write the
whole chain again. The log shows both, as long as such users cannot change its checkpoints: those of witnesses, and
those that were given to other people. `check_stamps` checks the time stamps of the checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, BadNote, BadStamp, EvenkeelError, InconsistentLog, LogError
from evenkeel.handover import Write
from evenkeel.model.amounts import plural
from evenkeel.times import utc_seconds
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.kept_checkpoints import WitnessFile
from evenkeel.transparency.keys import VerifierKey, shown
from evenkeel.transparency.lake_log import has_log, open_followed, storage_of
from evenkeel.transparency.leaves import BEFORE_THE_LOG, BegunLeaf, CommitLeaf, KeysLeaf, ids_of, parse_leaf
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import Checkpoint, SignedCheckpoint, open_checkpoint
from evenkeel.transparency.proof_file import HEAD, ProofFile
from evenkeel.transparency.rotations import ROTATIONS, newest_checkpoint, rotation_lines, signers_among
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.tiles import Tree
from evenkeel.transparency.time_stamp import STAMPS, KeptStamps, authorities_in, demand_stamp, kept_stamps, read_stamp
from evenkeel.transparency.witness_client import latest_checkpoint
from evenkeel.transparency.witnesses import LakeWitness, witness_states
from evenkeel.verify.chain import LOG, Fault
from evenkeel.verify.commit_check import CommitCheck, LoggedCommits

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_NAMED = 20
"""The most faults of a kind that are named one by one."""
_LISTED = 10
"""The number of newest time stamps that are listed for each authority, beside its first one."""
_PLACE = "the log"


@dataclass(frozen=True, slots=True)
class LogSources:
    """Checkpoints, keys and witnesses that the log of a lake is compared with.

    `log_keys`: the log's verifier keys, from a place that writers of the lake cannot change; without any, the keys that
    the log names itself are used. `checkpoints`: name -> content of each file with checkpoints of the log. `witnesses`:
    the witnesses that are asked for their newest checkpoint. `expected_heads`: (cluster, or "" for any, digest).
    `stamp_ca`: certificates (PEM) of trusted time stamp authorities, and the name of their file.
    """

    log_keys: tuple[VerifierKey, ...] = ()
    checkpoints: Mapping[str, bytes] = field(default_factory=dict)
    witnesses: tuple[LakeWitness, ...] = ()
    expected_heads: tuple[tuple[str, str], ...] = ()
    stamp_ca: tuple[bytes, str] | None = None

    @property
    def demands_log(self) -> bool:
        """True if the lake has to have a log."""
        return bool(self.log_keys or self.checkpoints or self.witnesses)


@dataclass(frozen=True, slots=True)
class LogReport:
    """The report on a lake's log.

    `checkpoint`: the newest one, None if it cannot be read. `keys`: the keys that signed it. `own_keys`: True if the
    log itself names them. `before`: number of commits that are older than the log. `adopted`: a line for each operator
    who adopted commits that no writer handed on. `agreed`: files and witnesses with a checkpoint from which the log has
    grown. `lines`: a line for each witness. `waiting`: lines on commits that wait for their publish. `expired`: number
    of commits past the log retention of their tables. `is_there`: True if the lake has a log, or should have one.
    `rotations`: a line for each change of the log's keys. `stamps`: lines on time stamps.
    """

    checkpoint: SignedCheckpoint | None = None
    keys: tuple[VerifierKey, ...] = ()
    own_keys: bool = False
    before: int = 0
    adopted: tuple[str, ...] = ()
    agreed: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    expired: int = 0
    is_there: bool = True
    rotations: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()


@dataclass
class LakeLogCheck:
    """A lake's log while its record is verified; `faults`: those known so far."""

    report: LogReport
    faults: list[Fault] = field(default_factory=list)
    commits: CommitCheck | None = None
    tree: Tree | None = None

    def digests(self) -> dict[str, dict[int, str]]:
        """Return table -> version -> SHA-256 (hex) of the commit's JSON, as the leaves have it."""
        leaves = {} if self.commits is None else self.commits.leaves
        return {
            table: {number: leaf.digest for number in logged if (leaf := logged.get(number))}
            for table, logged in leaves.items()
        }

    def check_listed(self, writes: Collection[Write]) -> None:
        """Compare the data files that manifests list with the leaves of their commits."""
        if self.commits is not None:
            self.commits.check_listed(writes)

    def check_commits(self, *, is_whole: bool) -> None:
        """Compare the commits of all tables with their leaves; `is_whole`: all manifests were read before."""
        if self.commits is not None:
            self.commits.check_all(is_whole=is_whole)
            self.faults += self.commits.faults
            self.report = replace(self.report, waiting=tuple(self.commits.waiting), expired=self.commits.expired)


def open_check(lake: str, sources: LogSources) -> LakeLogCheck:
    """Read the whole log of a lake, and compare it with `sources`.

    Differences become faults. Raises BadInput if a file of `sources` holds no checkpoint of this log, or no
    certificates.
    """
    authorities = () if sources.stamp_ca is None else authorities_in(*sources.stamp_ca)
    storage = storage_of(lake)
    if not has_log(storage) and not sources.demands_log:
        return LakeLogCheck(LogReport(is_there=False))
    check = LakeLogCheck(LogReport())
    try:
        opened, followed = open_followed(storage, log_keys=sources.log_keys)
        newest = newest_checkpoint(storage, opened, followed)
        tree = opened.tree(newest.checkpoint)
        leaves = _read(check, tree)
        check.faults += map(_log_fault, _keys_faults(storage, newest, leaves.keys))
    except (LogError, BadNote) as error:
        check.faults.append(_log_fault(f"{error}; without it nothing shows a cut end or another past"))
        return check
    check.tree, check.commits = tree, CommitCheck(lake, leaves.commits, partial(_later, storage, sources, newest))
    agreed = [*_given_out(check, opened, sources.checkpoints), *_witnessed(check, opened, sources.witnesses)]
    stamp_faults, stamps = check_stamps(storage, opened, tree, authorities)
    check.faults += map(_log_fault, stamp_faults)
    states = witness_states(storage)
    for state in states.values():
        if state.is_inconsistent:
            check.faults.append(_log_fault(f"a witness has seen another tree: {state.fault}"))
    check.report = LogReport(
        newest,
        opened.log_keys,
        not sources.log_keys,
        leaves.begun,
        tuple(f"{plural(count, 'commit')} by {by}" for by, count in sorted(leaves.adopted.items())),
        tuple(agreed),
        tuple(state.words(newest.checkpoint.size) for _, state in sorted(states.items())),
        rotations=tuple(f"leaf {index}: {leaf.words}" for index, leaf in leaves.keys),
        stamps=tuple(stamps),
    )
    return check


@dataclass
class _Leaves:
    """The leaves of a log.

    `commits`: table -> leaves of its commits. `keys`: index and leaf of each change of keys. `adopted`: operator ->
    number of adopted commits. `begun`: number of commits that are older than the log.
    """

    commits: dict[str, LoggedCommits] = field(default_factory=dict)
    keys: list[tuple[int, KeysLeaf]] = field(default_factory=list)
    adopted: dict[str, int] = field(default_factory=dict)
    begun: int = 0


def _read(check: LakeLogCheck, tree: Tree) -> _Leaves:
    """Read all leaves. Raises DamagedLog if an entry is not a leaf."""
    leaves = _Leaves()
    first: BegunLeaf | None = None
    counted = Counter[str]()
    for index, entry in enumerate(tree.entries(0, tree.size)):
        leaf = parse_leaf(entry)
        if isinstance(leaf, CommitLeaf):
            earlier = leaves.commits.setdefault(leaf.table, LoggedCommits()).add(index, leaf)
            if earlier is not None:
                words = f"leaf {index} and leaf {earlier} of the log are both of this commit: it was logged twice"
                check.faults.append(Fault("", None, LOG, leaf.table, f"version {leaf.commit}", words))
            elif index <= leaves.begun:
                counted[leaf.table] += 1
            if leaf.by and leaf.by != BEFORE_THE_LOG:
                leaves.adopted[leaf.by] = leaves.adopted.get(leaf.by, 0) + 1
        elif isinstance(leaf, KeysLeaf):
            leaves.keys.append((index, leaf))
        elif index == 0:
            first, leaves.begun = leaf, leaf.commits
        else:
            check.faults.append(_log_fault(f"leaf {index} says again how the log began"))
    if first is None and tree.size:
        check.faults.append(_log_fault("its first leaf does not say how it began"))
    elif first is not None and dict(counted) != dict(first.tables):
        check.faults.append(_log_fault("its first leaf counts other commits than the leaves that follow it"))
    return leaves


def _later(storage: LogStorage, sources: LogSources, before: SignedCheckpoint) -> dict[tuple[str, int], str]:
    """Return table, number -> digest of the commits whose leaves came after a checkpoint.

    Raises BadNote, and LogError, also if the log has not grown from the checkpoint.
    """
    opened, followed = open_followed(storage, log_keys=sources.log_keys)
    newest = newest_checkpoint(storage, opened, followed).checkpoint
    opened.demand_continues(before.checkpoint)
    entries = opened.tree(newest).entries(before.checkpoint.size, newest.size)
    leaves = [leaf for entry in entries if isinstance(leaf := parse_leaf(entry), CommitLeaf)]
    return {(leaf.table, leaf.commit): leaf.digest for leaf in leaves}


def _keys_faults(
    storage: LogStorage, newest: SignedCheckpoint, leaves: Sequence[tuple[int, KeysLeaf]]
) -> Iterator[str]:
    """Yield a sentence on each fault of a log's keys; `leaves` are those under its newest checkpoint.

    Raises DamagedLog if the file of rotations was changed.
    """
    kept = {line.index for line in rotation_lines(storage)}
    for index, leaf in leaves:
        if index not in kept and not leaf.is_lost and not signers_among(newest.note, leaf.before):
            yield (
                f"{ROTATIONS} lacks the checkpoint with which {ids_of(leaf.before)} handed over at leaf {index}: the "
                "file was removed or cut; restore it from a copy"
            )
    if leaves:
        index, leaf = leaves[-1]
        signed = signers_among(newest.note, leaf.keys)
        if missing := [key for key in leaf.keys if key not in signed]:
            yield (
                f"leaf {index} has {ids_of(leaf.keys)} in force, and the newest checkpoint is not signed by "
                f"{ids_of(missing)}: a signature was taken away, or somebody signs who has a former key"
            )


def _given_out(check: LakeLogCheck, opened: TransparencyLog, files: Mapping[str, bytes]) -> Iterator[str]:
    """Compare the log with checkpoints in files; yield the name of each file that agrees, with its checkpoints."""
    for name, data in files.items():
        checkpoints = [signed.checkpoint for signed in _checkpoints_in(name, data, opened)]
        for checkpoint in checkpoints:
            _demand_continues(check, opened, checkpoint, name)
        largest = max(checkpoint.size for checkpoint in checkpoints)
        yield f"{name} ({plural(len(checkpoints), 'checkpoint')}, up to {plural(largest, 'leaf', 'leaves')})"


def _checkpoints_in(name: str, data: bytes, opened: TransparencyLog) -> Iterator[SignedCheckpoint]:
    """Yield the checkpoints in a file: a signed note, a proof, or the lines of a witness's file."""
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
    """Ask witnesses for their newest checkpoint; yield the name and size of each that agrees. No answer is a fault."""
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
    """Compare the log with every checkpoint of it in a bucket; yield the number of those that agree, in words.

    Raises WitnessError and SettingsError if the bucket cannot be read.
    """
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
    """Return the difference between the log and a checkpoint from which it has not grown; None if it has."""
    assert check.tree is not None
    if kept.size <= check.tree.size and check.tree.root_at(kept.size) == kept.root:
        return None
    try:
        opened.demand_continues(kept)
    except InconsistentLog as error:
        return str(error)
    return None


def _log_fault(words: str) -> Fault:
    return Fault("", None, LOG, LOG_FOLDER, _PLACE, words)


def check_heads(expected: Collection[tuple[str, str]], chains: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each noted head that no chain holds: a chain that holds it was not cut before it."""
    for cluster, digest in expected:
        compared = [links for name, links in chains.items() if cluster in ("", name)]
        if not any(_holds(links, digest) for links in compared):
            words = f"no row has the digest {digest} that was noted: rows were removed, or the past was rewritten"
            yield Fault(cluster, None, LOG, "cycles", "--expect-head", words)


def _holds(links: Any, digest: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = links.column("manifest_digest").cast(pa.string())
    return bool(pc.any(pc.equal(column, digest)).as_py())


def check_stamps(
    storage: LogStorage, opened: TransparencyLog, tree: Tree, authorities: Sequence[Certificate]
) -> tuple[list[str], list[str]]:
    """Compare all stamps beside a log with its newest tree and with the certificates of trusted authorities.

    Returns a sentence for each wrong one, and lines on the others. Without certificates, times are reported as
    unverified.
    """
    faults, lines, stamped = list[str](), list[str](), dict[str, list[tuple[int, datetime]]]()
    try:
        for kept in kept_stamps(storage):
            if kept.answers:
                faults += _faults_of(kept, opened, tree, authorities, stamped)
    except LogError as error:
        faults.append(str(error))
    if (more := len(faults) - _NAMED) > 0:
        faults[_NAMED:] = [f"{plural(more, 'further time stamp')} of {STAMPS} do not hold"]
    unverified = "" if authorities else " (unverified: give the authority's certificates, --stamp-ca)"
    for by, times in sorted(stamped.items()):
        listed = times if len(times) <= _LISTED + 1 else [times[0], *times[-_LISTED:]]
        lines += [
            f"checkpoint of {plural(size, 'leaf', 'leaves')} stamped at {utc_seconds(at)} by {by}{unverified}"
            for size, at in listed
        ]
        if left_out := len(times) - len(listed):
            lines.append(f"and {plural(left_out, 'time stamp')} between the first and these, by {by}{unverified}")
    if authorities and not stamped:
        lines.append("no time stamp of the log holds: nothing but the log says when its checkpoints were there")
    return faults, lines


def _faults_of(
    kept: KeptStamps,
    opened: TransparencyLog,
    tree: Tree,
    authorities: Sequence[Certificate],
    stamped: dict[str, list[tuple[int, datetime]]],
) -> list[str]:
    """Return the faults of the stamps of one size; valid ones are added to `stamped`: signer -> size and time."""
    place = f"{STAMPS}/{kept.size}"
    try:
        text = _text_of(kept, opened, tree)
    except (BadNote, LogError) as error:
        return [f"{place}: {error}"]
    faults = []
    for name, answer in kept.answers:
        try:
            stamp = read_stamp(answer)
            demand_stamp(stamp, text, authorities)
        except BadStamp as error:
            faults.append(f"{place}/{shown(name)}: {error}")
            continue
        stamped.setdefault(shown(stamp.by), []).append((kept.size, stamp.at))
    return faults


def _text_of(kept: KeptStamps, opened: TransparencyLog, tree: Tree) -> bytes:
    """Return the stamped text of a checkpoint. Raises BadNote or LogError if it is not a checkpoint of this tree."""
    if kept.checkpoint is None:
        raise BadNote("the checkpoint that was stamped is gone; restore it from a copy")
    signed = open_checkpoint(kept.checkpoint, opened.origin, opened.all_keys)
    checkpoint = signed.checkpoint
    if checkpoint.size != kept.size:
        raise BadNote(f"it holds the checkpoint of another size: {checkpoint.words}")
    if checkpoint.size > tree.size or tree.root_at(checkpoint.size) != checkpoint.root:
        opened.demand_continues(checkpoint)
    return signed.note.text.encode()
