"""Whether a cluster's manifests still are the chain that publishers wrote: each row names the digest of the row before.

A row that was changed no longer fits its own digest; one that was added or removed leaves a link that fits nothing. The
newest rows could be removed without a trace in the chain: for these see `history`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.audit.verify.faults import CHAIN, Fault
from evenkeel.lake.manifest import body_digest

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the chain begins, after earlier rows expired: the last of these. By default nothing came before."""

    sequence: int = 0
    manifest_digest: str = ""


def check_chain(rows: Iterable[Row], anchor: Anchor | None = None) -> list[Fault]:
    """Faults of one cluster's rows of `cycles`, in the order of the chain."""
    ordered = sorted(rows, key=lambda row: (row["sequence"], row["manifest_digest"]))
    found: list[Fault] = []
    last = anchor or Anchor()
    for row in ordered:
        found += _faults_of(row, last)
        last = Anchor(row["sequence"], row["manifest_digest"])
    return [*found, *_numbering(ordered, is_whole=anchor is None)]


def _faults_of(row: Row, last: Anchor) -> list[Fault]:
    found = []
    sequence = row["sequence"]
    if sequence == last.sequence:
        found.append(_fault(row, "a second row stands at this place of the chain: one of them was added"))
    elif sequence != last.sequence + 1:
        gone = (
            f"row {last.sequence + 1}"
            if sequence == last.sequence + 2
            else f"rows {last.sequence + 1} to {sequence - 1}"
        )
        found.append(_fault(row, f"{gone} before it is missing: removed, or never restored from a copy"))
    elif row["previous_digest"] != last.manifest_digest:
        found.append(_fault(row, "it does not name the digest of the row before it: one of the two was replaced"))
    if body_digest(row) != row["body_digest"]:
        found.append(_fault(row, "its content is not what its digest covers: it was changed after it was written"))
    linked = hashlib.sha256((row["previous_digest"] + row["body_digest"]).encode()).hexdigest()
    if linked != row["manifest_digest"]:
        found.append(_fault(row, "its manifest_digest does not follow from its other digests: one of them was changed"))
    return found


def _numbering(rows: Sequence[Row], *, is_whole: bool) -> list[Fault]:
    """`attempt` is outside the digests, since it follows from the rows before: the first attempt at a cycle is 1."""
    numbers: dict[tuple[object, str], int] = {}
    attempts: dict[object, int] = {}
    found = []
    for row in rows:
        known = (row["cycle_at"], row["attempt_id"])
        if known not in numbers:
            # Where earlier rows expired, a cycle may go on with a later attempt.
            attempts[row["cycle_at"]] = attempts.get(row["cycle_at"], 0 if is_whole else row["attempt"] - 1) + 1
            numbers[known] = attempts[row["cycle_at"]]
        if row["attempt"] != numbers[known]:
            found.append(_fault(row, f"it is attempt {numbers[known]} at its cycle, and says {row['attempt']}"))
    return found


def _fault(row: Row, words: str) -> Fault:
    place = f"row {row['sequence']}, {row['row_kind']}"
    return Fault(row["cluster"], row["cycle_at"], CHAIN, "cycles", place, words, row["attempt_id"])
