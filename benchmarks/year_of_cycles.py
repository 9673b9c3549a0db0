"""A lake with a year of small cycles in it, written without Spark: what reading the record is measured on.

Rows are those of one cluster in the shapes of the declared schemas; a day is a template repeated for each cycle. Dates
are compacted, one file per table and date, as upkeep leaves them; of the last ones every cycle is a file of its own, as
cycles write them. Loads and what was considered are kept for 30 days, manifests and what was done for the year. The
manifests are one sound chain; only those of the last dates have digests of their content.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from benchmarks.machine import description
from evenkeel.lake.delta_log import LOG_FOLDER
from evenkeel.lake.manifest import body_digest
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.schemas import TABLES
from evenkeel.settings import resolve
from tests.lakes.small_lake import arrow_schema, completed

CLUSTER = "lab"
END = datetime(2026, 11, 22, tzinfo=UTC)
KEPT_DAYS = 30
ACTS_EVERY = 60
MIB = 1024.0 * 1024.0
PROPERTIES = {"delta.dataSkippingStatsColumns": "cycle_at,write_id"}
Row = dict[str, Any]

_CONSIDERED = ("bundle_load", "broker_load", "settings", "split_decisions", "unload_decisions")
_ACTED = ("placement_decisions", "commands", "outcomes")
WRITTEN = ("cycles", *_CONSIDERED, *_ACTED)


@dataclass(frozen=True)
class Shape:
    """How much there is: `loose_days` dates at the end are not compacted."""

    days: int = 365
    seconds: int = 60
    brokers: int = 6
    bundles: int = 24
    loose_days: int = 1


class Year:
    """A cycle every `seconds`; one in sixty unloads the first bundle."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self.root, self.shape = root, shape
        self.brokers = [f"broker-{n}.example:8080" for n in range(shape.brokers)]
        width = 0x1_0000_0000 // shape.bundles
        edges = [n * width for n in range(shape.bundles)] + [0xFFFF_FFFF]
        self.bundles = [f"acme/load/0x{a:08x}_0x{b:08x}" for a, b in pairwise(edges)]
        self._quiet = {name: _table(name, rows) for name, rows in self._considered(acts=False).items()}
        acting = self._considered(acts=True)
        for name, rows in self._acted().items():
            acting[name] = [*rows, *acting.get(name, [])]
        self._acting = {name: _table(name, rows) for name, rows in acting.items()}
        self._done = {name: _table(name, rows) for name, rows in self._acted().items()}
        self._head: tuple[int, str] = (0, "")

    def write(self) -> None:
        """All tables; what is there is not looked at."""
        for day in range(self.shape.days, 0, -1):
            self._write_day(END - timedelta(days=day), loose=day <= self.shape.loose_days, kept=day <= KEPT_DAYS)
        for name in WRITTEN:
            DeltaTable(str(self.root / name)).create_checkpoint()

    def _write_day(self, day: datetime, *, loose: bool, kept: bool) -> None:
        moments = [day + timedelta(seconds=n) for n in range(0, 86_400, self.shape.seconds)]
        acts = [n % ACTS_EVERY == ACTS_EVERY // 2 for n in range(len(moments))]
        rows: dict[str, list[int]] = {}
        for name in (*_CONSIDERED, *_ACTED):
            quiet, acting = (self._quiet, self._acting) if kept else ({}, self._done)
            made = [acting.get(name) if act else quiet.get(name) for act in acts]
            rows[name] = [0 if one is None else one.num_rows for one in made]
            self._commit(name, day, moments, [one for one in made if one is not None], rows[name], loose)
        manifests = _table("cycles", self._manifests(moments[0]))
        self._commit("cycles", day, moments, [manifests] * len(moments), [2] * len(moments), loose, rows)

    def _commit(
        self,
        name: str,
        day: datetime,
        moments: Sequence[datetime],
        parts: Sequence[pa.Table],
        rows: Sequence[int],
        loose: bool,
        written: dict[str, list[int]] | None = None,
    ) -> None:
        table, folder = TABLES[name], self.root / name
        schema = arrow_schema(table)
        if not DeltaTable.is_deltatable(str(folder)):
            none = schema.empty_table()
            write_deltalake(str(folder), none, partition_by=list(table.partition), configuration=PROPERTIES)
        if not parts:
            return
        whole = _stamped(name, pa.concat_tables(parts), moments, rows)
        if written is not None:
            whole = self._chained(_with_writes(whole, moments, written), with_bodies=loose)
        values = {"cluster": CLUSTER, "cycle_date": day.date().isoformat()}
        parted = {column: values[column] for column in table.partition}
        below = "/".join(f"{column}={value}" for column, value in parted.items())
        (folder / below).mkdir(parents=True, exist_ok=True)
        body = whole.drop_columns(list(parted))
        actions, start = [], 0
        sizes = rows if loose else [sum(rows)]
        for number, size in enumerate(sizes):
            if size:
                path = f"{below}/part-{day:%Y%m%d}-{number:05}.parquet"
                piece = body.slice(start, size)
                pq.write_table(piece, folder / path)
                actions.append(AddAction(path, (folder / path).stat().st_size, parted, 0, True, _stats(piece)))
                start += size
        opened = DeltaTable(str(folder))
        opened.create_write_transaction(
            actions, mode="append", schema=opened.schema(), partition_by=list(table.partition)
        )

    def _chained(self, whole: pa.Table, *, with_bodies: bool) -> pa.Table:
        """The manifests as the next rows of the chain."""
        sequence, last = self._head
        count = whole.num_rows
        rows = whole.to_pylist(maps_as_pydicts="lossy") if with_bodies else []
        bodies = [body_digest(row) for row in rows] or ["0" * 64] * count
        digests = [last]
        for body in bodies:
            digests.append(hashlib.sha256((digests[-1] + body).encode()).hexdigest())
        self._head = sequence + count, digests[-1]
        made = {"sequence": pa.array(np.arange(sequence + 1, sequence + count + 1)), "body_digest": pa.array(bodies)}
        made |= {"previous_digest": pa.array(digests[:-1]), "manifest_digest": pa.array(digests[1:])}
        for name, values in made.items():
            place = whole.schema.get_field_index(name)
            whole = whole.set_column(place, whole.schema.field(name), values.cast(whole.schema.field(name).type))
        return whole

    def _considered(self, *, acts: bool) -> dict[str, list[Row]]:
        usage = {broker: 0.2 + 0.03 * n for n, broker in enumerate(self.brokers)}
        mean = sum(usage.values()) / len(usage)
        shed = [
            _decision(broker, "broker", "kept", "below_threshold", broker=broker, measured=usage[broker],
                      threshold=mean + 0.1, unit="fraction", numbers={"mean_usage": mean},
                      setting="loadBalancerBrokerThresholdShedderPercentage")
            for broker in self.brokers
        ]  # fmt: skip
        if acts:
            shed += [
                _decision(bundle, "bundle", "kept", "wanted_reached", broker=self.brokers[1], measured=2 * MIB,
                          threshold=MIB, unit="byte/s", numbers={"bundle_throughput": 0.1 * MIB, "rank": float(n)})
                for n, bundle in enumerate(self.bundles[1:], start=2)
            ]  # fmt: skip
        splits = [
            _decision(bundle, "bundle", "kept", "below_limits", broker=self.brokers[1], measured=31.0,
                      threshold=1000.0, unit="count", setting="loadBalancerNamespaceBundleMaxTopics")
            for bundle in self.bundles
        ]  # fmt: skip
        return {
            "bundle_load": [self._bundle(bundle) for bundle in self.bundles],
            "broker_load": [{"broker": b, "state": "reported", "weighted_usage": usage[b]} for b in self.brokers],
            "settings": [{**row, "settings_digest": "5e" * 32} for row in resolve(observed=None, overrides={}).rows()],
            "split_decisions": splits,
            "unload_decisions": shed,
        }

    def _acted(self) -> dict[str, list[Row]]:
        bundle, owner, other = self.bundles[0], self.brokers[1], self.brokers[0]
        unload = _decision(bundle, "bundle", "unload", "heaviest_first", broker=owner, measured=0.0, threshold=MIB,
                           unit="byte/s", numbers={"bundle_throughput": 2 * MIB, "rank": 1.0})  # fmt: skip
        placed = _decision(bundle, "bundle", "placed", "least_long_term_rate", broker=owner) | {
            "strategy": "LeastLongTermMessageRate", "cause": "shed", "destination": other, "best": [other],
            "candidates": [{"broker": b, "removed_by": None, "score": 400.0 + n} for n, b in enumerate(self.brokers)],
            "without_anti_affinity": other,
        }  # fmt: skip
        command = {
            "step": 1, "kind": "unload", "bundle": bundle, "from_broker": owner, "destination": other, "mode": "auto",
            "request": f"PUT /admin/v2/namespaces/{bundle}/unload", "expires_at": END,
        }  # fmt: skip
        seen = {"outcome": "done", "seen_at": END, "detail": f"the bundle is on {other}"}
        return {
            "unload_decisions": [unload],
            "placement_decisions": [placed],
            "commands": [command],
            "outcomes": [seen],
        }

    def _bundle(self, bundle: str) -> Row:
        lower, upper = (int(edge, 16) for edge in bundle.rsplit("/", 1)[1].split("_"))
        figures = {f"used_msg_{what}_{way}": 1000.0 for what in ("throughput", "rate") for way in ("in", "out")}
        return {
            "bundle": bundle, "namespace": "acme/load", "lower": lower, "upper": upper, "owner": self.brokers[1],
            "ownership": "owned", "topics": 31, "used_reason": "measured", **figures,
        }  # fmt: skip

    def _manifests(self, at: datetime) -> list[Row]:
        common = {
            "attempt": 1, "kind": "live", "mode": "auto", "shedder": "ThresholdShedder", "splits": 0, "unloads": 0,
            "placement": "LeastLongTermMessageRate", "placements": 0, "refusals": 0, "held": 0,
            "predecessor_status": "used", "snapshot": f"/landing/lab/{at.isoformat()}.json.gz", "recorded_at": at,
            "schema_version": SCHEMA_VERSION, "sequence": 0,
            "body_digest": "", "previous_digest": "", "manifest_digest": "",
        }  # fmt: skip
        return [{**common, "row_kind": kind, "status": kind} for kind in ("planned", "closed")]


def _table(name: str, rows: Sequence[Row]) -> pa.Table:
    stamp = {"cluster": CLUSTER, "cycle_at": END, "cycle_date": END.date(), "write_id": ""}
    full = [completed(TABLES[name], {**row, **stamp}) for row in rows]
    return pa.Table.from_pylist(full, schema=arrow_schema(TABLES[name]))


def _digest(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


def _stamped(name: str, whole: pa.Table, moments: Sequence[datetime], rows: Sequence[int]) -> pa.Table:
    """The repeated template with what tells cycles apart."""
    at = pa.array(moments, pa.timestamp("us", tz="UTC"))
    of_cycle = pa.array(np.repeat(np.arange(len(moments)), rows))
    stamps = {
        "cluster": [CLUSTER] * len(moments),
        "write_id": [_digest(name, moment)[:32] for moment in moments],
        "plan_id": [_digest("plan", moment) for moment in moments],
        "command_id": [_digest("command", moment) for moment in moments],
        "attempt_id": [_digest("attempt", moment) for moment in moments],
    }
    columns: dict[str, pa.Array] = {key: pa.array(values) for key, values in stamps.items()}
    columns |= {"cycle_at": at, "cycle_date": at.cast(pa.date32())}
    for column, values in columns.items():
        position = whole.schema.get_field_index(column)
        if position >= 0:
            whole = whole.set_column(position, whole.schema.field(column), values.take(of_cycle))
    return whole


def _with_writes(whole: pa.Table, moments: Sequence[datetime], written: dict[str, list[int]]) -> pa.Table:
    """The manifests, two of each cycle, with all writes of the pipeline, those without rows too."""
    names = [name for name in TABLES if "cycle_date" in TABLES[name].partition]
    for column, wanted in (("writes", names), ("reads", ["bundle_load", "split_decisions", "strategy_state"])):
        ids = [_digest(name, moment)[:32] for moment in moments for name in wanted]
        figures = [written.get(name, [0] * len(moments))[n] for n in range(len(moments)) for name in wanted]
        values = [wanted * len(moments), ids, [1] * len(ids), figures, [one * 2 for one in ids]]
        whole = _with_lists(whole, column, values, [len(wanted)] * len(moments))
    return _with_files(whole, moments, names, written)


def _with_files(
    whole: pa.Table, moments: Sequence[datetime], names: Sequence[str], written: dict[str, list[int]]
) -> pa.Table:
    """A file of each write with rows, as it was before days were compacted."""
    own = [[name for name in names if name in written and written[name][n]] for n in range(len(moments))]
    of_file = [(name, moment) for moment, tables in zip(moments, own, strict=True) for name in tables]
    ids = [_digest(name, moment)[:32] for name, moment in of_file]
    paths = [
        f"cluster={CLUSTER}/cycle_date={moment.date()}/part-00000-{one}.c000.snappy.parquet"
        for one, (_, moment) in zip(ids, of_file, strict=True)
    ]
    values = [[name for name, _ in of_file], ids, paths, [10_000] * len(ids), [one * 2 for one in ids]]
    return _with_lists(whole, "files", values, [len(tables) for tables in own])


def _with_lists(whole: pa.Table, column: str, values: Sequence[Sequence[Any]], lengths: Sequence[int]) -> pa.Table:
    """Lists of structs, one for both manifests of each cycle: the structs' fields, and how many each cycle has."""
    place, field = whole.schema.get_field_index(column), whole.schema.field(column)
    fields = list(field.type.value_type)
    arrays = [pa.array(own, one.type) for own, one in zip(values, fields, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=fields))
    twice = pa.chunked_array([lists.take(pa.array(np.repeat(np.arange(len(lengths)), 2)))]).cast(field.type)
    return whole.set_column(place, field, twice)


def _decision(subject: str, kind: str, outcome: str, rule: str, **more: Any) -> Row:
    measured, threshold = more.get("measured"), more.get("threshold")
    margin = None if measured is None or threshold is None else measured - threshold
    return {
        "subject": subject, "subject_kind": kind, "outcome": outcome, "rule": rule, "strategy": "ThresholdShedder",
        "sentence": f"{subject}: {outcome} by the rule {rule}.", "margin": margin,
        "namespace": "acme/load" if kind == "bundle" else None, **more,
    }  # fmt: skip


def _stats(piece: pa.Table) -> str:
    """As Spark writes them: of the two columns that the tables' properties name."""
    moments = piece.column("cycle_at")
    ids = sorted(set(piece.column("write_id").to_pylist()))
    first, last = (moments[n].as_py().strftime("%Y-%m-%dT%H:%M:%S.000Z") for n in (0, -1))
    return json.dumps({
        "numRecords": piece.num_rows,
        "minValues": {"cycle_at": first, "write_id": ids[0]},
        "maxValues": {"cycle_at": last, "write_id": ids[-1]},
        "nullCount": {"cycle_at": 0, "write_id": 0},
    })  # fmt: skip


@contextmanager
def year_for(program: str, arguments: Sequence[str]) -> Iterator[Year]:
    """The lake that a benchmark's arguments ask for; it goes with the block, unless it was asked to be kept."""
    parser = argparse.ArgumentParser(prog=program)
    for name, value in asdict(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument(
        "--lake", metavar="DIR", type=Path, help="keep the lake there; one that is there is read as it is"
    )
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = given.lake or Path(folder) / "lake"
        year = Year(root, Shape(**{name: getattr(given, name) for name in asdict(Shape())}))
        if not (root / "outcomes" / LOG_FOLDER).is_dir():
            started = time.monotonic()
            year.write()
            print(f"  written in {time.monotonic() - started:.0f} s", flush=True)
        for table, files, size in sizes(root):
            print(f"  {table}: {files:,} files, {size / 1e6:,.1f} MB")
        yield year


def sizes(root: Path) -> Iterator[tuple[str, int, int]]:
    """(table, files, bytes) of the lake."""
    for name in WRITTEN:
        actions = pa.table(DeltaTable(str(root / name)).get_add_actions(flatten=True))
        yield name, actions.num_rows, sum(actions.column("size_bytes").to_pylist())
