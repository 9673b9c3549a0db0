"""A small lake in which commands were sent, held back and seen: three dates, with a split on the second.

What it decides is decided by the rounds, so that it can be asked again. Rows about bundles that were let be are left
out of `split_decisions`.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from evenkeel import repetition as whole
from evenkeel.cycle.reading import cycle_row
from evenkeel.lake.plain_rows import as_read
from evenkeel.lake.record import read_attempts, read_rows
from evenkeel.repetition import STATE
from evenkeel.settings import resolve
from tests.lakes.plausible import broker_load, bundle_load
from tests.lakes.small_lake import Row, SmallLake, moment

B1, B2, B3 = (f"b{n}.example:8080" for n in (1, 2, 3))
MIB = 1024.0 * 1024.0
WHOLE = "acme/web/0x00000000_0x80000000"
CHILDREN = ("acme/web/0x00000000_0x40000000", "acme/web/0x40000000_0x80000000")
REST = "acme/web/0x80000000_0xffffffff"
OTHER = "acme/other/0x00000000_0xffffffff"
LAST = "acme/last/0x00000000_0xffffffff"
FIRST = moment("2026-03-01T03:12:37.500250")
SPLIT_AT = FIRST + timedelta(days=1)
AFTER = FIRST + timedelta(days=2)
SPLIT_ID, UNLOAD_ID, OTHER_ID = "5b1c" + "0" * 60, "a01d" + "1" * 60, "a01d" + "2" * 60


MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
OVERRIDES = {
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.0,
    "loadBalancerSheddingGracePeriodMinutes": 0,
    "evenkeelMaxUnloadsPerCycle": 1,
    "evenkeelMaxBundleTrafficPercent": 100.0,
    "evenkeelMaxMovedTrafficPercent": 100.0,
}


def report(broker: str, usage: float, throughput: float, topics: int = 100) -> Row:
    """`usage` as a fraction, `throughput` in byte/s, in and out together."""
    halves = {"throughput": throughput / 2, "rate": throughput / 1880}
    figures = {f"msg_{kind}_{way}": value for kind, value in halves.items() for way in ("in", "out")}
    return {"broker": broker, "state": "reported", "is_listed": True, "cpu_usage": usage * 100, "cpu_limit": 100.0,
            "topics": topics, "pulsar_version": "4.2.4", "load_manager_class": MODULAR, **figures}  # fmt: skip


def bundle(name: str, owner: str, throughput: float, long_rate: float = 10.0, **more: Any) -> Row:
    long_term = {f"long_msg_rate_{way}": long_rate / 2 for way in ("in", "out")}
    long_term |= {f"long_msg_throughput_{way}": throughput / 2 for way in ("in", "out")}
    return bundle_load(name, owner, throughput, **long_term, **more)


def add_decided(lake: SmallLake, at: Any, reports: list[Row], bundles: list[Row], **manifest: Any) -> None:
    """A cycle with these reports and bundles, decided on what the newest cycle of the lake remembers."""
    before = read_attempts(lake.root)[-1:] if (lake.root / "cycles").exists() else []
    state = read_rows(lake.root, before[0], "strategy_state") if before else []
    spaces: dict[str, set[int]] = {}
    for row in bundles:
        spaces.setdefault(row["namespace"], set()).update((row["lower"], row["upper"]))
    observed: dict[str, Sequence[Row]] = {
        "broker_reports": [{**row, "report_at": at} for row in reports],
        "broker_load": [broker_load(row["broker"], row["cpu_usage"] / 100,
                                    **{name: row[name] for name in row if name.startswith("msg_")}) for row in reports],
        "bundle_load": bundles,
        "namespace_bundles": [{"namespace": name, "boundaries": [f"0x{edge:08x}" for edge in sorted(edges)]}
                              for name, edges in spaces.items()],
    }  # fmt: skip
    effective = resolve(observed=None, overrides=OVERRIDES)
    status, before_at = ("used", before[0].cycle_at) if before else ("none", None)
    cycle = cycle_row("prod", at, effective.to_json(), effective.digest, manager="modular", mode="auto",
                      predecessor=(before_at and before_at.isoformat(), status))  # fmt: skip
    plain = {table: [as_read(table, row) for row in rows] for table, rows in observed.items()}
    made = whole.decide({**plain, "cluster_policies": []}, cycle, [as_read(STATE, row) for row in state]).rows
    rows = {**observed, **{table: made[table] for table in made if table.endswith("_decisions")}}
    rows["split_decisions"] = [row for row in rows["split_decisions"] if row["outcome"] != "kept"]
    rows[STATE] = [{**row, "at": row["at"] and moment(row["at"][:26])} for row in made[STATE]]
    rows["settings"] = [{**row, "settings_digest": effective.digest} for row in effective.rows()]
    stamp = ("cluster", "cycle_at")
    tables = {table: [{name: row[name] for name in row if name not in stamp} for row in found]
              for table, found in rows.items()}  # fmt: skip
    reads = [{"table": write.table, "write_id": write.write_id, "version": 1, "rows": write.rows, "commit": "d"}
             for one in before for write in one.writes_of(STATE)]  # fmt: skip
    lake.add("prod", at, tables, mode="auto", settings_digest=effective.digest, manager="modular", reads=reads,
             predecessor_status=status, predecessor_cycle_at=before_at,
             predecessor_attempt_id=before[0].attempt_id if before else None, **manifest)  # fmt: skip


def command(command_id: str, plan_id: str, kind: str, bundle: str, **more: Any) -> Row:
    return {"command_id": command_id, "plan_id": plan_id, "step": 1, "kind": kind, "bundle": bundle, "mode": "auto",
            "request": f"PUT /admin/v2/namespaces/{bundle}/{kind}", "expires_at": AFTER, **more}  # fmt: skip


def stamped(at: Any, rows: list[Row]) -> list[Row]:
    return [{**row, "cluster": "prod", "cycle_at": at, "cycle_date": at.date(), "write_id": "w"} for row in rows]


def fill(root: Path) -> SmallLake:
    """Cluster `prod`: it unloads WHOLE and splits it, REST is held back; afterwards the children are there."""
    lake = SmallLake(root)
    add_decided(
        lake, FIRST,
        [report(B1, 0.5, 10 * MIB, 60_000), report(B2, 0.2, MIB), report(B3, 0.2, MIB)],
        [bundle(WHOLE, B1, 2 * MIB), bundle(REST, B1, 0.3 * MIB), bundle(OTHER, B2, MIB, 100.0),
         bundle(LAST, B3, MIB, 140.25)],
        plan_id="p1", unloads=1, placements=1,
    )  # fmt: skip
    lake.append("commands", stamped(FIRST, [
        command(UNLOAD_ID, "p1", "unload", WHOLE, from_broker=B1, destination=B2)]))  # fmt: skip
    lake.append("outcomes", stamped(FIRST, [
        {"command_id": UNLOAD_ID, "outcome": "unknown", "seen_at": FIRST + timedelta(seconds=5), "detail": "no answer"},
        {"command_id": UNLOAD_ID, "outcome": "done", "seen_at": FIRST + timedelta(seconds=9),
         "detail": f"the bundle is on {B2}"}]))  # fmt: skip
    add_decided(
        lake, SPLIT_AT,
        [report(B1, 0.5, 8 * MIB, 60_000), report(B2, 0.2, MIB), report(B3, 0.2, MIB)],
        [bundle(WHOLE, B2, 2 * MIB, topics=1100), bundle(REST, B1, 0.3 * MIB), bundle(OTHER, B1, MIB),
         bundle(LAST, B3, MIB)],
        plan_id="p2", splits=1,
    )  # fmt: skip
    lake.append("commands", stamped(SPLIT_AT, [
        command(SPLIT_ID, "p2", "split", WHOLE, from_broker=B2),
        command(OTHER_ID, "p2", "unload", OTHER, from_broker=B1, destination=B3)]))  # fmt: skip
    add_decided(
        lake, AFTER,
        [report(B1, 0.2, MIB), report(B2, 0.25, MIB), report(B3, 0.2, MIB)],
        [bundle(name, B2, MIB) for name in CHILDREN] + [bundle(REST, B3, 0.3 * MIB)],
        plan_id="p3",
    )  # fmt: skip
    return lake
