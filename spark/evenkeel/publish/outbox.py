"""The outbox: commands are put on record, then sent or held back, and what was seen of them is put on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Handover, Write
from evenkeel.lake.outbox import OPEN, on_record
from evenkeel.lake.store import Lake
from evenkeel.publish.dispatch import ClusterCommands, OutcomeRecorder, Sending, send_all
from evenkeel.publish.gate import DRY_RUN
from evenkeel.spark.sql import with_moments
from evenkeel.steering.outcome import Outcome, not_sent
from evenkeel.steering.pulsar_admin import DryRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sent:
    """What came of the commands of a run. `why`: cluster -> why its commands were not all sent; in `withheld` those of
    which none was. `unfinished`: clusters that another publisher goes on with, or the next try. `error`: one that
    nobody foresaw, to be raised when all is on record."""

    writes: tuple[Write, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    unfinished: frozenset[str] = frozenset()
    error: Exception | None = None


def put_out(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    commands: DataFrame,
    clusters: Sequence[str],
    begun: frozenset[str],
    withheld: Mapping[str, str],
    sending: Sending | None,
) -> Sent:
    """Puts the clusters' commands on record and gives them to their sink; those of a `withheld` cluster to none.

    What a try that was killed has put on record already is not repeated; only clusters whose attempt has `begun`, its
    plan being on record, can have any.
    """
    from pyspark.sql import functions as F

    asked = commands.where(F.col("cluster").isin(list(clusters))).orderBy("cluster", "step")
    rows = with_moments(asked, ("cycle_at", "expires_at"))
    tried = [row["command_id"] for row in rows if row["cluster"] in begun]
    recorded = on_record(spark, lake, "commands", sorted(begun), tried, ("command_id",))
    missing = asked.where(~F.col("command_id").isin(sorted(row["command_id"] for row in recorded)))
    records = OutcomeRecorder(spark, lake, handover, sending)
    records.own(lake.append(spark, {"commands": missing}, handover=handover, task="publish"))
    seen = on_record(spark, lake, "outcomes", sorted(begun), tried, ("command_id", "outcome"))
    final = {row["command_id"] for row in seen if row["outcome"] not in OPEN}
    left = [row for row in rows if row["command_id"] not in final]
    records.know(rows)
    records.write([*_without_sending(left, handover.run.mode, withheld)])
    going = [row for row in left if handover.run.mode != DRY_RUN and row["cluster"] not in withheld]
    done = send_all(records, _errands(handover, going), sending) if going and sending is not None else {}
    stopped = {cluster: one.stopped for cluster, one in done.items() if one.stopped is not None}
    unfinished = frozenset(cluster for cluster, one in done.items() if one.is_lost or one.error is not None)
    errors = [one.error for one in done.values() if one.error is not None]
    out = {row["cluster"] for row in rows if row["command_id"] in records.sent}
    return Sent(
        writes=tuple(records.writes),
        why={**withheld, **stopped},
        withheld=frozenset(withheld) | (frozenset(stopped) - out - unfinished),
        unfinished=unfinished,
        error=errors[0] if errors else None,
    )


def rows_of(rows: Iterable[Row], cluster: str) -> list[Row]:
    """Those of one cluster."""
    return [row for row in rows if row["cluster"] == cluster]


def _without_sending(rows: Sequence[Row], mode: str, withheld: Mapping[str, str]) -> list[Outcome]:
    """Outcomes of what is not to be sent: all of a dry run, and what is withheld."""
    told: list[Outcome] = []
    if mode == DRY_RUN:
        DryRun().send(rows, stop=lambda: None, told=told.append)
        return told
    now = datetime.now(UTC)
    held = [row for row in rows if row["cluster"] in withheld]
    return [not_sent(row["command_id"], now, withheld[row["cluster"]]) for row in held]


def _errands(handover: Handover, rows: Sequence[Row]) -> list[ClusterCommands]:
    errands = [ClusterCommands(cycle, rows_of(rows, cycle.cluster)) for cycle in handover.open_cycles()]
    return [errand for errand in errands if errand.commands]
