"""Wishes on record, and the wishes that a cycle takes.

A wish is to be carried out in exactly one cycle, and deciding that cycle again must give the same plan. A cycle's
manifest lists the wishes it took (`cycles.wishes`), and only the manifests count:

- A wish is taken if an attempt that decided lists it. An attempt that failed or was skipped decided nothing, so its
  wishes keep waiting.
- A wish that another cycle took is not taken again, even if that cycle is later than this one. Otherwise a missed
  cycle, decided late, with its moment between the wish and the cycle that took it, would carry the wish out a second
  time.
- A re-run takes what the cycle's attempts took, and no further wish, even one that would have been old enough. A wish
  may reach the table after the cycle of its moment was decided, and the plan must not change by that. It waits for the
  next cycle. Only wishes of the run itself (the param `wishes`) are added, as its operator asked for exactly that.
- A cycle decided for the first time takes waiting wishes made up to its moment. A later wish is not taken by an earlier
  moment, whose snapshot its maker had not seen.
- A drain is carried out until it is ended: each cycle takes those made up to its moment, even if earlier cycles took
  them. For each broker the last wish counts, a drain or an undrain. A re-run takes what the cycle's attempts took.
- A backfill takes what a live attempt at its cycle took, to arrive at the same plan, and no waiting wish. A backfill
  never sends anything, so a wish would be used up and never carried out. For the same reason a wish in a backfill's
  list does not count as taken.
- Cycles of a recording send nothing either. They still take wishes, to show the result. If a recording is decided under
  the name of a running cluster, its cycles leave the wishes to the running one: for that one they are not taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.handover import RECORDING
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.record import read_table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import DRAIN, UNDRAIN
from evenkeel.lake.store import Lake, append_values
from evenkeel.spark.sql import is_one_of, iso
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WISHES = TABLES["wishes"]
BACKFILL = "backfill"
Wish = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TakenWishes:
    """The wishes of a decided attempt, backfills excluded: its cycle (ISO-8601) and the ids of its wishes."""

    cluster: str
    cycle_at: str
    wish_ids: tuple[str, ...]


def wishes_for(
    cluster: str, cycle_at: str, known: Iterable[Wish], taken: Sequence[TakenWishes], run: Any
) -> tuple[Wish, ...]:
    """Return the wishes that a cycle takes, oldest first. `run` is the deciding run: its kind and its id."""
    taken_by_cluster = [attempt for attempt in taken if attempt.cluster == cluster]
    elsewhere = {
        wish_id for attempt in taken_by_cluster if attempt.cycle_at != cycle_at for wish_id in attempt.wish_ids
    }
    before = [attempt for attempt in taken_by_cluster if attempt.cycle_at == cycle_at]
    taken_ids = {wish_id for attempt in before for wish_id in attempt.wish_ids}

    def is_taken(wish: Wish) -> bool:
        if wish["wish_id"] in taken_ids:
            return True
        if run.kind == BACKFILL or (wish["wish_id"] in elsewhere and wish["kind"] != DRAIN) or wish["wish_id"] in over:
            return False
        brought = wish["run_id"] is not None and wish["run_id"] == run.run_id
        return brought or (not before and bool(wish["made_at"] <= cycle_at))

    waiting = {wish["wish_id"]: wish for wish in known if wish["cluster"] == cluster}
    over = ended_drains(wish for wish in waiting.values() if wish["made_at"] <= cycle_at)
    return tuple(sorted(filter(is_taken, waiting.values()), key=lambda wish: (wish["made_at"], wish["wish_id"])))


def ended_drains(wishes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the drains, and undrains, after which there is another one of the same broker and cluster."""
    last: dict[tuple[str, str], str] = {}
    over = set()
    for wish in sorted(wishes, key=lambda wish: (wish["made_at"], wish["wish_id"])):
        if wish["kind"] in (DRAIN, UNDRAIN):
            about = wish["cluster"], wish["broker"]
            over |= {last[about]} if about in last else set()
            last[about] = wish["wish_id"]
    return over - set(last.values())


def read_wishes(lake: Lake, clusters: Sequence[str]) -> list[Wish]:
    """Return all recorded wishes of these clusters, with times as ISO-8601 UTC text."""
    rows = read_table(lake.root, "wishes", {"cluster": clusters})
    return [{**row, "made_at": utc_text(row["made_at"])} for row in rows]


def read_taken(
    spark: SparkSession, lake: Lake, cycles: Sequence[tuple[str, str]], running: Collection[str] = ()
) -> list[TakenWishes]:
    """Return the attempts that decided, backfills excluded: those that took wishes, and all at exactly these cycles.

    For clusters that are `running`, attempts at cycles of a recording are left out.
    """
    from pyspark.sql import functions as F

    attempts = spark.read.format("delta").load(lake.path("cycles")).where(F.col("row_kind") == "planned")
    decided = attempts.where(F.col("status").isin(*DECIDED_STATUSES) & (F.col("kind") != BACKFILL))
    of_clusters = decided.where(F.col("cluster").isin(sorted({cluster for cluster, _ in cycles})))
    if running:
        is_rehearsal = F.col("cluster").isin(sorted(running)) & F.col("source").eqNullSafe(RECORDING)
        of_clusters = of_clusters.where(~is_rehearsal)
    rows = of_clusters.where((F.size("wishes") > 0) | is_one_of(cycles)).select(
        "cluster", iso("cycle_at").alias("at"), "wishes"
    )
    return [TakenWishes(row["cluster"], row["at"], tuple(row["wishes"] or ())) for row in rows.collect()]


def append_wishes(spark: SparkSession, lake: Lake, wishes: Sequence[Mapping[str, Any]]) -> None:
    """Record wishes; their `made_at` is ISO-8601 text with a time zone."""
    if not wishes:
        return
    rows = [typed(wish) for wish in wishes]
    append_values(spark, lake, "wishes", [tuple(row[name] for name in WISHES.column_names()) for row in rows])


def typed(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Return a wish as a row of its table; its `made_at` is ISO-8601 text with a time zone, and a datetime in the
    row."""
    return {**wish, "made_at": datetime.fromisoformat(wish["made_at"])}
