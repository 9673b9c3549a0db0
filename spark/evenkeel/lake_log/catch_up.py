"""The log of a lake: begun once, and caught up with the manifests after each publish.

Leaves are appended cluster by cluster, in the order of names and of each chain, while nobody else appends, so two
processes at once append each manifest once. A chain that does not go on from the row that was logged last is left as
it is, and told: no leaf is ever taken back, and none is written over another past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import BadInput, BadNote, LakeError, LogError
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import FolderFiles, files_of
from evenkeel.lake_log import LOG_FOLDER
from evenkeel.lake_log.chains import Chains
from evenkeel.lake_log.heads import LoggedEnd, is_logged, keep_ends, logged_ends, logged_versions
from evenkeel.lake_log.keys_leaf import KeysLeaf
from evenkeel.lake_log.keys_on_record import KeysOnRecord, demand_handover
from evenkeel.lake_log.leaves import begun_leaf, manifest_leaf
from evenkeel.lake_log.new_rows import NewRows
from evenkeel.lake_log.rotations import FollowedKeys, follow
from evenkeel.lake_log.row_leaves import leaves_of
from evenkeel.transparency.checkpoint import SignedCheckpoint
from evenkeel.transparency.keys import SignerKey, VerifierKey
from evenkeel.transparency.leaf import canonical
from evenkeel.transparency.log import CHECKPOINT, TransparencyLog
from evenkeel.transparency.storage import FolderStorage, LogStorage
from evenkeel.transparency.tiles import WIDTH, Tree

KEYS = "keys"
"""The verifier keys that have signed the log, a line each, beside the tiles: for convenience, and signed by nobody."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What a catch-up came to.

    `leaves`: how many were appended, and `manifests` of them are of manifests. `checkpoint`: the newest. `problems`: a
    sentence for each chain that does not continue what was logged of it. `rotation`: of the log's keys, None where they
    are those of before.
    """

    leaves: int
    manifests: int
    checkpoint: SignedCheckpoint
    problems: tuple[str, ...] = ()
    rotation: KeysLeaf | None = None


def storage_of(lake: str) -> LogStorage:
    """The place of a lake's log. Raises LogError for a lake on an object store that does not speak S3."""
    files = files_of(Lake(lake).root)
    if isinstance(files, FolderFiles):
        return FolderStorage(Path(files.full(LOG_FOLDER)))
    if files is None:
        raise LogError(f"{lake}: a transparency log is kept of lakes in folders, and in stores that speak S3")
    from evenkeel.lake_log.bucket import BucketStorage

    return BucketStorage(files.full(LOG_FOLDER))


def has_log(storage: LogStorage) -> bool:
    """Whether something of a log lies there."""
    return any(storage.get(name) is not None for name in (CHECKPOINT, KEYS))


def keys_beside(storage: LogStorage) -> tuple[VerifierKey, ...]:
    """The verifier keys that the log itself names. Whoever can write to the lake can put others there."""
    lines = (storage.get(KEYS) or b"").decode("utf-8", "replace").split("\n")
    try:
        return tuple(VerifierKey.read(line) for line in lines if line.strip())
    except BadNote as error:
        raise LogError(f"{LOG_FOLDER}/{KEYS}: {error}; give the log's verifier key (--log-key)") from None


def open_log(
    storage: LogStorage,
    signers: Sequence[SignerKey] = (),
    log_keys: Collection[VerifierKey] = (),
    clock: Callable[[], float] = time.time,
) -> TransparencyLog:
    """The log in a place, by the keys that are given, or where none is, by those that it names itself.

    Keys that have taken the place of these on record count, and those that were retired do not. Raises BadInput where
    they do not bear one name, LogError where there is no key at all, DamagedLog.
    """
    return open_followed(storage, signers, log_keys, clock)[0]


def open_followed(
    storage: LogStorage,
    signers: Sequence[SignerKey] = (),
    log_keys: Collection[VerifierKey] = (),
    clock: Callable[[], float] = time.time,
) -> tuple[TransparencyLog, FollowedKeys]:
    """The log as `open_log` gives it, and how its keys follow from those that were given."""
    keys = [*(signer.verifier for signer in signers), *log_keys] or [*keys_beside(storage)]
    if not keys:
        raise LogError("there is no transparency log: `evenkeel log begin` makes one, with the key in EVENKEEL_LOG_KEY")
    if len(names := sorted({key.name for key in keys})) > 1:
        raise BadInput(f"the log's keys bear several names, and a log has one: {', '.join(names)}")
    followed = follow(storage, keys)
    former = (*followed.former, *keys)
    return TransparencyLog(storage, keys[0].name, signers, followed.trusted, clock, former), followed


def _silent(done: int, of: int) -> None:
    """Tells nobody."""


def begin(
    lake: str,
    signers: Sequence[SignerKey],
    clock: Callable[[], float] = time.time,
    progress: Callable[[int, int], None] = _silent,
) -> CaughtUp:
    """Begins the log of a lake and takes in all manifests that are there. One that was killed in it is run again.
    `progress` gets manifests taken in, and manifests in all.

    Raises LogError where the log was begun before.
    """
    storage = storage_of(lake)
    log = open_log(storage, signers, clock=clock)
    if storage.get(CHECKPOINT) is None:
        log.create()
        return catch_up(lake, signers, clock, progress=progress)
    demand_handover(storage, log)
    if log.checkpoint().checkpoint.size:
        raise LogError(f"the log of {lake} was begun before: `evenkeel log catch-up` goes on with it")
    return catch_up(lake, signers, clock, progress=progress)


def catch_up(
    lake: str,
    signers: Sequence[SignerKey],
    clock: Callable[[], float] = time.time,
    lost: VerifierKey | None = None,
    progress: Callable[[int, int], None] = _silent,
) -> CaughtUp:
    """Appends the leaves of all manifests that have none yet, and of the log's keys where these are others now.

    A new key takes over where an old one signs with it, once. `lost`: a key that signed the log and is not there any
    more, as the operator has given it away; the log goes on without its signature, and says so. Raises LogError where
    no log was begun, another process holds it, or the old key is missing; DamagedLog, InconsistentLog, and LakeError
    where `cycles` cannot be read. What was appended before stays.
    """
    storage = storage_of(lake)
    log = open_log(storage, signers, () if lost is None else [lost], clock)
    if storage.get(CHECKPOINT) is None:
        raise LogError(
            f"the lake {lake} has no transparency log, or its checkpoint was removed: `evenkeel log begin` makes one; "
            "where there was one, restore the folder _log from a copy"
        )
    demand_handover(storage, log)
    _keep_keys(storage, signers)
    keys = KeysOnRecord(storage, log, signers, lost)
    behind = _Behind(lake, storage, progress)

    def entries(tree: Tree) -> Iterator[bytes]:
        keys.look_at(tree)
        yield from behind.entries(tree)
        yield from keys.entries()

    appended = log.append_made(entries)
    newest = appended.checkpoint.checkpoint
    if keys.rotation is not None:
        keys.keep(newest.size - 1, appended.checkpoint.note)
    if appended.is_new or behind.has_moved:
        keep_ends(storage, log.tree(newest), behind.ends, behind.versions, keys.index)
    leaves, problems = newest.size - appended.first, (*behind.problems, *keys.problems)
    return CaughtUp(leaves, behind.manifests if leaves else 0, appended.checkpoint, problems, keys.rotation)


def chains_beside(lake: str, storage: LogStorage, tree: Tree) -> dict[str, int]:
    """Cluster -> by how many rows its chain is longer than its leaves; below 0 where rows are gone. Equal ones are left
    out."""
    ends, _ = logged_ends(storage, tree)
    chains = Chains(Lake(lake))
    logged = {name: end.sequence for name, end in ends.items()}
    found = {name: chains.reach(name) - logged.get(name, 0) for name in {*chains.clusters(), *logged}}
    return {name: more for name, more in sorted(found.items()) if more}


class _Behind:
    """Finds the manifests and other rows without a leaf.

    Once all of them are logged, `ends` are the last rows of each chain, and `versions` those of the tables whose rows
    have leaves of their own; `has_moved` says whether one of these is another than before.
    """

    def __init__(self, lake: str, storage: LogStorage, progress: Callable[[int, int], None]) -> None:
        self._lake = Lake(lake)
        self._storage = storage
        self._progress = progress
        self._is_whole = False
        self._bundles: dict[int, list[bytes]] = {}
        self.ends: dict[str, LoggedEnd] = {}
        self.versions: dict[str, int] = {}
        self.manifests = 0
        self.has_moved = False
        self.problems: list[str] = []

    def entries(self, tree: Tree) -> Iterator[bytes]:
        """The leaves that a tree lacks."""
        self.ends, self._is_whole = logged_ends(self._storage, tree)
        chains, index = Chains(self._lake), tree.size
        if tree.size == 0:
            yield begun_leaf({name: chains.end(name) for name in chains.clusters()}).text
            index = 1
        logged = {name: end.sequence for name, end in self.ends.items()}
        of = sum(max(chains.reach(name) - logged.get(name, 0), 0) for name in chains.clusters())
        for cluster in chains.clusters():
            for entry in self._of_cluster(tree, chains, cluster, index):
                yield entry
                index += 1
                self.manifests += 1
                self._progress(self.manifests, of)
        yield from self._other_rows(tree)

    def _other_rows(self, tree: Tree) -> Iterator[bytes]:
        size, before = logged_versions(self._storage, tree)
        new = NewRows(self._lake, tree, before, size)
        try:
            yield from (leaf.text for leaf in leaves_of(new.units()))
        except LakeError as error:
            self.problems.append(f"rows outside manifests cannot be logged: {error}")
            self.versions = before
            return
        self.versions = new.reached
        self.has_moved = new.reached != before

    def _of_cluster(self, tree: Tree, chains: Chains, cluster: str, index: int) -> Iterator[bytes]:
        end, reach = self.ends.get(cluster), chains.reach(cluster)
        if not self._is_whole and not self._is_borne_out(tree, cluster, end, reach):
            end = self._read_anew(tree, cluster)
        if end is not None and reach < end.sequence:
            self.problems.append(
                f"{cluster}: the log has row {end.sequence} of its chain, and `cycles` ends at row {reach}: manifests "
                "were removed, or the table was set back. Nothing is logged of it; `evenkeel verify` names what is gone"
            )
            return
        if end is not None and reach == end.sequence:
            return
        for place, row in enumerate(chains.rows_behind(cluster, 0 if end is None else end.sequence)):
            if place == 0 and end is not None and not _continues(row, end):
                self.problems.append(
                    f"{cluster}: row {row['sequence']} of its chain does not go on from row {end.sequence} as it was "
                    "logged: the past was rewritten. Nothing is logged of it; `evenkeel verify` names the rows"
                )
                return
            try:
                entry = manifest_leaf(row).text
            except BadInput as error:
                self.problems.append(f"{cluster}: row {row['sequence']} of its chain cannot be logged: {error}")
                return
            self.ends[cluster] = LoggedEnd(int(row["sequence"]), row["manifest_digest"], index + place)
            yield entry

    def _is_borne_out(self, tree: Tree, cluster: str, end: LoggedEnd | None, reach: int) -> bool:
        """Whether the tree has the leaf that the file names, or none of a cluster that it does not name; where nothing
        has joined, nothing rests on it."""
        if end is None:
            return next(tree.find(b'"cluster":%s,' % canonical(cluster)), None) is None
        return end.sequence == reach or is_logged(self._entry(tree), tree.size, cluster, end)

    def _read_anew(self, tree: Tree, cluster: str) -> LoggedEnd | None:
        """The end of a chain by all leaves, where the file has another or none; of chains that come later likewise."""
        read, self._is_whole = logged_ends(self._storage, tree, anew=True)
        self.ends = {name: end for name, end in self.ends.items() if name < cluster}
        self.ends |= {name: end for name, end in read.items() if name >= cluster}
        return read.get(cluster)

    def _entry(self, tree: Tree) -> Callable[[int], bytes]:
        """Reads entries; many clusters' last leaves stand in few bundles."""

        def entry(index: int) -> bytes:
            number, place = divmod(index, WIDTH)
            if number not in self._bundles:
                self._bundles[number] = tree.bundle(number)
            return self._bundles[number][place]

        return entry


def _continues(row: dict[str, object], end: LoggedEnd) -> bool:
    return (row["sequence"], row["previous_digest"]) == (end.sequence + 1, end.digest)


def _keep_keys(storage: LogStorage, signers: Sequence[SignerKey]) -> None:
    own = [signer.verifier.text for signer in signers]
    there = (storage.get(KEYS) or b"").decode("utf-8", "replace").split()
    if missing := [text for text in own if text not in there]:
        storage.put(KEYS, "".join(f"{text}\n" for text in (*there, *missing)).encode())
