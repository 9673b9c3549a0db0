"""Attempts at cycles: what the manifests in `cycles` say of them, and which one of each cycle counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.handover import Write
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.outbox import SENT
from evenkeel.record.read.tables import Row, equals, rows_where


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a cluster's cycle: its `planned` row of `cycles`, and the `closed` one once there is one."""

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
        """The id of the plan; None where the attempt came to no plan."""
        plan: str | None = self.planned["plan_id"]
        return plan

    @property
    def status(self) -> str:
        """planned, closed, skipped, failed or withheld: the last word on it."""
        return str((self.closed or self.planned)["status"])

    @property
    def reason(self) -> str | None:
        """Why the attempt ended as it did, by its last manifest that gives a reason; None where none does."""
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
