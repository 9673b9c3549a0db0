"""Retention of rows and removal of expired ones: whole dates if all their rows expire, else row by row.

Recently written rows are left alone, whatever their date: a backfill may be at work on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from evenkeel.errors import SettingsError
from evenkeel.lake.controls import HANDBACK, LEASE, PAUSE, RESUME, TAKEOVER
from evenkeel.lake.delta_log import TOPIC_VERSION_DAYS, TOPICS, VERSION_DAYS
from evenkeel.lake.record.tables import rows_where
from evenkeel.lake.schema import Table, sql_text
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.lake.store import Lake
from evenkeel.maintenance.inventory import DatesOnRecord, Day, File, Inventory, unlisted_writes
from evenkeel.maintenance.statements import at, delete, in_days, one_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Decisions without an act. `refused` is not among them: an act was due, and a gate stopped it.
NOTHING_DONE = "outcome IN ('kept', 'skipped') AND wish_id IS NULL"
THINNED = frozenset({"split_decisions", "unload_decisions", "placement_decisions"})
# Read by command id, whether or not a manifest lists them.
OUTBOX = frozenset({"commands", "outcomes"})
# Dates that the last upkeep checked are checked again for so long: one may have been in use then.
_AGAIN = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class ExpiryContext:
    """Time of this upkeep, its subject, and the time of the last completed one."""

    now: datetime
    periods: Periods
    record: DatesOnRecord
    last_at: datetime | None = None
    last_periods: Periods | None = None

    def cutoff(self, kind: str) -> date:
        """Return the first date that is kept of rows of a kind (audit, observed, considered, …)."""
        return self.periods.cutoff(kind, self.now)

    def may_be_open(self, file: File) -> bool:
        """Return True if a run that wrote this file may still be under way."""
        return file.written_at >= self.now - timedelta(days=self.periods.unlisted_days)

    def done_before(self, kind: str, day: Day, files: Iterable[File]) -> bool:
        """Return True if the last upkeep has finished the date for good, and nothing was written to it since."""
        if self.last_at is None or self.last_periods is None or self.last_at > self.now:  # by a clock that was ahead
            return False
        since = self.last_at
        return day[1] < self.last_periods.cutoff(kind, since) - _AGAIN and all(f.written_at < since for f in files)


def expired_days(inventory: Inventory, look: ExpiryContext, kind: str) -> list[Day]:
    """Return the dates of a table that are past a period, and that no kept row rests on."""
    cutoff = look.cutoff(kind)
    needed = look.record.needed(cutoff)
    return [
        (cluster, day)
        for (cluster, day), files in inventory.places().items()
        if cluster is not None
        and day is not None
        and look.record.is_past((cluster, day), cutoff)
        and (cluster, day) not in needed
        and not any(map(look.may_be_open, files))
    ]


def drop_days(spark: SparkSession, lake: Lake, inventory: Inventory, look: ExpiryContext) -> int:
    """Drop the dates of a table whose rows are all past their period; return the number of rows."""
    kind = kind_of(inventory.table)
    days = expired_days(inventory, look, kind) if kind else []
    if not days:
        return 0
    # Whole partitions: their files are removed from the list without opening them.
    delete(spark, lake, inventory.table.name, in_days(days))
    expired = set(days)
    return sum(file.rows for file in inventory.files if (file.cluster, file.date) in expired)


def thin_days(spark: SparkSession, lake: Lake, inventory: Inventory, look: ExpiryContext) -> int:
    """Drop decisions without an act once their period is over; return the number of rows."""
    if inventory.table.name not in THINNED:
        return 0
    places, expired = inventory.places(), set(expired_days(inventory, look, "audit"))
    past = [day for day in expired_days(inventory, look, "considered") if day not in expired]
    due = [day for day in past if not look.done_before("considered", day, places[day])]
    return delete(spark, lake, inventory.table.name, f"({in_days(due)}) AND {NOTHING_DONE}") if due else 0


def clear_unlisted(spark: SparkSession, lake: Lake, inventory: Inventory, look: ExpiryContext) -> int:
    """Drop rows of tries that no manifest lists, once no run can be under way that might list them."""
    table = inventory.table
    if table.name in OUTBOX or table.partition != ("cluster", "cycle_date"):
        return 0
    # The manifests of dates past the audit period are gone; rows that are left of them are needed.
    first, cutoff = look.cutoff("audit"), look.cutoff("unlisted")
    due = {}
    for (cluster, day), files in inventory.places().items():
        if cluster is None or day is None or not first <= day < cutoff:
            continue
        if look.done_before("unlisted", (cluster, day), files):
            continue
        young = [file.write_id for file in files if look.may_be_open(file)]
        if None not in young:  # a young file with rows of several writes: it waits
            due[(cluster, day)] = {str(write_id) for write_id in young}
    cleared = 0
    for place, ids in (unlisted_writes(spark, lake, table.name, due) if due else {}).items():
        old = [write_id for write_id in ids if write_id not in due[place]]
        if old:
            cleared += delete(spark, lake, table.name, f"({in_days([place])}) AND {one_of('write_id', old)}")
    return cleared


def drop_answers(spark: SparkSession, lake: Lake, look: ExpiryContext) -> int:
    """Drop answers to plans past the audit period."""
    return delete(spark, lake, "approvals", f"at < {at(_begin(look.cutoff('audit')))}")


def drop_controls(spark: SparkSession, lake: Lake, look: ExpiryContext) -> int:
    """Drop steps of pauses, takeovers and leases past the audit period, except the last of each: it is still in
    force."""
    cutoff = _begin(look.cutoff("audit"))
    last: dict[tuple[str, tuple[str, ...]], datetime] = {}
    steps = rows_where(lake.root, "controls", columns=["cluster", "kind", "token", "at"])
    for row in sorted(steps, key=lambda row: (row["token"], row["at"])):
        for kinds in ((PAUSE, RESUME), (TAKEOVER, HANDBACK), (LEASE,)):
            if row["kind"] in kinds:
                last[row["cluster"], kinds] = row["at"]
    conditions = [
        f"(cluster = {sql_text(cluster)} AND {one_of('kind', kinds)} AND at < {at(min(cutoff, moment))})"
        for (cluster, kinds), moment in sorted(last.items())
    ]
    return delete(spark, lake, "controls", " OR ".join(conditions)) if conditions else 0


def _begin(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


# Retention periods. They belong to the lake: its last upkeep recorded them, and they apply until an upkeep changes
# them. So a DAG and a shell that keep the same lake cannot work against each other by their defaults.

MOST_DAYS = 36_500
# Delta calls a shorter time unsafe: a reader of a version may not have opened its files yet.
LEAST_VERSION_DAYS = 7
# A cycle rests on the previous one, and counts the commands of the day before.
LEAST_ROW_DAYS = 2


@dataclass(frozen=True, slots=True)
class Periods:
    """Days that each kind of row, and versions for time travel, are kept; contradictions are refused."""

    audit_days: int = 400
    observed_days: int = 30
    considered_days: int = 30
    topics_days: int = 14
    unlisted_days: int = 7
    version_days: int = VERSION_DAYS
    topic_version_days: int = TOPIC_VERSION_DAYS

    def __post_init__(self) -> None:
        least = {"version_days": LEAST_VERSION_DAYS, "topic_version_days": LEAST_VERSION_DAYS, "unlisted_days": 1}
        wrong = [
            *[
                f"{name} is {value}, allowed is {least.get(name, LEAST_ROW_DAYS)} to {MOST_DAYS}"
                for name, value in asdict(self).items()
                if not least.get(name, LEAST_ROW_DAYS) <= value <= MOST_DAYS
            ],
            *self._contradictions(),
        ]
        if wrong:
            raise SettingsError(f"these periods cannot hold: {'; '.join(wrong)}")

    def as_dict(self) -> dict[str, int]:
        """Return field -> days."""
        return asdict(self)

    def cutoff(self, kind: str, now: datetime) -> date:
        """Return the first date that is kept of one kind (audit, observed, considered, …)."""
        kept_from: datetime = now - timedelta(days=getattr(self, f"{kind}_days"))
        return kept_from.date()

    def _contradictions(self) -> list[str]:
        pairs = (
            ("observed_days", "audit_days", "no manifest would list the rows any more"),
            ("considered_days", "audit_days", "no manifest would list the rows any more"),
            ("topics_days", "observed_days", "a cycle whose topics are gone is verified from bundle_load on"),
            (
                "unlisted_days",
                "topics_days",
                "rows of an open run are left alone that long, and would outlast the period",
            ),
        )
        return [
            f"{shorter} ({getattr(self, shorter)}) must not exceed {longer} ({getattr(self, longer)}): {why}"
            for shorter, longer, why in pairs
            if getattr(self, shorter) > getattr(self, longer)
        ]


NAMES = tuple(field.name for field in fields(Periods))
MEANINGS = {
    "audit_days": "manifests, decisions that acted, commands, outcomes, settings, approvals, controls, wishes",
    "observed_days": "what was observed, validation, bundle_load, broker_load, strategy_state",
    "considered_days": "decisions that came to nothing: considered, and nothing done; what the planner said",
    "topics_days": "topic_stats",
    "unlisted_days": "rows that no manifest lists; also how long what was just written is left alone",
    "version_days": "versions of the tables, for time travel",
    "topic_version_days": "versions of topic_stats",
}


def settled(
    recorded: Mapping[str, int] | None,
    given: Mapping[str, int | None],
    *,
    shorten: bool,
    promised: Mapping[str, int] | None = None,
) -> Periods:
    """Return the periods from now on: the recorded ones (else the defaults), and over them the given ones.

    `promised` are periods that count as promised if none is on record. Raises SettingsError for one that would break
    another, and, without `shorten`, for one shorter than the lake was promised.
    """
    known = {name: days for name, days in (recorded or {}).items() if name in NAMES}
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise SettingsError(f"unknown period {unknown[0]!r}; known are {', '.join(NAMES)}")
    wanted = {name: days for name, days in given.items() if days is not None}
    if not shorten:
        least = {**(promised or {}), **known}
        broken = [
            f"{name} from {least[name]} to {days}"
            for name, days in wanted.items()
            if name in least and days < least[name]
        ]
        if broken:
            raise SettingsError(
                f"this lake was promised longer periods: {'; '.join(sorted(broken))} would break that, and what is "
                "dropped does not come back. Say so explicitly (--shorten, or the param `shorten`) if it is meant"
            )
    return replace(Periods(), **{**known, **wanted})


def kind_of(table: Table) -> str | None:
    """Return the period that applies to the rows of a table; None: they are kept for good."""
    if table.name == TOPICS:
        return "topics"
    if table.name in PLANNER_TABLES:  # the part of it that was done is in the other decided tables
        return "considered"
    if table.layer in ("observed", "checked", "derived"):
        return "observed"
    return "audit" if table.layer in ("decided", "acted", "wished") else None


def whole_kind(table: Table) -> str | None:
    """Return the period within which all rows of a table exist: decisions with an act outlast it."""
    return "considered" if table.layer == "decided" else kind_of(table)
