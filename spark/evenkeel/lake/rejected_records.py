"""How a record of an observed table is named: for a machine to find it again, and for an operator to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from evenkeel.lake.schema import Table

_PLACES = {
    "topic_stats": "concat('topic ', topic, coalesce(concat(' on broker ', broker), ''))",
    "broker_reports": "concat('broker ', broker)",
    "bundle_ownership": "concat('bundle ', bundle, ' on broker ', broker)",
    "namespace_bundles": "concat('namespace ', namespace)",
    "resource_quotas": "concat('resource quota of bundle ', bundle)",
    "cluster_policies": "concat('cluster ', cluster)",
    "raw_answers": "concat('answer ', n, coalesce(concat(' of ', broker), ''), coalesce(concat(' to ', path), ''))",
}


def record_key(table: Table) -> Column:
    """The row's key columns as a JSON list of texts, e.g. `["persistent://t/n/a","b1:8080"]`."""
    return F.to_json(F.array(*[F.col(name).cast("string") for name in table.key]), {"ignoreNullFields": "false"})


def place(table: Table) -> Column:
    """Where the record stood, in words."""
    return F.expr(_PLACES[table.name])
