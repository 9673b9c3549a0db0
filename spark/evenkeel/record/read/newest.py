"""The newest cycles of many clusters in one pass, and rows of them, bounded by what the log knows of the files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenkeel.record.read.attempts import Attempt, attempts_of, trusted
from evenkeel.record.read.ranges import Record
from evenkeel.record.read.tables import Row, is_in, text


def newest_attempts(
    record: Record, clusters: Sequence[str], most: int, columns: Sequence[str]
) -> dict[str, list[Attempt]]:
    """Cluster -> the attempts that count for its newest cycles, oldest first, at most `most`; manifests have these
    columns alone."""
    spans = {name: span for name in clusters if (span := record.newest_span("cycles", name, 2 * most)) is not None}
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in record.rows_between("cycles", spans, columns):
        rows[row["cluster"]].append(row)
    found = {}
    for name in clusters:
        attempts = attempts_of(rows.get(name, ()))
        chosen = trusted(attempts)[-most:]
        several = len({one.cycle_at for one in attempts}) < len(attempts)
        if several and any(one.mode != "dry_run" for one in attempts):  # then it counts which of them sent commands
            chosen = record.cycles(name, chosen[0].cycle_at, chosen[-1].cycle_at, columns)
        found[name] = chosen
    return found


def whole_manifests(record: Record, attempts: Mapping[str, Attempt]) -> dict[str, Attempt]:
    """The attempts, one per cluster, with all columns of their manifests."""
    spans = {name: (one.cycle_at, one.cycle_at) for name, one in attempts.items()}
    ids = is_in("attempt_id", sorted({one.attempt_id for one in attempts.values()}))
    whole = attempts_of(record.rows_between("cycles", spans, where=ids)) if attempts else []
    by_key = {(one.cluster, one.attempt_id): one for one in whole}
    return {name: by_key[name, one.attempt_id] for name, one in attempts.items() if (name, one.attempt_id) in by_key}


def rows_of_clusters(
    record: Record, attempts: Sequence[Attempt], table: str, columns: Sequence[str], where: Any = None
) -> dict[str, list[Row]]:
    """Cluster -> the rows of the table that its attempt lists and that meet `where`; one attempt per cluster.

    Rows that are past their retention are missing.
    """
    found: dict[str, list[Row]] = {}
    owner = {(one.cluster, write.write_id): one for one in attempts for write in one.writes_of(table) if write.rows}
    if not owner:
        return found
    spans = {one.cluster: (one.cycle_at, one.cycle_at) for one in owner.values()}
    listed = text("write_id").isin(_texts({write_id for _, write_id in owner}))
    condition = listed if where is None else listed & where
    wanted = list(dict.fromkeys((*columns, "cluster", "cycle_at", "write_id")))
    for row in record.rows_between(table, spans, wanted, condition):
        one = owner.get((row["cluster"], row["write_id"]))
        if one is not None and row["cycle_at"] == one.cycle_at:
            found.setdefault(one.cluster, []).append(row)
    return found


def _texts(values: Iterable[str]) -> Any:
    import pyarrow as pa

    return pa.array(sorted(values), pa.string())
