"""The manifest chain: the writes of each attempt at a cycle, listed last and never changed.

`cycles` is the only table that is not appended blindly. Each row names the digest of the previous row, per cluster. The
statement that appends also reads the head of the chain, under Serializable isolation. So of two publishers at once one
conflicts and tries again on the new head.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import until_committed
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, append_frame
from evenkeel.lake.table_files import delta_table
from evenkeel.spark.sql import in_spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)

CYCLES = TABLES["cycles"]
# The statement that appends fills these: they depend on the rows already in the chain.
_CHAINED = frozenset({"sequence", "attempt", "previous_digest", "manifest_digest"})
# Not part of an attempt's content: the clock, and the row's place in the chain.
_OUTSIDE_THE_BODY = _CHAINED | {"body_digest", "recorded_at"} | STAMP_NAMES


def body_digest(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 over the content of a manifest row, columns by name; the recording clock is left out."""
    body = {name: row[name] for name in CYCLES.column_names() if name not in _OUTSIDE_THE_BODY}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, default=_as_text)
    return hashlib.sha256(text.encode()).hexdigest()


def append_manifests(spark: SparkSession, lake: Lake, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows of at most one attempt per cluster and cycle to the chains, all or none, as if one by one.

    The rows of a cluster are in the order of `cycle_at`: of each attempt one row, or its `planned` and then its
    `closed`. A row holds all columns of `cycles` except `sequence`, `attempt`, the digests, `cycle_date` and
    `write_id`. The first row of an attempt gets the next attempt number of its cycle, later rows of the same
    `attempt_id` keep it.
    """
    if not rows:
        return
    _demand_one_attempt_each(rows)
    complete = [{**row, "body_digest": body_digest(row)} for row in rows]
    until_committed(
        lambda: _append_on_head(spark, lake, complete),
        log,
        "another publisher, or upkeep, came first; trying again",
    )


def _demand_one_attempt_each(rows: Sequence[dict[str, Any]]) -> None:
    kinds: dict[tuple[str, datetime, str], list[str]] = {}
    for row in rows:
        kinds.setdefault((row["cluster"], row["cycle_at"], row["attempt_id"]), []).append(row["row_kind"])
    wrong = {cluster for (cluster, _, _), seen in kinds.items() if len(seen) > 1 and seen != ["planned", "closed"]}
    moments: dict[str, list[datetime]] = {}
    for row in rows:
        moments.setdefault(row["cluster"], []).append(row["cycle_at"])
    attempts = Counter((cluster, at) for cluster, at, _ in kinds)
    wrong |= {cluster for (cluster, _), number in attempts.items() if number > 1}
    wrong |= {cluster for cluster, cluster_moments in moments.items() if cluster_moments != sorted(cluster_moments)}
    if wrong:
        raise LakeError(
            f"manifest rows of {', '.join(sorted(wrong))} that are of two attempts for one cycle, or not in order: one "
            "append takes one attempt per cycle, by the time of the cycle"
        )


def _append_on_head(spark: SparkSession, lake: Lake, rows: Sequence[Mapping[str, Any]]) -> None:
    from pyspark.sql import functions as F

    by_cluster: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cluster.setdefault(row["cluster"], []).append(row)
    same_cycles = in_spans(
        (cluster, cluster_rows[0]["cycle_at"].isoformat(), cluster_rows[-1]["cycle_at"].isoformat())
        for cluster, cluster_rows in sorted(by_cluster.items())
    )
    # Rows that came after the look at the log are behind that row, so no newer head can be missed.
    behind = F.col("sequence") >= _lower_bound(lake, sorted(by_cluster))
    heads = (
        spark.read.format("delta")
        .load(lake.path("cycles"))
        .where(F.col("cluster").isin(sorted(by_cluster)))
        .where(behind | same_cycles)
        .groupBy(F.col("cluster"))
        .agg(
            F.max_by(F.struct("sequence", "manifest_digest"), "sequence").alias("head"),
            F.collect_set(F.when(same_cycles, F.struct("cycle_at", "attempt_id", "attempt"))).alias("there"),
        )
    )
    linked = _linked(_frame(spark, by_cluster).join(F.broadcast(heads), on="cluster", how="left"))
    at_the_cycle = F.filter("there", lambda entry: entry["cycle_at"] == F.col("cycle_at"))
    same = F.filter(at_the_cycle, lambda entry: entry["attempt_id"] == F.col("attempt_id"))
    linked = linked.withColumns(
        {
            "attempt": F.coalesce(F.array_max(same["attempt"]), F.array_max(at_the_cycle["attempt"]) + 1, F.lit(1)),
            "cycle_date": F.to_date("cycle_at"),
            "write_id": F.col("attempt_id"),
        }
    ).select([F.col(c.name).cast(c.type).alias(c.name) for c in CYCLES.columns])
    user_metadata = {"manifest_of": [[row["cluster"], str(row["cycle_at"])] for row in rows]}
    append_frame(linked.coalesce(1), lake, "cycles", user_metadata)


def _linked(frame: DataFrame) -> DataFrame:
    """Return the rows of each cluster to append behind the head of its chain, with `there` beside them.

    The statement itself folds the chain: each digest is made of the previous one.
    """
    from pyspark.sql import functions as F

    digests = F.aggregate(
        "rows",
        F.array(F.coalesce("head.manifest_digest", F.lit(""))),
        lambda so_far, row: F.concat(
            so_far, F.array(F.sha2(F.concat(F.element_at(so_far, -1), row["body_digest"]), 256))
        ),
    )
    reached = F.coalesce("head.sequence", F.lit(0)).alias("reached")
    folded = frame.select("there", "rows", reached, digests.alias("digests"))
    number = F.size("rows")
    links = F.arrays_zip(
        "rows",
        F.slice("digests", 1, number).alias("previous_digest"),
        F.slice("digests", 2, number).alias("manifest_digest"),
    )
    placed = folded.select("there", "reached", F.posexplode(links).alias("place", "link"))
    sequence = (F.col("reached") + F.col("place") + 1).alias("sequence")
    return placed.select("there", sequence, "link.rows.*", "link.previous_digest", "link.manifest_digest")


def _lower_bound(lake: Lake, clusters: Sequence[str]) -> int:
    """Return a sequence that the head of each of these chains has reached, by the log's statistics; 0 without
    statistics.

    With it the statement opens one file instead of all that were written since the last upkeep.
    """
    actions = delta_table(lake.path("cycles")).get_add_actions(flatten=True)
    if "max.sequence" not in actions.schema.names:
        return 0
    reached = dict.fromkeys(clusters, 0)
    columns = (actions.column(name).to_pylist() for name in ("partition.cluster", "max.sequence"))
    for cluster, sequence in zip(*columns, strict=True):
        if cluster in reached:
            reached[cluster] = max(reached[cluster], sequence or 0)
    return min(reached.values())


def _frame(spark: SparkSession, by_cluster: Mapping[str, Sequence[Mapping[str, Any]]]) -> DataFrame:
    """Return cluster, rows: all rows of a cluster in their order, each with the digest of its content."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    given = [field for field in CYCLES.struct_type().fields if field.name not in _CHAINED | STAMP_NAMES]
    kind = StructType([StructField("cluster", StringType()), StructField("rows", ArrayType(StructType(given)))])
    hashed_rows = [
        (cluster, [tuple(row[field.name] for field in given) for row in rows])
        for cluster, rows in sorted(by_cluster.items())
    ]
    return spark.createDataFrame(hashed_rows, kind)


def write_rows(writes: Sequence[Write]) -> list[dict[str, Any]]:
    """Return writes as `cycles.writes` holds them, in a fixed order."""
    ordered = sorted(writes, key=lambda write: (write.table, write.write_id))
    return [
        {"table": w.table, "write_id": w.write_id, "version": w.version, "rows": w.rows, "commit": w.commit}
        for w in ordered
    ]


def file_rows(writes: Iterable[Write], known: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the files of writes as `cycles.files` holds them, together with the `known` rows, in order."""
    rows = [dict(row) for row in known]
    for w in writes:
        key = {"table": w.table, "write_id": w.write_id}
        rows += [{**key, "path": file.path, "size": file.size, "digest": file.digest} for file in w.files]
    return sorted(rows, key=lambda row: (row["table"], row["write_id"], row["path"]))


def writes_of(cluster: str, rows: Iterable[Any], files: Iterable[Any]) -> tuple[Write, ...]:
    """Read the writes from a cluster's row of `cycles`, each with its files among those given."""
    files_of_write: dict[tuple[str, str], list[DataFile]] = {}
    for r in files:
        files_of_write.setdefault((r["table"], r["write_id"]), []).append(
            DataFile(r["path"], int(r["size"]), r["digest"])
        )
    return tuple(
        Write(r["table"], r["write_id"], int(r["version"]), int(r["rows"]), r["commit"], cluster,
              tuple(files_of_write.get((r["table"], r["write_id"]), ())))
        for r in rows
    )  # fmt: skip


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a manifest cannot hold {type(value).__name__}")


# Statuses of an attempt that decided; a skipped or failed one has no state to take over.
DECIDED_STATUSES = ("planned", "closed", "withheld")
