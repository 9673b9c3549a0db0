"""The params of the DAG `rebalance`. Imported while DAG files are read, so it imports nothing heavy."""

from __future__ import annotations

import os

from airflow.sdk import Param

from evenkeel.manual_requests.schema import SCHEMAS


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
