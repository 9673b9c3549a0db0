"""Names of records of observed tables: a key for a machine to find one again, and a text for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from evenkeel.lake.schema import Table

# Text and column, in turn; a part whose column is NULL is left out.
_PLACES = {
    "topic_stats": (("topic ", "topic"), (" on broker ", "broker")),
    "broker_reports": (("broker ", "broker"),),
    "bundle_ownership": (("bundle ", "bundle"), (" on broker ", "broker")),
    "namespace_bundles": (("namespace ", "namespace"),),
    "cluster_policies": (("cluster ", "cluster"),),
    "raw_answers": (("answer ", "n"), (" of ", "broker"), (" to ", "path")),
}


def record_key(table: Table) -> Column:
    """Return the row's key columns as a JSON list of texts, e.g. `["persistent://t/n/a","b1:8080"]`."""
    return F.to_json(F.array(*[F.col(name).cast("string") for name in table.key]), {"ignoreNullFields": "false"})


def place(table: Table) -> Column:
    """Return the place of the record, in words."""
    parts = [F.concat(F.lit(text), F.col(name).cast("string")) for text, name in _PLACES[table.name]]
    return F.concat(*[F.coalesce(part, F.lit("")) for part in parts])


def place_of(table: str, row: Mapping[str, Any]) -> str:
    """Return the place of a record, in words, as `place` has it."""
    return "".join(f"{text}{row[name]}" for text, name in _PLACES[table] if row[name] is not None)


def place_columns(table: str) -> list[str]:
    """Return the columns that `place_of` reads."""
    return [name for _, name in _PLACES[table]]
