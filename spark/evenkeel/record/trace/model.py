"""What a trace says, as data: from a decision to its inputs, and from an input to what rests on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Written:
    """A write, as a manifest lists it. `layer` is that of its table: observed, checked, derived, decided or acted."""

    table: str
    layer: str
    write_id: str
    version: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Link:
    """A cycle whose state was taken over. `status` says how it came to its own predecessor."""

    cycle_at: datetime
    attempt_id: str
    status: str
    snapshot: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Something decided about a bundle: `act` is split, unload, place or refused.

    `names_it`: the row itself names the broker asked for, as owner, destination or candidate. `outcome` is the last
    that was seen of its command; None where none was sent.
    """

    act: str
    bundle: str
    broker: str | None
    destination: str | None
    sentence: str
    names_it: bool
    outcome: str | None


@dataclass(frozen=True)
class Inputs:
    """What a cycle rests on. `chain` holds the cycles whose state was handed on to it, the nearest first; `open_end`
    whether it goes on beyond those."""

    subject: str
    cluster: str
    cycle_at: datetime
    attempt: int
    attempt_id: str
    plan_id: str | None
    snapshot: str | None
    source: str | None
    settings_digest: str | None
    code_version: str | None
    code_digest: str | None
    run: str
    decisions: tuple[Decision, ...]
    writes: tuple[Written, ...]
    reads: tuple[Written, ...]
    chain: tuple[Link, ...]
    open_end: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Resting:
    """A cycle that read the input itself, and what it decided."""

    cluster: str
    cycle_at: datetime
    attempt_id: str
    status: str
    mode: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A later cycle that rests on the input by the state it took over."""

    cluster: str
    cycle_at: datetime
    attempt_id: str
    splits: int
    unloads: int
    placements: int


@dataclass(frozen=True)
class Dependents:
    """All that rests on an input. `kind` is broker, write or snapshot; `first` and `last` bound what was looked at."""

    kind: str
    name: str
    cluster: str
    first: datetime
    last: datetime
    direct: tuple[Resting, ...]
    handed_on: tuple[HandedOn, ...]
    notes: tuple[str, ...]

    @property
    def decisions(self) -> int:
        """How many decisions rest on it directly."""
        return sum(len(cycle.decisions) for cycle in self.direct)
