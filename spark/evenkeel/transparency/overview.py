"""State of a lake's transparency log: checkpoint, keys, unlogged commits, and witnesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadInput, BadNote, LakeError, LogError
from evenkeel.model.amounts import plural
from evenkeel.transparency.keys import SignerKey, VerifierKey
from evenkeel.transparency.lake_log import (
    has_log,
    keys_beside,
    numbers_by_table,
    open_log,
    read_state,
    storage_of,
    unlogged_commits,
)
from evenkeel.transparency.notes import SignedCheckpoint
from evenkeel.transparency.rotations import rotations_in
from evenkeel.transparency.witnesses import WitnessState, witness_states, witnesses_from_environment

UNSIGNED = "no: the lake has no transparency log, so nothing outside of it vouches for the record"


@dataclass(frozen=True, slots=True)
class LogOverview:
    """A log at a moment.

    `keys`: keys to read it; `named`: those among them that it names itself. `rotations`: a line on each change of keys.
    `unlogged`: table -> commits in its Delta log that have no leaf. `lost`: table -> commits that have a leaf and are
    newer than the newest in its Delta log. `witnesses`: the state of each, by name.
    """

    checkpoint: SignedCheckpoint
    keys: tuple[VerifierKey, ...]
    named: frozenset[VerifierKey]
    rotations: tuple[str, ...]
    unlogged: Mapping[str, int]
    lost: Mapping[str, int]
    witnesses: tuple[WitnessState, ...]

    @property
    def is_wrong(self) -> bool:
        """Return True if commits are lost, or a witness has seen another tree."""
        return bool(self.lost) or any(state.is_inconsistent for state in self.witnesses)

    def table_words(self) -> list[str]:
        """Return a line on each table with commits that have no leaf, or that are lost, with what to run."""
        lines = [f"{table}: {plural(count, 'commit')} lost: `evenkeel verify`" for table, count in self.lost.items()]
        for table, count in self.unlogged.items():
            lines.append(
                f"{table}: {plural(count, 'commit')} without a leaf: a cycle under way has them logged when it "
                "publishes; others `evenkeel log catch-up --adopt`"
            )
        return lines

    def witness_words(self) -> list[str]:
        """Return a line on each witness, or one on the meaning of having none."""
        size = self.checkpoint.checkpoint.size
        lines = [f"witness {state.words(size)}" for state in self.witnesses]
        return lines or ["no witness: only the holder of the key vouches that all readers see one log"]


def read_overview(lake: str, signers: Sequence[SignerKey] = ()) -> LogOverview:
    """Return the log of a lake; `signers`: keys of this machine, which may be newer than those that the log names.

    Raises LogError if there is no log or it cannot be read, BadNote if no key of the log has signed it, LakeError if a
    table cannot be listed.
    """
    storage = storage_of(lake)
    opened = open_log(storage, signers)
    newest = opened.checkpoint()
    tree = opened.tree(newest.checkpoint)
    states = witness_states(storage)
    for witness in witnesses_from_environment():
        states.setdefault(witness.name, WitnessState(witness.name))
    state, versions = read_state(storage, tree), numbers_by_table(lake)
    unlogged = unlogged_commits(versions, state)
    lost = {table: logged.last - max(versions.get(table, [-1])) for table, logged in sorted(state.commits.items())}
    return LogOverview(
        newest,
        tuple(opened.log_keys),
        frozenset(keys_beside(storage)),
        tuple(rotations_in(storage, tree)),
        {table: len(numbers) for table, numbers in unlogged.items()},
        {table: count for table, count in lost.items() if count > 0},
        tuple(state for _, state in sorted(states.items())),
    )


def signed_words(lake: str, manifest_version: Callable[[], int]) -> str:
    """Return, for a page, words on the log's newest checkpoint that covers the commit of a manifest.

    `manifest_version` returns the version of `cycles` that added the manifest; it is called if there is a log. The
    words rest on the log itself, with the keys beside it: `evenkeel verify --log-key` proves it. If something cannot be
    read, the words say so.
    """
    try:
        storage = storage_of(lake)
        if not has_log(storage):
            return UNSIGNED
        opened = open_log(storage)
        newest = opened.checkpoint().checkpoint
        is_logged = read_state(storage, opened.tree(newest)).has("cycles", manifest_version())
    except (LogError, BadNote, BadInput, LakeError) as error:
        return f"no: the transparency log of the lake, or what it should have, cannot be read: {error}"
    log = f"the transparency log {opened.origin} ({plural(newest.size, 'leaf', 'leaves')})"
    if not is_logged:
        return f"not yet: {log} has no leaf of the commit with the manifest"
    return f"in {log}; `evenkeel prove` writes a proof"
