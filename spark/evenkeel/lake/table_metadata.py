"""A table's metadata as writers of Evenkeel leave it, and differences of a table's folder from that.

Delta's metadata decides the meaning of a file's column: a column mapping swaps two columns, an expression of a
constraint runs at the next append. Readers refuse such a table before Spark sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import (
    FILES,
    LOG,
    is_interval,
    newest_version,
    version_days,
    version_properties,
)
from evenkeel.lake.schema import Table
from evenkeel.lake.table_files import demand_no_links, files_of
from evenkeel.lake.table_log import DamagedLogFile, commit_damage, log_state, metadata_in_force
from evenkeel.spark.column_types import type_of

_INTERVAL = "delta.checkpointInterval"
# A checkpoint costs as much as a dozen appends, so it is rare. Readers find their files by partition, cycle and write:
# statistics of all other columns took half the time of a small append.
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "cycle_at,write_id",
    _INTERVAL: "100",
    "delta.enableDeletionVectors": "false",
}
# Of small tables whose rows an auditor compares between two versions. A table that only grows pays nothing for it; in
# the others upkeep's own deletions would be kept once more, as changes.
_WITH_CHANGE_FEED = frozenset({"acted", "wished"})
_FEATURES = frozenset({"invariants", "changeDataFeed", "appendOnly"})
_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def properties_of(table: Table) -> dict[str, str]:
    """Return the properties that the table gets when it is made."""
    properties = {**_PROPERTIES, **version_properties(version_days(table.name))}
    if not {"cycle_at", "write_id"} <= set(table.column_names()):
        del properties["delta.dataSkippingStatsColumns"]
    elif table.name == "cycles":
        properties["delta.dataSkippingStatsColumns"] += ",sequence"  # leads to the head of the chain
    if table.layer in _WITH_CHANGE_FEED:
        properties["delta.enableChangeDataFeed"] = "true"
    if table.serializable:
        properties["delta.isolationLevel"] = "Serializable"
    return properties


def metadata_faults(table: Table, metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield differences of a `metaData` action from the table's declaration, a phrase each.

    Comments are not compared. Properties may be missing: an export has few of them.
    """
    if (metadata.get("format") or {}).get("provider", "parquet") != "parquet":
        yield f"its files are {metadata['format']['provider']}, not parquet"
    if tuple(metadata.get("partitionColumns") or ()) != table.partition:
        parts = metadata.get("partitionColumns") or ()
        yield f"it is partitioned by {_listed(parts)}, not by {_listed(table.partition)}"
    try:
        fields = {str(field["name"]): field for field in parse_json(metadata["schemaString"])["fields"]}
    except (NotJson, KeyError, TypeError):
        yield "its schema cannot be read"
        return
    declared = {column.name: column for column in table.columns}
    for name, field in fields.items():
        if name not in declared:
            yield f"column {name} was added"
            continue
        column = declared[name]
        declared_type = column.type if column.type == "binary" else type_of(column.type).sql
        if (kind := _sql_type(field.get("type"))) != declared_type:
            yield f"column {name} is {kind}, not {column.type}"
        if bool(field.get("nullable")) != column.nullable:
            yield f"column {name} {'may' if field.get('nullable') else 'must not'} be NULL"
        yield from (f"column {name} has {words}" for words in _rules_in(field))
    yield from (f"column {name} is missing" for name in declared if name not in fields)
    yield from _property_faults(table, metadata.get("configuration") or {})


def _property_faults(table: Table, properties: Mapping[str, str]) -> Iterator[str]:
    expected = properties_of(table)
    for name, value in sorted(properties.items()):
        if name in (FILES, LOG):
            if not is_interval(value):
                yield f"property {name} is {value!r}, which is not a period"
        elif name == _INTERVAL and value.isdecimal():
            continue  # the interval of checkpoints changes no reader's result
        elif name not in expected:
            yield f"property {name} = {value!r} is none that Evenkeel sets"
        elif value != expected[name]:
            yield f"property {name} is {value!r}, not {expected[name]!r}"


def protocol_faults(protocol: Mapping[str, Any]) -> Iterator[str]:
    """Yield differences of a `protocol` action from those that Evenkeel's writers leave, a phrase each."""
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if protocol.get("minReaderVersion") != 1 or not 1 <= int(protocol.get("minWriterVersion") or 0) <= 7:
        versions = f"{protocol.get('minReaderVersion')} and {protocol.get('minWriterVersion')}"
        yield f"its protocol asks for versions {versions} of readers and writers"
    if features - _FEATURES:
        yield f"its protocol names {_listed(sorted(features - _FEATURES))}"


def _rules_in(field: Mapping[str, Any]) -> Iterator[str]:
    """Yield entries of a field, and of fields inside it, that give it a meaning of their own."""
    for name, value in (field.get("metadata") or {}).items():
        if name != "comment":
            yield f"{name} = {value!r}"
    yield from _rules_of_type(field.get("type"))


def _rules_of_type(kind: object) -> Iterator[str]:
    if isinstance(kind, Mapping):
        for field in kind.get("fields") or ():
            yield from _rules_in(field)
        for part in ("elementType", "keyType", "valueType"):
            yield from _rules_of_type(kind.get(part))


def _sql_type(kind: object) -> str:
    """Return a type of Delta's schema as SQL names it."""
    if not isinstance(kind, Mapping):
        return _SQL_NAMES.get(str(kind), str(kind))
    match kind.get("type"):
        case "array":
            return f"array<{_sql_type(kind.get('elementType'))}>"
        case "map":
            return f"map<{_sql_type(kind.get('keyType'))},{_sql_type(kind.get('valueType'))}>"
        case "struct":
            parts = (f"{field.get('name')}:{_sql_type(field.get('type'))}" for field in kind.get("fields") or ())
            return f"struct<{','.join(parts)}>"
    return str(kind.get("type"))


def _listed(names: object) -> str:
    return ", ".join(map(str, names)) or "nothing" if isinstance(names, list | tuple) else str(names)


def demand_as_declared(table: Table, path: str) -> None:
    """Raise LakeError for a table whose metadata or newest commit no writer of Evenkeel left; do nothing without one.

    It reads what Spark and deltalake use: the version checksum of the newest commit if it exists, else the newest
    commit, or checkpoint, that has metadata.
    """
    files, version = files_of(path), newest_version(path)
    if version < 0:
        return
    demand_no_links(path, is_deep=False)
    damage = commit_damage(files, version)
    if damage:
        raise LakeError(f"table {table.name} of {path} is not read: {damage}")
    try:
        metadata, protocols = metadata_in_force(files, version)
    except DamagedLogFile as error:
        raise LakeError(f"table {table.name} of {path} is not read: {log_state(path) or error}") from error
    faults = [fault for action in metadata for fault in metadata_faults(table, action)]
    faults += [fault for action in protocols for fault in protocol_faults(action)]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise LakeError(
            f"table {table.name} of {path} is not read: {faults[0]}{more}. No writer of Evenkeel leaves that. Run "
            "`evenkeel verify`, which names the commit, and restore the table from a copy"
        )
