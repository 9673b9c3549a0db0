"""Attempts at cycles, by the manifests in `cycles`, and the attempt of each cycle that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from evenkeel.handover import Write
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.outbox import SENT
from evenkeel.lake.record.tables import Row


@dataclass(frozen=True)
class Attempt:
    """One attempt at a cluster's cycle: its `planned` row of `cycles`, and its `closed` row, once that exists."""

    planned: Mapping[str, Any]
    closed: Mapping[str, Any] | None = None

    @property
    def cluster(self) -> str:
        """The cluster that the attempt decided for."""
        return str(self.planned["cluster"])

    @property
    def cycle_at(self) -> datetime:
        """The time of the cycle (UTC)."""
        at: datetime = self.planned["cycle_at"]
        return at

    @property
    def attempt_id(self) -> str:
        """The id of the attempt, unique in the lake."""
        return str(self.planned["attempt_id"])

    @property
    def number(self) -> int:
        """The attempt's number at its cycle, from 1."""
        return int(self.planned["attempt"])

    @property
    def kind(self) -> str:
        """live, backfill or rerun."""
        return str(self.planned["kind"])

    @property
    def mode(self) -> str:
        """dry_run, approve or auto."""
        return str(self.planned["mode"])

    @property
    def plan_id(self) -> str | None:
        """The id of the plan; None if the attempt came to no plan."""
        plan: str | None = self.planned["plan_id"]
        return plan

    @property
    def status(self) -> str:
        """Final status so far: planned, closed, skipped, failed or withheld."""
        return str((self.closed or self.planned)["status"])

    @property
    def reason(self) -> str | None:
        """Reason of the attempt's end, by its last manifest that has one; None if none has."""
        closed = self.closed["reason"] if self.closed is not None else None
        reason: str | None = closed or self.planned["reason"]
        return reason

    @property
    def decided(self) -> bool:
        """True if it came to decisions; a skipped or failed attempt did not."""
        return self.status not in ("skipped", "failed")

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """Its writes until its plan was recorded, each with its files if the manifest lists them."""
        return writes_of(self.cluster, self.planned["writes"], self.planned.get("files") or ())

    @cached_property
    def reads(self) -> tuple[Write, ...]:
        """The writes of earlier cycles that it read."""
        return writes_of(self.cluster, self.planned["reads"], self.planned.get("files") or ())

    @property
    def schema_version(self) -> int:
        """The version of the tables when it was written."""
        return int(self.planned.get("schema_version") or 1)

    def writes_of(self, table: str) -> tuple[Write, ...]:
        """Return its writes to one table."""
        return tuple(write for write in self.writes if write.table == table)

    def reads_of(self, table: str) -> tuple[Write, ...]:
        """Return the writes to one table that it read."""
        return tuple(write for write in self.reads if write.table == table)


def attempts_of(rows: Iterable[Row]) -> list[Attempt]:
    """Return the attempts of rows of `cycles`, by cluster, cycle and number."""
    attempts: dict[tuple[str, datetime, str], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: (row["cluster"], row["sequence"])):
        kinds = attempts.setdefault((row["cluster"], row["cycle_at"], row["attempt_id"]), {})
        kinds.setdefault(row["row_kind"], row)
    complete = [Attempt(kinds["planned"], kinds.get("closed")) for kinds in attempts.values() if "planned" in kinds]
    return sorted(complete, key=lambda a: (a.cluster, a.cycle_at, a.number))


def chunked(
    attempts: Iterable[Attempt], rows_of: Callable[[Attempt], int], most_rows: int, most_cycles: int
) -> Iterator[list[Attempt]]:
    """Yield the attempts in their order, cut so that no chunk exceeds these limits of rows or cycles, one cycle at
    least."""
    chunk: list[Attempt] = []
    rows = 0
    for attempt in attempts:
        row_count = rows_of(attempt)
        if chunk and (rows + row_count > most_rows or len(chunk) >= most_cycles):
            yield chunk
            chunk, rows = [], 0
        chunk.append(attempt)
        rows += row_count
    if chunk:
        yield chunk


def trusted(attempts: Iterable[Attempt], plans_sent: frozenset[str] = frozenset()) -> list[Attempt]:
    """Return one attempt per cluster and cycle: the one that sent commands, else the newest live one, else the
    newest."""
    chosen: dict[tuple[str, datetime], Attempt] = {}
    for attempt in attempts:
        key = (attempt.cluster, attempt.cycle_at)
        if key not in chosen or _rank(attempt, plans_sent) > _rank(chosen[key], plans_sent):
            chosen[key] = attempt
    return [chosen[key] for key in sorted(chosen)]


def _rank(attempt: Attempt, plans_sent: frozenset[str]) -> tuple[bool, bool, int]:
    return (attempt.plan_id in plans_sent, attempt.kind != "backfill", attempt.number)


def are_told_apart_by_commands(attempts: Sequence[Attempt]) -> bool:
    """Return True if only sent commands can show which attempts count: a cycle has several, and not all are dry
    runs."""
    several = len({attempt.cycle_at for attempt in attempts}) < len(attempts)
    return several and any(attempt.mode != "dry_run" for attempt in attempts)


def plans_of(commands: Iterable[Row], outcomes: Iterable[Row]) -> frozenset[str]:
    """Return the plans of which a command went out, or may have."""
    sent = {row["command_id"] for row in outcomes if row["outcome"] in SENT}
    return frozenset(row["plan_id"] for row in commands if row["command_id"] in sent)
