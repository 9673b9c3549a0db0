"""Lineage in Airflow's own terms: each table is an asset, and each of its events names the writes that a task made.

Airflow keeps with an event which run and task it came from. With the table's version and the write id in it, one comes
from a run to the rows that it wrote, and, by `cycles.writes` or a commit's `userMetadata`, back again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Write
from evenkeel.lake.schemas import TABLES

if TYPE_CHECKING:
    from airflow.sdk import Asset


def asset(table: str) -> Asset:
    """The asset that stands for a table of the lake."""
    from airflow.sdk import Asset

    return Asset(name=f"evenkeel/{table}", uri=f"evenkeel://lake/{table}")


def outlets(task_id: str) -> list[Asset]:
    """The assets of the tables that a task writes."""
    return [asset(table.name) for table in TABLES.values() if task_id in table.producers]


def tell(events: Mapping[Any, Any] | None, lake: str, writes: Iterable[Write]) -> None:
    """Puts these writes into the task's asset events; `events` are Airflow's `outlet_events`, None where none are."""
    if events is None:
        return
    for table, body in by_table(lake, writes).items():
        events[asset(table)].extra.update(body)


def by_table(lake: str, writes: Iterable[Write]) -> dict[str, dict[str, Any]]:
    """Table -> what its event says: the lake, and for each write its id, version, clusters and rows."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for write in writes:
        one = found.setdefault(write.table, {}).setdefault(
            write.write_id, {"write_id": write.write_id, "version": write.version, "clusters": [], "rows": 0}
        )
        one["clusters"] = sorted({*one["clusters"], write.cluster})
        one["rows"] += write.rows
    return {
        table: {"lake": lake, "writes": [own[write_id] for write_id in sorted(own)]} for table, own in found.items()
    }
