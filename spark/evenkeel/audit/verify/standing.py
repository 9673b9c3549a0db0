"""Whether attempts stand on what their predecessors wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evenkeel.audit.read import Attempt
from evenkeel.audit.verify.faults import CHAIN, Fault


def check_reads(attempts: Iterable[Attempt], near: Iterable[Attempt]) -> list[Fault]:
    """Reads that the manifest of the predecessor, one of those `near`, does not list as they were read; where that is
    gone they are passed over."""
    known = {(attempt.cluster, attempt.attempt_id): attempt for attempt in near}
    return [fault for attempt in attempts for fault in _faults(attempt, known)]


def _faults(attempt: Attempt, known: dict[tuple[str, str], Attempt]) -> Iterator[Fault]:
    before = known.get((attempt.cluster, str(attempt.planned["predecessor_attempt_id"])))
    if before is None:
        return
    listed = set(before.writes)
    for read in attempt.reads:
        if read not in listed:
            at = before.cycle_at.isoformat()
            words = f"it rests on write {read.write_id}, which its predecessor at {at} does not list"
            place = f"attempt {attempt.number}"
            yield Fault(attempt.cluster, attempt.cycle_at, CHAIN, read.table, place, words, attempt.attempt_id)
