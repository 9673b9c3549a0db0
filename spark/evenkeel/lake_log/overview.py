"""A lake's transparency log as it is now: checkpoint, keys, chains beside it, and witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.lake_log.catch_up import chains_beside, keys_beside, open_log, storage_of
from evenkeel.lake_log.rotations import rotations_in
from evenkeel.lake_log.witness_lines import witnesses_from_environment
from evenkeel.lake_log.witnessing import WitnessState, witness_states
from evenkeel.model.amounts import plural
from evenkeel.transparency.checkpoint import SignedCheckpoint
from evenkeel.transparency.keys import SignerKey, VerifierKey


@dataclass(frozen=True, slots=True)
class LogOverview:
    """A log at a moment.

    `keys`: by which it is read; `named`: those among them that it names itself. `rotations`: a line on each change of
    keys. `beside`: cluster -> how many manifests of its chain have no leaf yet, or, below 0, how many are gone.
    `witnesses`: what is known of each, by name.
    """

    checkpoint: SignedCheckpoint
    keys: tuple[VerifierKey, ...]
    named: frozenset[VerifierKey]
    rotations: tuple[str, ...]
    beside: Mapping[str, int]
    witnesses: tuple[WitnessState, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether manifests are gone, or a witness has seen another tree."""
        return any(one.is_inconsistent for one in self.witnesses) or any(more < 0 for more in self.beside.values())

    def chain_words(self) -> list[str]:
        """A line on each cluster whose chain is longer or shorter than its leaves, with what to run."""
        lines = []
        for cluster, more in self.beside.items():
            rows = plural(abs(more), "manifest")
            told = f"{rows} without a leaf: `evenkeel log catch-up`" if more > 0 else f"{rows} gone: `evenkeel verify`"
            lines.append(f"{cluster}: {told}")
        return lines

    def witness_words(self) -> list[str]:
        """A line on each witness; one that says what it means where there is none."""
        size = self.checkpoint.checkpoint.size
        lines = [f"witness {one.words(size)}" for one in self.witnesses]
        return lines or ["no witness: that all are shown one log is the word of whoever holds the key"]


def read_overview(lake: str, signers: Sequence[SignerKey] = ()) -> LogOverview:
    """The log of a lake; `signers`: keys of this machine, which may be newer than those that the log names.

    Raises LogError where there is no log or it cannot be read, BadNote where no key of the log has signed it.
    """
    storage = storage_of(lake)
    opened = open_log(storage, signers)
    newest = opened.checkpoint()
    tree = opened.tree(newest.checkpoint)
    states = witness_states(storage)
    for witness in witnesses_from_environment():
        states.setdefault(witness.name, WitnessState(witness.name))
    return LogOverview(
        newest,
        tuple(opened.log_keys),
        frozenset(keys_beside(storage)),
        tuple(rotations_in(storage, tree)),
        chains_beside(lake, storage, tree),
        tuple(state for _, state in sorted(states.items())),
    )
