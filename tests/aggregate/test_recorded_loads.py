"""Loads that older versions recorded, computed by Spark SQL from end to end, come out of the round to the bit."""

import json
import math
import struct
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evenkeel.aggregate.bundle_load import bundles_of
from evenkeel.aggregate.inputs import OBSERVED, namespaces_of
from evenkeel.aggregate.round import LOADS_BEFORE, OUTPUTS, SPLITS_BEFORE, decide
from evenkeel.cycle.runner import local_rows
from evenkeel.handover import Write
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.verify.recorded_cycle import background_of, restore_cycle
from tests.aggregate.in_rows import sums_of

KEPT = Path(__file__).resolve().parents[1] / "kept_lakes"
NAMES = {"bundle_load": "bundle", "broker_load": "broker"}
# Texts as large as the snapshot and nested columns, which no load rests on.
UNREAD = {"rest", "record", "policies", "numbers", "alternatives", "cuts", "children"}
Row = dict[str, Any]


class Kept:
    """The rows of a lake, each table read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: dict[str, list[Row]] = {}

    def rows(self, table: str, writes: Iterable[Write]) -> list[Row]:
        """The rows of these writes; a column that the lake lacks is None."""
        from deltalake import DeltaTable

        if table not in self.tables:
            found = DeltaTable(str(self.folder / table)).to_pyarrow_table()
            kept = found.select([name for name in found.column_names if name not in UNREAD | {"cycle_date"}])
            everything = dict.fromkeys(TABLES[table].column_names())
            self.tables[table] = [everything | row for row in local_rows(kept)]
        wanted = {(write.write_id, write.cluster) for write in writes if write.table == table}
        return [row for row in self.tables[table] if (row["write_id"], row["cluster"]) in wanted]


def inputs_of(lake: Kept, attempt: Attempt) -> dict[str, list[Row]]:
    """What the round was given then."""
    rejected = {(row["rejected_from"], row["record_key"]) for row in lake.rows("rejected", attempt.writes)}
    assert not any(table in (*OBSERVED, "topic_stats") and key is not None for table, key in rejected)
    rows = {table: lake.rows(table, attempt.writes) for table in OBSERVED if (lake.folder / table).exists()}
    rows[LOADS_BEFORE] = lake.rows("bundle_load", attempt.reads)
    rows[SPLITS_BEFORE] = lake.rows("split_decisions", attempt.reads)
    ranges = {one.name: bundles_of(one.name, one.edges) for one in namespaces_of(rows)}
    by_bundle: dict[str, list[Row]] = defaultdict(list)
    for topic in lake.rows("topic_stats", attempt.writes):
        assert topic["seen_on"] < 2
        for bundle in ranges.get(topic["namespace"], ()):
            if bundle.lower <= topic["hash"] < bundle.upper:
                by_bundle[bundle.name].append(topic)
    rows["topic_sums"] = [{"bundle": bundle, **sums_of(topics)} for bundle, topics in by_bundle.items()]
    return rows


def in_bits(rows: Sequence[Row], table: str) -> dict[str, list[Any]]:
    """By name of bundle or broker, with doubles as their bits."""
    names = [name for name in TABLES[table].column_names() if name not in STAMP_NAMES]
    return {row[NAMES[table]]: [_bits(row[name]) for name in names] for row in rows}


def _bits(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else struct.pack("<d", value)


def test_recorded_loads_come_out_again(tmp_path: Path) -> None:
    with tarfile.open(KEPT / "schema_1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = {path.parent for path in tmp_path.rglob("bundle_load")}
    attempts = [one for one in read_attempts(str(folder)) if any(w.table == "bundle_load" for w in one.writes)]
    background, lake = background_of(Lake(str(folder)), attempts), Kept(folder)
    followed = 0
    for attempt in attempts:
        given = inputs_of(lake, attempt)
        followed += bool(given[LOADS_BEFORE])
        cycle = dict(restore_cycle(attempt, background).cycle_row)
        made = decide({"cluster": attempt.cluster}, {**given, "cycle": [cycle]})
        for table in OUTPUTS:
            recorded = in_bits(lake.rows(table, attempt.writes), table)
            assert recorded
            assert in_bits(made[table], table) == recorded, json.dumps([attempt.cluster, table])
    assert followed >= 2
