"""The manifest chain: what an attempt at a cycle wrote, listed last and never changed; and whose state is taken over.

`cycles` is the one table that is not appended blindly. Each row names the digest of the row before it, per cluster;
the head of the chain is read in the very statement that appends, under Serializable isolation, so that of two
publishers at once one conflicts and tries again on the new head.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Predecessor, Write
from evenkeel.lake.delta_log import local_log, until_committed
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import any_of, is_one_of, iso, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)

CYCLES = TABLES["cycles"]
# Filled by the statement that appends: they depend on the rows already in the chain.
_CHAINED = frozenset({"sequence", "attempt", "previous_digest", "manifest_digest"})
# Not part of what an attempt is: the clock, and where the row came to stand.
_OUTSIDE_THE_BODY = _CHAINED | {"body_digest", "recorded_at", "cycle_date", "write_id"}


def body_digest(row: Mapping[str, Any]) -> str:
    """sha256 over the content of a manifest row, columns by name; the recording clock is left out.

    A row of an earlier schema version is digested with the columns of that version.
    """
    known = CYCLES.names_at(row.get("schema_version") or 1)
    body = {name: row[name] for name in known if name not in _OUTSIDE_THE_BODY}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, default=_as_text)
    return hashlib.sha256(text.encode()).hexdigest()


def append_manifests(spark: SparkSession, lake: Lake, rows: Sequence[dict[str, Any]]) -> None:
    """Appends rows of at most one attempt per cluster to the chains: one row, or its `planned` and then its `closed`.

    A row holds all columns of `cycles` but `sequence`, `attempt`, the digests, `cycle_date` and `write_id`. The first
    row of an attempt gets the next attempt number of its cycle, later rows of the same `attempt_id` keep it.
    """
    if not rows:
        return
    _demand_one_attempt_each(rows)
    until_committed(
        lambda: _append_on_head(spark, lake, rows),
        log,
        "another publisher, or upkeep, came first; trying again",
    )


def _demand_one_attempt_each(rows: Sequence[dict[str, Any]]) -> None:
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(row["cluster"], []).append(row["row_kind"])
    attempts = {(row["cluster"], row["cycle_at"], row["attempt_id"]) for row in rows}
    wrong = sorted(cluster for cluster, seen in kinds.items() if len(seen) > 1 and seen != ["planned", "closed"])
    if wrong or len(attempts) > len(kinds):
        raise LakeError(f"manifest rows of two attempts for one cluster in one append: {wrong or sorted(kinds)}")


def _append_on_head(spark: SparkSession, lake: Lake, rows: Sequence[dict[str, Any]]) -> None:
    from pyspark.sql import functions as F

    same_cycle = is_one_of((row["cluster"], row["cycle_at"].isoformat()) for row in rows)
    its_attempt = F.col("attempt_id").isin([row["attempt_id"] for row in rows])
    # Whatever came since the log was looked at stands behind that row, so no newer head can be missed.
    behind = F.col("sequence") >= _lower_bound(lake, sorted({row["cluster"] for row in rows}))
    heads = (
        spark.read.format("delta")
        .load(lake.path("cycles"))
        .where(F.col("cluster").isin([row["cluster"] for row in rows]))
        .where(behind | same_cycle)
        .groupBy(F.col("cluster"))
        .agg(
            F.max_by(F.struct("sequence", "manifest_digest"), "sequence").alias("head"),
            F.max(F.when(same_cycle, F.col("attempt"))).alias("attempts"),
            F.max(F.when(same_cycle & its_attempt, F.col("attempt"))).alias("number"),
        )
    )
    linked = _frame(spark, rows).join(F.broadcast(heads), on="cluster", how="left")
    head = F.coalesce("head.manifest_digest", F.lit(""))
    # The second row of two stands on the first, whose digest follows from the head like any other.
    previous = F.when(F.col("after").isNull(), head).otherwise(F.sha2(F.concat(head, F.col("after")), 256))
    linked = linked.withColumns(
        {
            "sequence": F.coalesce(F.col("head.sequence"), F.lit(0)) + F.when(F.col("after").isNull(), 1).otherwise(2),
            "attempt": F.coalesce(F.col("number"), F.col("attempts") + 1, F.lit(1)),
            "previous_digest": previous,
            "manifest_digest": F.sha2(F.concat(previous, F.col("body_digest")), 256),
            "cycle_date": F.to_date("cycle_at"),
            "write_id": F.col("attempt_id"),
        }
    ).select([F.col(c.name).cast(c.type).alias(c.name) for c in CYCLES.columns])
    metadata = json.dumps({"manifest_of": [[row["cluster"], str(row["cycle_at"])] for row in rows]})
    linked.write.format("delta").mode("append").option("userMetadata", metadata).save(lake.path("cycles"))


def _lower_bound(lake: Lake, clusters: Sequence[str]) -> int:
    """A sequence that the head of every one of these chains has reached, from the log's statistics; 0 where they do not
    say. With it the statement opens one file instead of all that were written since the last upkeep."""
    if local_log(lake.path("cycles")) is None:
        return 0
    from deltalake import DeltaTable

    actions = DeltaTable(lake.path("cycles")).get_add_actions(flatten=True)
    if "max.sequence" not in actions.schema.names:
        return 0
    reached = dict.fromkeys(clusters, 0)
    columns = (actions.column(name).to_pylist() for name in ("partition.cluster", "max.sequence"))
    for cluster, sequence in zip(*columns, strict=True):
        if cluster in reached:
            reached[cluster] = max(reached[cluster], sequence or 0)
    return min(reached.values())


def _frame(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """The rows with their digests, and in `after` that of the row before it in this append, if there is one."""
    from pyspark.sql.types import StringType, StructField, StructType

    given = [field for field in CYCLES.struct_type().fields if field.name not in _CHAINED | {"cycle_date", "write_id"}]
    given.append(StructField("after", StringType()))
    complete: list[dict[str, Any]] = []
    last: dict[str, str] = {}
    for row in rows:
        digest = body_digest(row)
        complete.append({**row, "body_digest": digest, "after": last.get(row["cluster"])})
        last[row["cluster"]] = digest
    return spark.createDataFrame([tuple(row[f.name] for f in given) for row in complete], StructType(given))


def write_rows(writes: Sequence[Write]) -> list[dict[str, Any]]:
    """Writes as `cycles.writes` holds them, in a fixed order."""
    ordered = sorted(writes, key=lambda write: (write.table, write.write_id))
    return [
        {"table": w.table, "write_id": w.write_id, "version": w.version, "rows": w.rows, "digest": w.digest}
        for w in ordered
    ]


def file_rows(writes: Iterable[Write], known: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The files of writes as `cycles.files` holds them, together with such rows that are `known`, in a fixed order."""
    rows = [dict(row) for row in known]
    for w in writes:
        own = {"table": w.table, "write_id": w.write_id}
        rows += [{**own, "path": file.path, "size": file.size, "digest": file.digest} for file in w.files]
    return sorted(rows, key=lambda row: (row["table"], row["write_id"], row["path"]))


def writes_of(cluster: str, rows: Iterable[Any], files: Iterable[Any] = ()) -> tuple[Write, ...]:
    """The other way round: the writes in a cluster's row of `cycles`, each with its files among those given."""
    found: dict[tuple[str, str], list[DataFile]] = {}
    for r in files:
        found.setdefault((r["table"], r["write_id"]), []).append(DataFile(r["path"], int(r["size"]), r["digest"]))
    return tuple(
        Write(r["table"], r["write_id"], int(r["version"]), int(r["rows"]), r["digest"], cluster,
              tuple(found.get((r["table"], r["write_id"]), ())))
        for r in rows
    )  # fmt: skip


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a manifest cannot hold {type(value).__name__}")


# Which attempt at an earlier cycle a later cycle takes its state from.

# Statuses of an attempt that decided; a skipped or failed one has no state to hand on.
DECIDED_STATUSES = ("planned", "closed", "withheld")
_NEAR = timedelta(days=1)


def find_predecessors(
    spark: SparkSession, lake: Lake, cycles: list[tuple[str, str, str | None]], *, kind: str
) -> dict[str, Predecessor]:
    """For each (cluster, cycle_at, expected previous cycle_at): the attempt whose state is taken over.

    A live cycle takes state from attempts that are not a backfill; a backfill takes it from a backfill's attempt at the
    predecessor, else from the live one. If the expected cycle is not on record the newest older one serves, and the
    status says so.
    """
    found = _newest_before(spark, lake, [(cluster, at) for cluster, at, _ in cycles], kind, _NEAR)
    # Nearly always it is the cycle a minute or so before, and statistics lead there. Only who has none asks the chain.
    rest = [(cluster, at) for cluster, at, _ in cycles if cluster not in found]
    found |= _newest_before(spark, lake, rest, kind, None)
    return {cluster: _predecessor(found.get(cluster), expected) for cluster, _, expected in cycles}


def _newest_before(
    spark: SparkSession, lake: Lake, cycles: list[tuple[str, str]], kind: str, near: timedelta | None
) -> dict[str, Any]:
    """Per cluster the row of the attempt to take over from, looked for in the time just before if `near` is given."""
    from pyspark.sql import functions as F

    if not cycles:
        return {}
    attempts = spark.read.format("delta").load(lake.path("cycles")).where(F.col("row_kind") == "planned")
    decided = attempts.where(F.col("status").isin(*DECIDED_STATUSES))
    if kind != "backfill":
        decided = decided.where(F.col("kind") != "backfill")
    if near is not None:
        oldest = min(datetime.fromisoformat(at) for _, at in cycles) - near
        decided = decided.where(F.col("cycle_at") >= moment(oldest.isoformat()))
    earlier = [(F.col("cluster") == cluster) & (F.col("cycle_at") < moment(at)) for cluster, at in cycles]
    is_backfill = (F.col("kind") == "backfill").cast("int")
    rows = (
        decided.where(any_of(earlier))
        .groupBy(F.col("cluster"))
        .agg(
            F.max_by(
                F.struct(iso("cycle_at").alias("cycle_at"), "attempt_id", "writes"),
                F.struct("cycle_at", is_backfill, "attempt"),
            ).alias("newest")
        )
        .select("cluster", "newest.*")
        .collect()
    )
    return {row["cluster"]: row for row in rows}


def _predecessor(row: Any, expected: str | None) -> Predecessor:
    if row is None:
        return Predecessor(status="none" if expected is None else "missing", expected_at=expected)
    cycle_at = row["cycle_at"]
    status = "used" if expected in (None, cycle_at) else "older"
    return Predecessor(status, cycle_at, row["attempt_id"], expected, writes_of(row["cluster"], row["writes"]))
