"""Whether a cluster's manifests still are the chain that publishers wrote: each row names the digest of the row before.

A row that was changed no longer fits its own digest; one that was added or removed leaves a link that fits nothing. The
newest rows could be removed without a trace in the chain: for these see `history`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from evenkeel.audit.verify.faults import CHAIN, Fault
from evenkeel.lake.manifest import body_digest

Row = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the chain begins, after earlier rows expired: the last of these. By default nothing came before."""

    sequence: int = 0
    manifest_digest: str = ""


class Link(NamedTuple):
    """Of a manifest what makes it part of a chain; `cycle_at` in microseconds since 1970."""

    sequence: int
    row_kind: str
    cycle_at: int
    attempt_id: str
    attempt: int
    previous_digest: str
    body_digest: str
    manifest_digest: str


def check_links(cluster: str, links: Iterable[Link], anchor: Anchor | None = None) -> Iterator[Fault]:
    """Faults of one cluster's chain, whose links come in its order: by sequence, then by digest.

    Whether a row's content still is what its digest covers is a question of its own (`check_bodies`), which takes a
    hundred times as long.
    """
    start = anchor or Anchor()
    sequence, digest = start.sequence, start.manifest_digest
    numbering = _Numbering(is_whole=anchor is None)
    for link in links:
        if link.sequence != sequence + 1 or link.previous_digest != digest:
            yield _fault(cluster, link, _break(link, sequence))
        if hashlib.sha256((link.previous_digest + link.body_digest).encode()).hexdigest() != link.manifest_digest:
            words = "its manifest_digest does not follow from its other digests: one of them was changed"
            yield _fault(cluster, link, words)
        number = numbering.of(link)
        if link.attempt != number:
            yield _fault(cluster, link, f"it is attempt {number} at its cycle, and says {link.attempt}")
        sequence, digest = link.sequence, link.manifest_digest


def check_bodies(rows: Iterable[Row]) -> Iterator[Fault]:
    """Faults of rows of `cycles`, in any order, whose content is not what was written."""
    words = "its content is not what its digest covers: it was changed after it was written"
    for row in rows:
        if body_digest(row) != row["body_digest"]:
            place = _place(row["sequence"], row["row_kind"])
            yield Fault(row["cluster"], row["cycle_at"], CHAIN, "cycles", place, words, row["attempt_id"])


def _break(link: Link, last: int) -> str:
    """Why a link does not stand on the one before it, whose sequence was `last`."""
    if link.sequence == last:
        return "a second row stands at this place of the chain: one of them was added"
    if link.sequence == last + 1:
        return "it does not name the digest of the row before it: one of the two was replaced"
    gone = f"row {last + 1}" if link.sequence == last + 2 else f"rows {last + 1} to {link.sequence - 1}"
    return f"{gone} before it is missing: removed, or never restored from a copy"


class _Numbering:
    """`attempt` is outside the digests, since it follows from the rows before: the first attempt at a cycle is 1."""

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._attempts: dict[int, list[str]] = {}
        self._expired: dict[int, int] = {}

    def of(self, link: Link) -> int:
        """The number that it has to have."""
        at, name = link.cycle_at, link.attempt_id
        known = self._attempts.get(at)
        if known is None:
            known = self._attempts[at] = []
            # Where earlier rows expired, a cycle may go on with a later attempt.
            if not self._is_whole:
                self._expired[at] = link.attempt - 1
        if name not in known:
            known.append(name)
        return self._expired.get(at, 0) + known.index(name) + 1


def _fault(cluster: str, link: Link, words: str) -> Fault:
    at = _EPOCH + timedelta(microseconds=link.cycle_at)
    return Fault(cluster, at, CHAIN, "cycles", _place(link.sequence, link.row_kind), words, link.attempt_id)


def _place(sequence: int, row_kind: str) -> str:
    return f"row {sequence}, {row_kind}"
