"""What a new cycle costs after ten recorded ones, and after thousands, without and with upkeep.

`python -m benchmarks growth [--cycles 2000] [--measured 5] [--recording DIR]`. Goal: after 10,000 cycles, with upkeep
run as scheduled, a cycle takes at most 1.3 times what it took after ten. The cycles measured are real ones, a second
apart, over the same recorded snapshot. Those before them are copies of one real cycle, a minute apart: for each a
commit in every table with a data file of its own, and its two rows in `cycles`, with statistics as Spark writes them;
so logs, checkpoints and chains are as long as they would be.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.machine import description
from benchmarks.repeated import RECORDING, moved_file
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.maintenance.inventory import measure
from evenkeel.maintenance.upkeep import Request, keep, storage_as_text
from evenkeel.pipeline import run_cycle
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect

MOST_TIMES = 1.3
CLUSTER = "grown"
BEFORE = 10
WARM = 4


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the seconds of a cycle by task for each length of the record; 0 if the goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth")
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--measured", type=int, default=5)
    parser.add_argument("--recording", type=Path, default=RECORDING)
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name, engine_for(Path(name) / "engine") as engine:
        folder = Path(name)
        given.recording = _recording(given.recording, folder / "recording", BEFORE + given.measured)
        snapshots = [one.cycle_at for one in Recording(given.recording).snapshots]
        for at in snapshots[:WARM]:
            _cycle(engine, folder / "warm", given.recording, at)
        first = _measured("after 10", engine, folder / "short", given, snapshots)
        unkept = _measured(
            f"after {given.cycles:,}, no upkeep", engine, folder / "unkept", given, snapshots, given.cycles
        )
        kept = folder / "kept"
        last = _measured(f"after {given.cycles:,}, kept", engine, kept, given, snapshots, given.cycles, upkeep=True)
        print("\n".join(f"    {line}" for line in storage_as_text(measure(str(kept)))))
    print(f"    a cycle takes {last / first:.2f} times what it took after ten ({unkept / first:.2f} without upkeep)")
    return 0 if last / first <= MOST_TIMES else 1


def _recording(source: Path, folder: Path, snapshots: int) -> Path:
    """The first snapshot of a recording so many times, a second apart."""
    folder.mkdir()
    document = json.loads(gzip.decompress(Path(Recording(source).snapshots[0].path).read_bytes()))
    for n in range(snapshots):
        (folder / f"{n:04d}.json.gz").write_bytes(moved_file(document, n, timedelta(seconds=n)))
    return folder


def _measured(
    what: str,
    engine: Engine,
    lake: Path,
    given: argparse.Namespace,
    snapshots: Sequence[str],
    copies: int = 0,
    *,
    upkeep: bool = False,
) -> float:
    """The median seconds of a cycle in a lake with ten cycles and so many copies of the first before it."""
    _cycle(engine, lake, given.recording, snapshots[0])
    if copies:
        begin = time.perf_counter()
        _copy_cycle(lake, copies)
        print(f"    {copies:,} cycles copied in {time.perf_counter() - begin:.0f} s", flush=True)
    if upkeep:
        _keep(engine, lake)
    for at in snapshots[1:BEFORE]:
        _cycle(engine, lake, given.recording, at)
    taken = [_cycle(engine, lake, given.recording, at) for at in snapshots[BEFORE : BEFORE + given.measured]]
    middle = {name: statistics.median(one[name] for one in taken) for name in taken[0]}
    print(f"    {what}: {'  '.join(f'{name} {value:.2f}' for name, value in middle.items())}", flush=True)
    return middle["cycle"]


def _cycle(engine: Engine, lake: Path, recording: Path, at: str) -> dict[str, float]:
    """Decides a snapshot; seconds by task, and of all of it (`cycle`)."""
    request = CycleRequest(lake=str(lake), source=f"recording:{recording}", clusters=(CLUSTER,), at=at, run_id=at)
    figures: dict[str, float] = {}
    spark = connect(engine.url, "growth")
    try:
        begin = time.perf_counter()
        run_cycle(spark, request, figures.__setitem__)
        seconds = time.perf_counter() - begin
    finally:
        close(spark)
    return {"begin": seconds - sum(figures.values()), **figures, "cycle": seconds}


def _keep(engine: Engine, lake: Path) -> None:
    spark = connect(engine.url, "growth")
    try:
        begin = time.perf_counter()
        keep(spark, Request(str(lake), "benchmark"), lambda line: None)
        print(f"    upkeep in {time.perf_counter() - begin:.0f} s", flush=True)
    finally:
        close(spark)


def _copy_cycle(root: Path, copies: int) -> None:
    """Copies the one cycle of a lake to the minutes before it."""
    from deltalake import DeltaTable

    lake = Lake(str(root))
    rows = DeltaTable(lake.path("cycles")).to_pyarrow_table().sort_by("sequence")
    newest: datetime = rows["cycle_at"][0].as_py()
    moments = [newest - timedelta(minutes=n) for n in range(copies, 0, -1)]
    ids = {w["write_id"] for w in rows["writes"][0].as_py()}
    renamed = [{one: uuid.uuid4().hex for one in ids} for _ in moments]
    for name in TABLES:
        log = Path(lake.path(name)) / "_delta_log"
        commits = [json.loads(line) for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
        adds = [one["add"] for one in commits if "add" in one]
        if adds and name == "cycles":
            _copy_chain(log, adds[-1], moments, renamed)
        elif adds and "cycle_date" in TABLES[name].partition:
            _copy_rows(log, adds, newest, moments, renamed)
        if adds:
            DeltaTable(lake.path(name)).create_checkpoint()


def _copy_rows(
    log: Path, adds: Sequence[dict[str, Any]], newest: datetime, moments: Sequence[datetime], renamed: Sequence[Any]
) -> None:
    """A commit per cycle. The data is the same; partition and statistics are those of the other moment."""
    version = len(list(log.glob("*.json")))
    old = _spark_time(newest)
    for moment, names in zip(moments, renamed, strict=True):
        actions = []
        for add in adds:
            path = _copied(add["path"], moment)
            stats = add["stats"].replace(old, _spark_time(moment))
            for one, other in names.items():
                stats = stats.replace(one, other)
            (log.parent / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(log.parent / add["path"], log.parent / path)
            partition = {**add["partitionValues"], "cycle_date": str(moment.date())}
            actions.append({**add, "path": path, "partitionValues": partition, "stats": stats, **_written(moment)})
        _commit(log, version, moment, actions)
        version += 1


def _copied(path: str, moment: datetime) -> str:
    """Where the copy of a file stands; manifests name the same place."""
    folder = str(Path(path).parent).rpartition("/")[0] + f"/cycle_date={moment.date()}"
    return f"{folder}/part-00000-{uuid.uuid5(uuid.NAMESPACE_URL, f'{path} {moment}')}.c000.snappy.parquet"


def _copy_chain(log: Path, add: dict[str, Any], moments: Sequence[datetime], renamed: Sequence[Any]) -> None:
    """Two manifest rows per cycle, in a file of their own."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    template = pq.ParquetFile(log.parent / add["path"]).read()
    version = len(list(log.glob("*.json")))
    for n, (moment, names) in enumerate(zip(moments, renamed, strict=True), start=1):
        attempt_id, first = uuid.uuid4().hex * 2, 2 * n + 1
        rows = template.to_pylist()
        for place, row in enumerate(rows):
            for write in (*row["writes"], *row["files"]):
                write["write_id"] = names.get(write["write_id"], write["write_id"])
            for file in row["files"]:
                file["path"] = _copied(file["path"], moment)
            row |= {"cycle_at": moment, "recorded_at": moment, "attempt_id": attempt_id, "write_id": attempt_id}
            row |= {"sequence": first + place, "cycle_date": moment.date(), "manifest_digest": uuid.uuid4().hex * 2}
        path = f"{Path(add['path']).parent}/part-00000-{uuid.uuid4()}.c000.snappy.parquet"
        # Spark's timestamps come as nanoseconds, and it reads none of those that are written as a number.
        pq.write_table(pa.Table.from_pylist(rows, schema=template.schema), log.parent / path, coerce_timestamps="us")
        stats = json.loads(add["stats"])
        for bound in ("minValues", "maxValues"):
            stats[bound] |= {"cycle_at": _spark_time(moment), "write_id": attempt_id[:32]}
            if "sequence" in stats[bound]:
                stats[bound]["sequence"] = first if bound == "minValues" else first + len(rows) - 1
        size = (log.parent / path).stat().st_size
        action = {**add, "path": path, "size": size, "stats": json.dumps(stats), **_written(moment)}
        _commit(log, version, moment, [action])
        version += 1
    assert pc.max(template["sequence"]).as_py() == 2, "the template is the first cycle of its lake"


def _commit(log: Path, version: int, moment: datetime, adds: Sequence[dict[str, Any]]) -> None:
    info = {"timestamp": _milliseconds(moment), "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    lines = [{"commitInfo": {**info, "isBlindAppend": True, "txnId": str(uuid.uuid4())}}, *({"add": a} for a in adds)]
    (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _written(moment: datetime) -> dict[str, Any]:
    return {"modificationTime": _milliseconds(moment), "dataChange": True}


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _spark_time(moment: datetime) -> str:
    """As it stands in statistics: milliseconds, cut and not rounded."""
    at = moment.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
