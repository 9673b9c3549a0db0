"""A lake with a year of small cycles in it, written without Spark: what `explain` is measured on.

Rows are those of one cluster in the shapes of the declared schemas. Dates before the last one are compacted, one file
per table and date, as upkeep leaves them; of the last date every cycle is a file of its own, as cycles write them.
Loads and what was considered are kept for 30 days, manifests and what was done for the year.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from evenkeel.lake.tables import TABLES
from evenkeel.settings import resolve
from tests.audit.small_lake import arrow_schema, completed

CLUSTER = "lab"
END = datetime(2026, 11, 22, tzinfo=UTC)
KEPT_DAYS = 30
MIB = 1024.0 * 1024.0
PROPERTIES = {"delta.dataSkippingStatsColumns": "cycle_at,write_id"}
Row = dict[str, Any]

_CONSIDERED = ("bundle_load", "broker_load", "settings", "split_decisions", "unload_decisions")
_ACTED = ("placement_decisions", "guard_decisions", "commands", "outcomes")


class Year:
    """`days` dates of a cycle every `seconds`, with `brokers` brokers and `bundles` bundles in one namespace."""

    def __init__(self, root: Path, *, days: int, seconds: int, brokers: int, bundles: int) -> None:
        self.root, self.days, self.seconds = root, days, seconds
        self.brokers = [f"broker-{n}.example:8080" for n in range(brokers)]
        width = 0x1_0000_0000 // bundles
        edges = [n * width for n in range(bundles)] + [0xFFFF_FFFF]
        self.bundles = [f"acme/load/0x{a:08x}_0x{b:08x}" for a, b in pairwise(edges)]
        self._chance = random.Random("a year")
        self._settings = resolve(observed=None, overrides={}).rows()

    def write(self) -> None:
        """All tables; what is there is not looked at."""
        for day in range(self.days, 0, -1):
            self._write_day(END - timedelta(days=day), compact=day > 1, considered=day <= KEPT_DAYS)
        for table in ("cycles", *_CONSIDERED, *_ACTED):
            DeltaTable(str(self.root / table)).create_checkpoint()

    def moments(self, day: datetime) -> Sequence[datetime]:
        """The cycles of a date."""
        return [day + timedelta(seconds=n) for n in range(0, 86_400, self.seconds)]

    def _write_day(self, day: datetime, *, compact: bool, considered: bool) -> None:
        rows: dict[str, list[list[Row]]] = {}
        for number, at in enumerate(self.moments(day)):
            for table, made in self._cycle(at, acts=number % 60 == 17, considered=considered).items():
                rows.setdefault(table, []).append(made)
        for table, parts in rows.items():
            files = [[row for part in parts for row in part]] if compact else [part for part in parts if part]
            self._commit(table, day, [file for file in files if file])

    def _commit(self, name: str, day: datetime, files: Sequence[list[Row]]) -> None:
        table, folder = TABLES[name], self.root / name
        schema = arrow_schema(table)
        if not DeltaTable.is_deltatable(str(folder)):
            write_deltalake(
                str(folder), schema.empty_table(), partition_by=list(table.partition), configuration=PROPERTIES
            )
        values = {"cluster": CLUSTER, "cycle_date": day.date().isoformat()}
        parts = {column: values[column] for column in table.partition}
        body = pa.schema([field for field in schema if field.name not in parts])
        below = "/".join(f"{column}={value}" for column, value in parts.items())
        (folder / below).mkdir(parents=True, exist_ok=True)
        actions = []
        for rows in files:
            path = f"{below}/part-{self._chance.getrandbits(64):016x}.parquet"
            full = pa.Table.from_pylist([completed(table, row) for row in rows], schema=schema)
            pq.write_table(full.select(body.names).cast(body), folder / path)
            actions.append(AddAction(path, (folder / path).stat().st_size, parts, 0, True, _stats(rows)))
        if actions:
            opened = DeltaTable(str(folder))
            opened.create_write_transaction(
                actions, mode="append", schema=opened.schema(), partition_by=list(table.partition)
            )

    def _cycle(self, at: datetime, *, acts: bool, considered: bool) -> dict[str, list[Row]]:
        tables = self._considered(at, acts) if considered else {}
        for table, rows in self._acted(at, acts).items():
            tables[table] = [*tables.get(table, []), *rows]
        attempt = hashlib.sha256(at.isoformat().encode()).hexdigest()
        for table, rows in tables.items():
            stamp = {"cluster": CLUSTER, "cycle_at": at, "cycle_date": at.date(), "write_id": _write_id(table, at)}
            tables[table] = [{**row, **stamp} for row in rows]
        return {**tables, "cycles": self._manifest(at, attempt, tables, acts)}

    def _considered(self, at: datetime, acts: bool) -> dict[str, list[Row]]:
        usage = {broker: 0.2 + 0.05 * n + 0.01 * self._chance.random() for n, broker in enumerate(self.brokers)}
        mean = sum(usage.values()) / len(usage)
        numbers = {"mean_usage": mean, "bundles": 40.0, "broker_throughput": 9 * MIB}
        shed = [
            _decision(broker, "broker", "kept", "below_threshold", broker=broker, measured=usage[broker],
                      threshold=mean + 0.1, unit="fraction", numbers=numbers,
                      setting="loadBalancerBrokerThresholdShedderPercentage")
            for broker in self.brokers
        ]  # fmt: skip
        if acts:
            shed += [
                _decision(bundle, "bundle", "kept", "wanted_reached", broker=self._owner(bundle), measured=2 * MIB,
                          threshold=MIB, unit="byte/s", numbers={"bundle_throughput": 0.1 * MIB, "rank": float(n)})
                for n, bundle in enumerate(self.bundles[1:], start=2)
            ]  # fmt: skip
        return {
            "bundle_load": [self._bundle(bundle) for bundle in self.bundles],
            "broker_load": [
                {"broker": broker, "state": "reported", "weighted_usage": usage[broker]} for broker in self.brokers
            ],
            "settings": [{**row, "settings_digest": "5e" * 32} for row in self._settings],
            "split_decisions": [
                _decision(bundle, "bundle", "kept", "below_limits", broker=self._owner(bundle), measured=31.0,
                          threshold=1000.0, unit="count", setting="loadBalancerNamespaceBundleMaxTopics")
                for bundle in self.bundles
            ],
            "unload_decisions": shed,
        }  # fmt: skip

    def _acted(self, at: datetime, acts: bool) -> dict[str, list[Row]]:
        if not acts:
            return {}
        bundle, other = self.bundles[0], self.brokers[0]
        unload = _decision(bundle, "bundle", "unload", "heaviest_first", broker=self._owner(bundle), measured=0.0,
                           threshold=MIB, unit="byte/s",
                           numbers={"bundle_throughput": 2 * MIB, "rank": 1.0})  # fmt: skip
        placed = _decision(bundle, "bundle", "placed", "least_long_term_rate", broker=self._owner(bundle)) | {
            "strategy": "LeastLongTermMessageRate",
            "cause": "shed",
            "destination": other,
            "best": [other],
            "candidates": [
                {"broker": broker, "removed_by": None, "score": 400.0 + 10 * n} for n, broker in enumerate(self.brokers)
            ],
            "without_anti_affinity": other,
        }
        command_id = hashlib.sha256(f"command {at}".encode()).hexdigest()
        command = {
            "command_id": command_id, "plan_id": _plan(at), "step": 1, "kind": "unload", "bundle": bundle,
            "from_broker": self._owner(bundle), "destination": other, "mode": "auto",
            "request": f"PUT /admin/v2/namespaces/{bundle}/unload", "expires_at": at + timedelta(minutes=5),
        }  # fmt: skip
        seen = {"command_id": command_id, "outcome": "done", "seen_at": at + timedelta(seconds=9), "detail": "moved"}
        return {
            "unload_decisions": [unload],
            "placement_decisions": [placed],
            "guard_decisions": [],
            "commands": [command],
            "outcomes": [seen],
        }

    def _bundle(self, bundle: str) -> Row:
        lower, upper = (int(edge, 16) for edge in bundle.rsplit("/", 1)[1].split("_"))
        figure = self._chance.random() * MIB
        return {
            "bundle": bundle, "namespace": "acme/load", "lower": lower, "upper": upper, "owner": self._owner(bundle),
            "ownership": "owned", "topics": 31, "used_reason": "measured", "used_msg_throughput_in": figure,
            "used_msg_throughput_out": figure, "used_msg_rate_in": figure / 900, "used_msg_rate_out": figure / 900,
        }  # fmt: skip

    def _owner(self, bundle: str) -> str:
        return self.brokers[hash_of(bundle) % (len(self.brokers) - 1) + 1]

    def _manifest(self, at: datetime, attempt: str, tables: dict[str, list[Row]], acts: bool) -> list[Row]:
        names = [name for name in TABLES if "cycle_date" in TABLES[name].partition]
        writes = [
            {"table": name, "write_id": _write_id(name, at), "version": 1, "rows": len(tables.get(name, ())),
             "digest": attempt}
            for name in names
        ]  # fmt: skip
        before = at - timedelta(seconds=self.seconds)
        reads = [
            {"table": name, "write_id": _write_id(name, before), "version": 1, "rows": 1, "digest": attempt}
            for name in ("bundle_load", "split_decisions", "strategy_state")
        ]
        common = {
            "cluster": CLUSTER, "cycle_at": at, "cycle_date": at.date(), "write_id": attempt, "attempt": 1,
            "attempt_id": attempt, "kind": "live", "mode": "auto", "plan_id": _plan(at), "writes": writes,
            "reads": reads, "shedder": "ThresholdShedder", "placement": "LeastLongTermMessageRate", "splits": 0,
            "unloads": int(acts), "placements": int(acts), "refusals": 0, "held": 0, "predecessor_cycle_at": before,
            "predecessor_status": "used", "snapshot": f"/landing/lab/{at.isoformat()}.json.gz",
            "recorded_at": at + timedelta(seconds=5), "manifest_digest": attempt,
        }  # fmt: skip
        number = int(at.timestamp()) * 2
        planned = {**common, "row_kind": "planned", "status": "planned", "sequence": number}
        return [planned, {**common, "row_kind": "closed", "status": "closed", "sequence": number + 1}]


def hash_of(text: str) -> int:
    """A number that a text always gives."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def _write_id(table: str, at: datetime) -> str:
    return hashlib.sha256(f"{table} {at}".encode()).hexdigest()[:32]


def _plan(at: datetime) -> str:
    return hashlib.sha256(f"plan {at}".encode()).hexdigest()


def _decision(subject: str, kind: str, outcome: str, rule: str, **more: Any) -> Row:
    measured, threshold = more.get("measured"), more.get("threshold")
    margin = None if measured is None or threshold is None else measured - threshold
    return {
        "subject": subject, "subject_kind": kind, "outcome": outcome, "rule": rule, "strategy": "ThresholdShedder",
        "sentence": f"{subject}: {outcome} by the rule {rule}.", "margin": margin,
        "namespace": "acme/load" if kind == "bundle" else None, **more,
    }  # fmt: skip


def _stats(rows: Sequence[Row]) -> str:
    """As Spark writes them: moments to the millisecond, the later one rounded up."""
    moments = [row["cycle_at"] for row in rows]
    ids = [row["write_id"] for row in rows]
    first, last = (moment.strftime("%Y-%m-%dT%H:%M:%S.000Z") for moment in (min(moments), max(moments)))
    return json.dumps({
        "numRecords": len(rows),
        "minValues": {"cycle_at": first, "write_id": min(ids)},
        "maxValues": {"cycle_at": last, "write_id": max(ids)},
        "nullCount": {"cycle_at": 0, "write_id": 0},
    })  # fmt: skip


def sizes(root: Path) -> Iterator[tuple[str, int, int]]:
    """(table, files, bytes) of the lake."""
    for table in ("cycles", *_CONSIDERED, *_ACTED):
        actions = pa.table(DeltaTable(str(root / table)).get_add_actions(flatten=True))
        yield table, actions.num_rows, sum(actions.column("size_bytes").to_pylist())
