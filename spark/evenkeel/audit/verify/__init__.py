"""Proof of the record: are the manifests one chain, are their rows as they were written, does it all come out again?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.audit.read import Attempt, attempts_of, read_table
from evenkeel.audit.verify.chain import check_chain
from evenkeel.audit.verify.check import BUNDLES, TOPICS, Verified, verify_attempts
from evenkeel.audit.verify.faults import CHAIN, CODE, CONTENT, DATA, UNKNOWN, Fault
from evenkeel.audit.verify.history import rewriting_commits
from evenkeel.audit.verify.kept import anchor_of, read_anchors, read_kept
from evenkeel.audit.verify.rows import OnDemand
from evenkeel.audit.verify.standing import check_reads
from evenkeel.errors import NoSuchCycle
from evenkeel.lake.store import Lake

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

__all__ = ["BUNDLES", "CHAIN", "CODE", "CONTENT", "DATA", "TOPICS", "UNKNOWN", "Fault", "Report", "verify"]


@dataclass(frozen=True)
class Report:
    """`manifests` and `heads` are by cluster; `attempts` are those of the range, `verified` what came of them."""

    manifests: dict[str, int]
    heads: dict[str, str]
    attempts: Sequence[Attempt]
    verified: Verified
    faults: tuple[Fault, ...] = field(default=())

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify(
    lake: str,
    session: Callable[[], AbstractContextManager[SparkSession]],
    *,
    cluster: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    depth: str | None = TOPICS,
    by_rows: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Checks the whole chain of each cluster, and the attempts at cycles of a range (ends included, all by default).

    `depth` None looks at the chain only. A session is asked for where rows have to be looked at: those that no file
    proves, topics whose loads are summed up, and with `by_rows` all of them. Raises NoSuchCycle where nothing is on
    record.
    """
    rows = read_table(lake, "cycles", cluster=cluster)
    if not rows:
        whose = f" of cluster {cluster!r}" if cluster else ""
        raise NoSuchCycle(f"no cycle{whose} is on record in {lake}: there is nothing to verify.")
    by_cluster: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_cluster.setdefault(row["cluster"], []).append(row)
    anchors = read_anchors(lake)
    faults = [
        fault
        for name, own in by_cluster.items()
        for fault in check_chain(own, anchor_of(own, [one for one in anchors if one["cluster"] == name]))
    ]
    faults += [Fault("", None, CHAIN, "cycles", "its log", words) for words in rewriting_commits(lake, "cycles")]
    every = attempts_of(rows)
    faults += check_reads(every)
    attempts = [a for a in every if (since is None or a.cycle_at >= since) and (until is None or a.cycle_at <= until)]
    verified = Verified()
    if depth is not None and attempts:
        with OnDemand(session) as spark:
            verified = verify_attempts(
                spark,
                Lake(lake),
                attempts,
                every,
                kept=read_kept(lake),
                depth=depth,
                by_rows=by_rows,
                progress=progress,
            )
    heads = {name: max(own, key=lambda row: row["sequence"])["manifest_digest"] for name, own in by_cluster.items()}
    counts = {name: len(own) for name, own in by_cluster.items()}
    return Report(counts, heads, attempts, verified, (*faults, *verified.faults))
