"""The next chunk of a window, ingested beside the last tasks of the chunk before.

Those tasks fold one cluster's cycles in one process and leave a core idle; what ingest reads does not rest on what they
decide. What the record says of a cycle (the one before it, its wishes) is asked again when its turn comes, and where
that changes more than these the chunk is ingested again. So is one whose ingest failed, so that it fails in its turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle, Handover, Predecessor
from evenkeel.ingest.chunks import MOST_BYTES, Chunk, landed_bytes
from evenkeel.ingest.open_run import CycleRequest, open_listed
from evenkeel.spark.session import beside, close, make_active, session_for_a_while

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Ingest = Callable[[SparkSession, Handover], Handover]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Coming:
    """A chunk on its way: its session, and later the hand-over as it was opened, and behind ingest."""

    chunk: Chunk
    spark: SparkSession
    ingested: Future[tuple[Handover, Handover]]


class IngestAhead:
    """At most one chunk on its way; a context manager, which ends what is still on its way.

    `spark`: the window's session; each chunk but the last has one of its own. `ingest`: the task.
    """

    def __init__(self, spark: SparkSession, request: CycleRequest, ingest: Ingest) -> None:
        self._spark, self._request, self._ingest = spark, request, ingest
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ingest-ahead")
        self._coming: _Coming | None = None

    def __enter__(self) -> IngestAhead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._coming is not None:
            with suppress(Exception):  # the server may be gone, which is why all ends
                self._coming.spark.interruptAll()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._coming is not None:
            with suppress(Exception):
                close(self._coming.spark)
            self._coming = None

    def begin(self, now: Chunk, chunk: Chunk) -> None:
        """Begins with a chunk, where none is on its way and the server holds it beside the one of `now`."""
        if self._coming is not None or _bytes((*now, *chunk)) > MOST_BYTES:
            return
        spark = beside(self._spark)
        if spark is None:
            return
        self._coming = _Coming(chunk, spark, self._pool.submit(self._ingested, spark, chunk))

    @contextmanager
    def session(self, chunk: Chunk, *, is_last: bool) -> Iterator[SparkSession]:
        """The session for a chunk's tasks: the one that it was ingested in, else another, for the last the window's."""
        coming = self._coming
        if coming is None or coming.chunk != chunk:
            if is_last:
                yield self._spark
                return
            with session_for_a_while(self._spark) as own:
                yield own
            return
        try:
            make_active(coming.spark)
            yield coming.spark
        finally:
            self._coming = None
            close(coming.spark)
            make_active(self._spark)

    def handover(self, chunk: Chunk, opened: Handover) -> Handover | None:
        """A chunk's hand-over behind ingest, with what `opened` says now of its cycles; None where it is to be ingested
        in its turn."""
        coming = self._coming
        if coming is None or coming.chunk != chunk:
            return None
        try:
            before, ingested = coming.ingested.result()
        except Exception as error:
            log.info("a chunk that was ingested ahead failed, and is ingested in its turn: %s", error)
            return None
        if not _same_input(before, opened):
            log.info("the record has changed what a chunk is ingested with: it is ingested again")
            return None
        now = {cycle.key: cycle for cycle in opened.cycles}
        return ingested.with_cycles(
            replace(cycle, predecessor=now[cycle.key].predecessor, wishes=now[cycle.key].wishes)
            for cycle in ingested.cycles
        )

    def _ingested(self, spark: SparkSession, chunk: Chunk) -> tuple[Handover, Handover]:
        make_active(spark)
        opened = open_listed(spark, self._request, list(chunk))
        return opened, self._ingest(spark, opened)


def _same_input(before: Handover, now: Handover) -> bool:
    """Whether ingest would do the same: it takes neither the cycle before nor wishes."""
    return _without_what_is_asked_again(before.cycles) == _without_what_is_asked_again(now.cycles)


def _without_what_is_asked_again(cycles: Sequence[ClusterCycle]) -> list[Any]:
    return [replace(cycle, predecessor=Predecessor(), wishes=()) for cycle in cycles]


def _bytes(cycles: Iterable[ClusterCycle]) -> float:
    return sum(landed_bytes(cycle.snapshot.path) for cycle in cycles if cycle.snapshot.path)
