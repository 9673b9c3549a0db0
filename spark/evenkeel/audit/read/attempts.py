"""Attempts at cycles: what the manifests in `cycles` say of them, and which one of each cycle counts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenkeel.audit.read.tables import Row, equals, rows_where
from evenkeel.errors import NoSuchCycle
from evenkeel.handover import Write
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.outbox import SENT
from evenkeel.times_given import time_given

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a cluster's cycle: its `planned` row of `cycles`, and the `closed` one once there is one."""

    planned: Mapping[str, Any]
    closed: Mapping[str, Any] | None = None

    @property
    def cluster(self) -> str:
        return str(self.planned["cluster"])

    @property
    def cycle_at(self) -> datetime:
        at: datetime = self.planned["cycle_at"]
        return at

    @property
    def attempt_id(self) -> str:
        return str(self.planned["attempt_id"])

    @property
    def number(self) -> int:
        return int(self.planned["attempt"])

    @property
    def kind(self) -> str:
        return str(self.planned["kind"])

    @property
    def mode(self) -> str:
        return str(self.planned["mode"])

    @property
    def plan_id(self) -> str | None:
        plan: str | None = self.planned["plan_id"]
        return plan

    @property
    def status(self) -> str:
        """planned, closed, skipped, failed or withheld: the last word on it."""
        return str((self.closed or self.planned)["status"])

    @property
    def reason(self) -> str | None:
        closed = self.closed["reason"] if self.closed is not None else None
        reason: str | None = closed or self.planned["reason"]
        return reason

    @property
    def decided(self) -> bool:
        """Whether it came to decisions; a skipped or failed attempt did not."""
        return self.status not in ("skipped", "failed")

    @property
    def writes(self) -> tuple[Write, ...]:
        """What it wrote until its plan was on record, each write with its files where the manifest lists them."""
        return writes_of(self.cluster, self.planned["writes"], self.planned.get("files") or ())

    @property
    def reads(self) -> tuple[Write, ...]:
        """The writes of earlier cycles that it rests on."""
        return writes_of(self.cluster, self.planned["reads"])

    @property
    def schema_version(self) -> int:
        """That of the tables when it was written."""
        return int(self.planned.get("schema_version") or 1)

    def writes_of(self, table: str) -> tuple[Write, ...]:
        """Its writes to one table."""
        rows = (self.planned["writes"], self.planned.get("files") or ())
        return writes_of(self.cluster, *([row for row in own if row["table"] == table] for own in rows))


def read_attempts(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """All attempts on record, oldest cycle first; the order within a cycle is that of the chain.

    Raises LakeError where there is no lake, or its `cycles` table cannot be read.
    """
    return attempts_of(rows_where(lake, "cycles", equals("cluster", cluster)))


def attempts_of(rows: Iterable[Row]) -> list[Attempt]:
    """The attempts that rows of `cycles` tell of, by cluster, cycle and number."""
    attempts: dict[tuple[str, datetime, str], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: (row["cluster"], row["sequence"])):
        kinds = attempts.setdefault((row["cluster"], row["cycle_at"], row["attempt_id"]), {})
        kinds.setdefault(row["row_kind"], row)
    found = [Attempt(kinds["planned"], kinds.get("closed")) for kinds in attempts.values() if "planned" in kinds]
    return sorted(found, key=lambda a: (a.cluster, a.cycle_at, a.number))


def chunked(
    attempts: Iterable[Attempt], rows_of: Callable[[Attempt], int], most_rows: int, most_cycles: int
) -> Iterator[list[Attempt]]:
    """The attempts in their order, cut so that no chunk holds more rows or cycles than that, but one cycle at least."""
    chunk: list[Attempt] = []
    rows = 0
    for attempt in attempts:
        own = rows_of(attempt)
        if chunk and (rows + own > most_rows or len(chunk) >= most_cycles):
            yield chunk
            chunk, rows = [], 0
        chunk.append(attempt)
        rows += own
    if chunk:
        yield chunk


def read_cycles(lake: str | Path, *, cluster: str | None = None) -> list[Attempt]:
    """The attempt that counts for each cluster and cycle, by cluster and time; see `trusted`."""
    attempts = read_attempts(lake, cluster=cluster)
    return trusted(attempts, _plans_sent(lake, attempts))


def trusted(attempts: Iterable[Attempt], plans_sent: frozenset[str] = frozenset()) -> list[Attempt]:
    """One attempt per cluster and cycle: the one that sent commands, else the newest live one, else the newest."""
    chosen: dict[tuple[str, datetime], Attempt] = {}
    for attempt in attempts:
        key = (attempt.cluster, attempt.cycle_at)
        if key not in chosen or _rank(attempt, plans_sent) > _rank(chosen[key], plans_sent):
            chosen[key] = attempt
    return [chosen[key] for key in sorted(chosen)]


def _rank(attempt: Attempt, plans_sent: frozenset[str]) -> tuple[bool, bool, int]:
    return (attempt.plan_id in plans_sent, attempt.kind != "backfill", attempt.number)


def _plans_sent(lake: str | Path, attempts: Sequence[Attempt]) -> frozenset[str]:
    """Plans of which a command went out; a dry run sends none, so nothing is read for it."""
    if all(attempt.mode == "dry_run" for attempt in attempts):
        return frozenset()
    return plans_of(rows_where(lake, "commands"), rows_where(lake, "outcomes"))


def plans_of(commands: Iterable[Row], outcomes: Iterable[Row]) -> frozenset[str]:
    """The plans of which a command went out, or may have."""
    sent = {row["command_id"] for row in outcomes if row["outcome"] in SENT}
    return frozenset(row["plan_id"] for row in commands if row["command_id"] in sent)


def find_cycles(
    lake: str | Path, *, cluster: str | None = None, cycle: str | datetime | None = None, option: str = "--cycle"
) -> list[Attempt]:
    """The attempt asked for, of one cluster or (where none is named) of each cluster that has such a cycle.

    `cycle` is `latest` (also for None), or a time as `times_given` reads it, which stands for the one cycle within it;
    `option` is what that is called where it was given. Raises NoSuchCycle, which names the nearest cluster or cycle on
    record.
    """
    cycles = read_cycles(lake)
    if not cycles:
        raise NoSuchCycle(f"no cycle is on record in {lake}: run one first (`evenkeel rebalance --lake {lake} …`).")
    clusters = sorted({attempt.cluster for attempt in cycles})
    if cluster is not None and cluster not in clusters:
        raise NoSuchCycle(f"no cycle of cluster {cluster!r} is on record in {lake}.{nearest(cluster, clusters)}")
    wanted = clusters if cluster is None else [cluster]
    by_cluster = {name: [a for a in cycles if a.cluster == name] for name in wanted}
    if cycle is None or cycle == LATEST:
        return [by_cluster[name][-1] for name in wanted]
    earliest, latest = _span(cycle, option)
    found = [a for name in wanted for a in by_cluster[name] if earliest <= a.cycle_at <= latest]
    return _only_one_each(found, by_cluster, earliest, str(cycle), lake)


def _only_one_each(
    found: list[Attempt], by_cluster: dict[str, list[Attempt]], at: datetime, asked: str, lake: str | Path
) -> list[Attempt]:
    exact = [a for a in found if a.cycle_at == at]
    chosen = exact or found
    if not chosen:
        every = [a for attempts in by_cluster.values() for a in attempts]
        nearest = min(every, key=lambda a: (abs(a.cycle_at - at), a.cluster))
        raise NoSuchCycle(
            f"no cycle at {asked} is on record in {lake} (clusters looked at: {', '.join(by_cluster)}). "
            f"The nearest is {nearest.cycle_at.isoformat()} of {nearest.cluster}."
        )
    clusters = [a.cluster for a in chosen]
    if len(set(clusters)) < len(clusters):
        times = ", ".join(a.cycle_at.isoformat() for a in chosen)
        raise NoSuchCycle(f"{asked} fits several cycles: {times}. Give the time in full.")
    return chosen


def _span(cycle: str | datetime, option: str) -> tuple[datetime, datetime]:
    """The moments that a given time stands for: itself, or all that its text names."""
    if isinstance(cycle, datetime):
        at = cycle if cycle.tzinfo else cycle.replace(tzinfo=UTC)
        return at, at
    found = time_given(cycle, option)
    return found.first, found.last


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint at the nearest of the names on record, and the first of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} On record: {', '.join(known[:20])}."
