"""What DAG files declare with: params, tries and assets. DAG files are read often, so this imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from evenkeel.handover import Write
from evenkeel.lake.schemas import TABLES
from evenkeel.manual_requests.schema import SCHEMAS

if TYPE_CHECKING:
    from airflow.sdk import Asset


def rebalance_params() -> dict[str, Param]:
    """Each param with its default and its JSON Schema, which Airflow holds against what a run is triggered with."""
    return {
        "clusters": Param(
            [],
            type="array",
            items={"type": "string", "minLength": 1},
            uniqueItems=True,
            description="Names of configured clusters. Empty: all of them.",
        ),
        "source": Param(
            "",
            type="string",
            pattern=r"^(recording:.+)?$",
            description="Where snapshots come from, e.g. recording:/data/recordings/monday. Empty: as configured.",
        ),
        "mode": Param(
            os.environ.get("EVENKEEL_MODE", "dry_run"),
            type="string",
            enum=["dry_run", "approve", "auto"],
            description="dry_run sends nothing, approve asks a person before it sends, auto sends.",
        ),
        "settings": Param(
            {},
            type="object",
            propertyNames={"pattern": "^[A-Za-z][A-Za-z0-9]*$"},
            description="Overrides under Pulsar's own keys, for this run only; checked when the run starts.",
        ),
        "at": Param(
            None,
            type=["null", "string"],
            format="date-time",
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$",  # the format is not checked
            description="Decide the newest snapshot up to this moment. Empty: the run's logical date, else now.",
        ),
        "wishes": Param(
            [],
            type="array",
            items={"oneOf": list(SCHEMAS.values())},
            description="Splits and unloads to carry out beside what the strategies decide. Not in a backfill.",
        ),
    }


# How the tasks of all DAGs are tried again: every one of them may be killed anywhere and run once more.


def tried_again(
    *,
    ends_after: timedelta,
    first_wait: timedelta = timedelta(seconds=5),
    longest_wait: timedelta = timedelta(minutes=2),
) -> dict[str, Any]:
    """`default_args` of a DAG: two more tries, with waits that grow; a try is ended after `ends_after`."""
    return {
        "owner": "evenkeel",
        "retries": 2,
        "retry_delay": first_wait,
        "retry_exponential_backoff": True,
        "max_retry_delay": longest_wait,
        "execution_timeout": ends_after,
    }


# Lineage in Airflow's own terms: each table is an asset, and each of its events names the writes that a task made.
#
# Airflow keeps with an event which run and task it came from. With the table's version and the write id in it, one
# comes from a run to the rows that it wrote, and, by `cycles.writes` or a commit's `userMetadata`, back again.


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
