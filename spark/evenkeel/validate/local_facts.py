"""The facts of a cycle with few rows, read in this process: a faultless cycle asks Spark nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Handover
from evenkeel.lake.plain_rows import found_rows, types_of
from evenkeel.lake.store import Lake
from evenkeel.model.exact_sums import exact_sum
from evenkeel.model.load import RATES
from evenkeel.spark.rows import arrow_type, each_once, moment_text, ticks
from evenkeel.validate.facts import AT, Facts, Row, RowsOfCycles, small_columns, topic_columns
from evenkeel.validate.suites import TOPICS, Suite

if TYPE_CHECKING:
    import pyarrow as pa


_TOPIC_COLUMNS = ("namespace", "bundle_range", "broker", "observation", "hash", *RATES)
_GROUP = ("cluster", AT, "namespace", "bundle_range", "broker")
_ADDED = ("msg_rate_in", "msg_rate_out")


def facts_at_hand(lake: Lake, handover: Handover, suites: Mapping[str, Suite]) -> Facts | None:
    """Return the facts of open cycles; None if this process cannot read a file."""
    small: dict[str, RowsOfCycles] = {}
    for table, suite in suites.items():
        names = {*topic_columns(suite), *_TOPIC_COLUMNS} if table == TOPICS else {*small_columns(suite)}
        rows = _read(lake, handover, table, names)
        if rows is None:
            return None
        small[table] = RowsOfCycles(rows)
    topics = small.pop(TOPICS)
    return Facts(small, RowsOfCycles(_summed(topics.rows)), topics)


def _read(lake: Lake, handover: Handover, table: str, names: Iterable[str]) -> pa.Table | None:
    """Return the rows of a table in the types that Spark gives them, with `cluster`, `cycle_at` and its text."""
    import pyarrow as pa

    kinds, ordered = types_of(table), sorted({"cluster", "cycle_at", *names})
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in ordered])
    parts = [schema.empty_table()]
    for write in handover.open_writes(table):
        rows = found_rows(lake, write, ordered) if write.rows else None
        if write.rows and (rows is None or not {*ordered} <= {*rows.column_names}):
            return None
        parts += [] if rows is None else [rows.select(ordered).cast(schema)]
    typed = pa.concat_tables(parts)
    moments = [tick for chunk in typed.column("cycle_at").chunks for tick in ticks(chunk)]
    return typed.append_column(AT, pa.array(each_once(moments, moment_text), pa.string()))


def _summed(topics: pa.Table) -> pa.Table:
    """Return the rows of `facts.topic_groups`."""
    import pyarrow as pa

    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in topics.select([*dict.fromkeys((*_GROUP, "cycle_at", *_TOPIC_COLUMNS))]).to_pylist():
        groups[tuple(row[name] for name in _GROUP)].append(row)
    whole, double = pa.int64(), pa.float64()
    types = dict.fromkeys((*_GROUP,), pa.string()) | {"cycle_at": topics.schema.field("cycle_at").type}
    types |= dict.fromkeys(("rows", "loaded", "without_rate", "lowest_hash", "highest_hash"), whole)
    types |= dict.fromkeys(_ADDED, double)
    rows = [_group(group) for group in groups.values()]
    return pa.Table.from_pylist(rows, pa.schema([*types.items()]))


def _group(topics: Sequence[Row]) -> Row:
    first = topics[0]
    loaded = [topic for topic in topics if topic["observation"] == "loaded"]
    hashes = [topic["hash"] for topic in topics if topic["hash"] is not None]
    return {
        **{name: first[name] for name in (*_GROUP, "cycle_at")},
        "rows": len(topics),
        "loaded": len(loaded),
        "without_rate": sum(any(topic[rate] is None for rate in RATES) for topic in loaded),
        "lowest_hash": min(hashes, default=None),
        "highest_hash": max(hashes, default=None),
        **{name: exact_sum(topic[name] for topic in topics) for name in _ADDED},
    }
