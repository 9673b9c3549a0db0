"""Proof of the record: the chain of manifests, the rows that they list, and the decisions, made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import NoSuchCycle
from evenkeel.lake.record import Record, clusters_of, read_table_if_any
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.store import Lake
from evenkeel.verify.chain import (
    Fault,
    Link,
    Span,
    Stretch,
    anchor_of,
    attempts_in,
    check_bodies,
    check_links,
    check_reads,
    dates_of,
    in_stretches,
    kept_by,
)
from evenkeel.verify.check import BUNDLES, TOPICS, Verified, verify_attempts
from evenkeel.verify.contents import OnDemand
from evenkeel.verify.log_check import LogReport, LogSources, check_heads, open_check
from evenkeel.verify.table_logs import check_tables, counted_upkeeps, note_commits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

__all__ = ["BUNDLES", "TOPICS", "LogReport", "LogSources", "VerifyReport", "verify"]

_LINKS_AT_ONCE = 20_000
_LONG = 100_000
"""From this number of manifests on, the check of their links is announced."""


@dataclass(frozen=True)
class VerifyReport:
    """The result of `verify`.

    `manifests`: cluster -> number of its manifests. `heads`: cluster -> digest of its newest manifest. `read`: the
    number of manifests of the range, which were read in full. `attempts`: the number of attempts of the range. `idle`:
    the number of attempts that decided nothing. `verified`: the result for the others. `faults`: all faults. `log`: the
    report on the lake's transparency log.
    """

    manifests: dict[str, int]
    heads: dict[str, str]
    read: int
    attempts: int
    idle: int
    verified: Verified
    faults: tuple[Fault, ...] = field(default=())
    log: LogReport | None = None

    @property
    def is_sound(self) -> bool:
        """True if no fault was found."""
        return not self.faults


def verify(
    lake: str,
    session: Callable[[], AbstractContextManager[SparkSession]],
    *,
    cluster: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    depth: str | None = TOPICS,
    log_sources: LogSources | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> VerifyReport:
    """Check the links of each cluster's whole chain, and the manifests and attempts at cycles of a range.

    The range includes its ends; by default it has all cycles. `depth` None checks manifests only. A session is opened
    to read rows that no file proves, and to sum up topics. `log_sources`: checkpoints and witnesses that the lake's log
    is compared with. Raises NoSuchCycle if neither the record nor the log has anything.
    """
    import pyarrow.compute as pc

    sources = log_sources or LogSources()
    logged = open_check(lake, sources)
    record, span = Record(lake), Span(since or FIRST_MOMENT, until or LAST_MOMENT)
    try:
        chains = {name: record.links(name) for name in clusters_of(record, cluster)}
    except NoSuchCycle:
        logged.check_commits(is_whole=False)
        if not logged.faults:  # the log has no commit that is gone
            raise
        logged = replace(logged, commits=None)
        chains = {}
    chains = {name: links for name, links in chains.items() if links.num_rows}
    if (manifests := sum(links.num_rows for links in chains.values())) >= _LONG:
        say(f"looking at the links of {manifests:,} manifests")
    anchors, faults = read_table_if_any(lake, "anchors"), list[Fault]()
    for name, links in chains.items():
        first = int(links.column("sequence")[0].as_py())
        anchor = anchor_of(first, [anchor for anchor in anchors if anchor["cluster"] == name])
        faults += check_links(name, _in_order(links), anchor)
    known = logged.digests()
    upkeeps, upkeep_faults = counted_upkeeps(lake, known.get("upkeeps", {}), datetime.now(UTC))
    faults += check_heads(sources.expected_heads, chains)
    dates = sum((dates_of(links, span) for links in chains.values()), Counter[date]())
    counts = Counter[str]()
    begins = {name: pc.min(links.column("cycle_at")).as_py() for name, links in chains.items()}

    def checked_stretches() -> Iterator[Stretch]:
        for stretch in in_stretches(record, [*chains], dates, span):
            faults.extend(check_bodies(stretch.rows))
            logged.check_listed([write for attempt in stretch.attempts for write in attempt.writes])
            faults.extend(check_reads(stretch.attempts, stretch.near, begins))
            note_commits(known, stretch.attempts)
            counts["read"] += len(stretch.rows)
            counts["attempts"] += len(stretch.attempts)
            counts["idle"] += sum(attempt.plan_id is None for attempt in stretch.attempts)
            yield stretch

    verified = Verified()
    if depth is None:
        for _ in checked_stretches():
            pass
    else:
        attempts = sum(attempts_in(links, span) for links in chains.values())
        with OnDemand(session) as spark:
            verified = verify_attempts(
                spark,
                Lake(lake),
                checked_stretches(),
                attempts,
                kept=kept_by(upkeeps),
                depth=depth,
                progress=progress,
            )
    faults += [*upkeep_faults, *check_tables(lake, known, upkeeps)]
    logged.check_commits(is_whole=cluster is None and since is None and until is None)
    return VerifyReport(
        manifests={name: links.num_rows for name, links in chains.items()},
        heads={name: links.column("manifest_digest")[-1].as_py() for name, links in chains.items()},
        read=counts["read"],
        attempts=counts["attempts"],
        idle=counts["idle"],
        verified=verified,
        faults=(*faults, *logged.faults, *verified.faults),
        log=logged.report,
    )


def _in_order(links: Any) -> Iterator[Link]:
    """Yield the rows of the Arrow table one by one, since those of a year do not fit into memory.

    Moments become microseconds since 1970.
    """
    for part in links.to_batches(max_chunksize=_LINKS_AT_ONCE):
        columns = [part.column(name) for name in Link._fields]
        numbers = [
            column.cast("timestamp[us]").cast("int64") if str(column.type).startswith("timestamp") else column
            for column in columns
        ]
        yield from map(Link._make, zip(*(column.to_pylist() for column in numbers), strict=True))
