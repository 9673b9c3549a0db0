"""How long a month of one-minute cycles takes to be replayed by five variants.

`python -m benchmarks replay [--cycles N] [--bundles N …]`. Three brokers with so many bundles each, and traffic that
keeps one broker busier than the others, so that shedders act in many cycles: the costly case. A lake of N cycles is
written, compacted as upkeep leaves it, replayed through Spark on two workers, and the time extrapolated to 43,200
cycles. Goal, for 100 bundles each: 20 minutes. Printed beside it: the CPU that the decisions alone take.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.machine import description
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.replay.closed_loop import Size, scenario
from evenkeel.replay.fold import Chosen, Fold, Recorded
from evenkeel.replay.history import read_history
from evenkeel.replay.modelled_cluster import Cluster
from evenkeel.replay.open_loop import OpenLoop, replay
from evenkeel.replay.variants import Variant, variants_of
from evenkeel.settings import EffectiveSettings, resolve
from tests.lakes.small_lake import arrow_schema, completed

MONTH = 43_200
GOAL_S = 20 * 60
GOAL_BUNDLES = 100
SETTINGS = resolve(observed=None, overrides={"loadManagerClassName": "ModularLoadManagerImpl"})
VARIANTS = variants_of(
    ["OverloadShedder", "UniformLoadShedder", "AvgShedder"],
    named=[
        "threshold-5:loadBalancerBrokerThresholdShedderPercentage=5",
        "threshold-15:loadBalancerBrokerThresholdShedderPercentage=15",
    ],
)


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per size; 0 if the goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay")
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--bundles", type=int, nargs="*", default=[100, 1_000], help="per broker")
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    missed = False
    for bundles in given.bundles:
        cycles = given.cycles if bundles <= GOAL_BUNDLES else max(10, given.cycles * GOAL_BUNDLES // bundles)
        folder = Path(tempfile.mkdtemp(prefix="evenkeel-replay-"))
        try:
            seconds = measured(folder, bundles, cycles)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        missed |= bundles == GOAL_BUNDLES and seconds > GOAL_S
    return int(missed)


def measured(folder: Path, bundles: int, cycles: int) -> float:
    """Seconds that a month would take."""
    from evenkeel.cli.options import session

    seen = list(_cycles(bundles, cycles))
    cpu = decisions_alone(seen) / cycles
    write_lake(folder, seen)
    asked = OpenLoop(read_history(str(folder), "model", None, None), VARIANTS)
    with session("benchmark replay") as spark:
        warm = OpenLoop(read_history(str(folder), "model", None, seen[1][0].isoformat()), VARIANTS)
        replay(spark, warm, lambda *_: None)  # the first job of a server compiles
        begin = time.perf_counter()
        found = replay(spark, asked, lambda *_: None)
        seconds = time.perf_counter() - begin
    moves = {name: found.tallies[name].counts["moves"] for name in found.names()}
    month = seconds / cycles * MONTH
    print(
        f"3 brokers x {bundles:,} bundles, {len(VARIANTS)} variants: {cycles} cycles in {seconds:.1f} s "
        f"({1_000 * seconds / cycles:.1f} ms a cycle), a month in {month / 60:.0f} min; decisions alone "
        f"{1_000 * cpu:.1f} ms of CPU a cycle; moves asked: {moves}",
        flush=True,
    )
    return month


def _cycles(bundles: int, cycles: int) -> Iterator[tuple[datetime, dict[str, list[Any]]]]:
    """Cycles of a cluster whose first broker has half of the bundles."""
    made = scenario("diurnal", Size(brokers=3, bundles=3 * bundles, cycles=cycles), 1)
    brokers = sorted(made.fits)
    owners = {b: brokers[0] if n % 4 == 0 else owner for n, (b, owner) in enumerate(sorted(made.owners.items()))}
    cluster = Cluster("model", made.fits, made.topics, dict(made.boundaries), dict(owners))
    for n, at in enumerate(made.moments):
        cluster.observe(at, made.throughputs(n), (), SETTINGS.settings)
        yield at, {table: list(rows) for table, rows in cluster.rows(SETTINGS.settings).items()}


def decisions_alone(seen: Sequence[tuple[datetime, dict[str, list[Any]]]]) -> float:
    """CPU seconds of the fold, one process, rows at hand."""
    chosen = {variant.name: _chosen(variant) for variant in VARIANTS}
    fold = Fold(0.85, True, {})
    begin = time.process_time()
    for at, rows in seen:
        for _ in fold.step(Recorded("model", at, None, "modular", chosen), {**rows}):
            pass
    return time.process_time() - begin


def _chosen(variant: Variant) -> Chosen:
    from evenkeel.replay.variants import settings_of

    found: EffectiveSettings = settings_of(variant, SETTINGS, "modular", "model")
    return Chosen(found.to_json(), found.digest, "modular", False)


def write_lake(folder: Path, seen: Sequence[tuple[datetime, dict[str, list[Any]]]]) -> None:
    """All cycles in one commit per table, each under a write id of its own."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in OF_RECORD}
    for number, (at, tables) in enumerate(seen):
        attempt = hashlib.sha256(str(number).encode()).hexdigest()
        before = hashlib.sha256(str(number - 1).encode()).hexdigest() if number else None
        stamp = {"cluster": "model", "cycle_at": at, "cycle_date": at.date()}
        writes = []
        own = {**tables, "settings": [{**row, "settings_digest": SETTINGS.digest} for row in SETTINGS.rows()]}
        for table, found in own.items():
            write_id = f"{number:08x}{table}"
            rows[table] += [{**_typed(table, row), **stamp, "write_id": write_id} for row in found]
            writes.append({"table": table, "write_id": write_id, "version": 0, "rows": len(found), "commit": ""})
        known = {"sequence": number + 1, "attempt": 1, "attempt_id": attempt, "write_id": attempt, "kind": "live"}
        known |= {"row_kind": "planned", "status": "planned", "mode": "dry_run", "plan_id": attempt, "writes": writes}
        known |= {"settings_digest": SETTINGS.digest, "manager": "modular", "wishes": [], "reads": []}
        rows["cycles"].append({**stamp, **known, "predecessor_attempt_id": before, "recorded_at": at})
    for table, found in rows.items():
        schema = arrow_schema(TABLES[table])
        body = pa.Table.from_pylist([completed(TABLES[table], row) for row in found], schema=schema)
        write_deltalake(str(folder / table), body, mode="append", partition_by=list(TABLES[table].partition))


def _typed(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Times as such; columns that the table lacks left out."""
    kinds = {column.name: column.type for column in TABLES[table].columns}
    known = {name: value for name, value in row.items() if name in kinds}
    return {
        name: datetime.fromisoformat(value) if kinds[name] == "timestamp" and isinstance(value, str) else value
        for name, value in known.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
