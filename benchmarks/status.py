"""The status of many clusters: `evenkeel status` as a command, and the desk's first page from its reader.

`python -m benchmarks status [--clusters 200] [--cycles 10000] [--bundles 100000] [--lake DIR]`: cycles and bundles of
all clusters together; every cycle's rows are files of their own. The lake is written without Spark; one that is there
already is not written again. Goal: the page in at most 0.3 s, of which nothing is sent before it is whole, and the
command, its start included, in at most 1 s of what it does beyond `--help`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psutil
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.machine import description
from evenkeel.lake.schemas import TABLES
from tests.lakes.small_lake import arrow_schema, completed

PAGE_S = 0.3
COMMAND_S = 1.0
TIMES = 9
BROKERS = 10
ROWS_OF_OLD_CYCLES = 10
EVERY = timedelta(minutes=5)
MODES = ("auto", "auto", "approve", "dry_run")
CHECKOUT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per way; 0 if the goals were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks status")
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--cycles", type=int, default=10_000, help="of all clusters together")
    parser.add_argument("--bundles", type=int, default=100_000, help="of all clusters together")
    parser.add_argument("--lake", type=Path, metavar="DIR", help="where the lake is, or is to be")
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    size = given.clusters, given.cycles // given.clusters, given.bundles // given.clusters
    with lake_at(given.lake, *size) as lake:
        page = _page(lake, *size)
        command = _command(lake)
    return int(page > PAGE_S or command > COMMAND_S)


def _page(lake: Path, clusters: int, rounds: int, bundles: int) -> float:
    """Median seconds from the request to the first byte, as the desk has no byte before the last."""
    sys.path.insert(0, str(CHECKOUT / "plugins"))
    from evenkeel_page.reader import Job, Reader

    reader = Reader()

    def ask() -> tuple[float, float]:
        began, cpu = time.perf_counter(), _cpu(reader.pid)
        found = reader.ask(Job("clusters", str(lake)))
        assert "cluster-000" in found.body, found.body[-500:]
        return time.perf_counter() - began, _cpu(reader.pid) - cpu

    try:
        first, cpu = ask()
        print(f"  page, first look, the reader's start included: {first:.2f} s, {cpu:.2f} CPU s", flush=True)
        looks = [ask() for _ in range(TIMES)]
        took, cpu = (statistics.median(one) for one in zip(*looks, strict=True))
        held = psutil.Process(reader.pid).memory_info().rss / 1024**2
        print(
            f"  page, further looks: {took:.2f} s (median of {TIMES}; {max(looks)[0]:.2f} at most), {cpu:.2f} CPU s; "
            f"the reader holds {held:.0f} MiB",
            flush=True,
        )
        write_round(lake, clusters, rounds, datetime.now(UTC), bundles)
        new, cpu = ask()
        print(f"  page, with a new cycle of every cluster: {new:.2f} s, {cpu:.2f} CPU s", flush=True)
        return took
    finally:
        reader.close()


def _cpu(pid: int | None) -> float:
    if pid is None:
        return 0.0
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def _command(lake: Path) -> float:
    """Median seconds of the command beyond those of `--help`."""
    found = []
    for words in (["--help"], ["--json", "--lake", str(lake)]):
        looks = [_seconds([sys.executable, "-m", "evenkeel.cli", "status", *words]) for _ in range(3)]
        found.append(tuple(statistics.median(one) for one in zip(*looks, strict=True)))
    (alone, _), (whole, cpu) = found
    print(f"  evenkeel status --json: {whole:.2f} s, {cpu:.2f} CPU s; {alone:.2f} s of it start a command", flush=True)
    return whole - alone


def _seconds(command: list[str]) -> tuple[float, float]:
    """By the clock, and of processors."""
    began, used = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    now = os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return time.perf_counter() - began, cpu


# A lake of many clusters, as one run over all of them writes it: a commit per table and cycle, a file per cluster.


@contextmanager
def lake_at(place: Path | None, clusters: int, rounds: int, bundles: int) -> Iterator[Path]:
    """The lake, written where there is none yet; one without a place of its own is removed again."""
    root = place or Path(tempfile.mkdtemp(prefix="evenkeel-status-"))
    try:
        if not (root / "cycles").exists():
            began = time.perf_counter()
            write_lake(root, clusters, rounds, bundles)
            print(f"  written in {time.perf_counter() - began:.0f} s", flush=True)
        yield root
    finally:
        if place is None:
            shutil.rmtree(root, ignore_errors=True)


def write_lake(root: Path, clusters: int, rounds: int, bundles: int) -> None:
    """So many cycles of each cluster, the last one now. Rows of bundles are those of the newest two; older ones are
    past their retention but for a few."""
    now = datetime.now(UTC).replace(microsecond=0)
    for number in range(rounds):
        own = bundles if number >= rounds - 2 else ROWS_OF_OLD_CYCLES
        write_round(root, clusters, number, now - EVERY * (rounds - 1 - number), own)


def write_round(root: Path, clusters: int, round_number: int, at: datetime, bundles: int) -> None:
    """A cycle of each cluster."""
    rows: dict[str, list[Row]] = {}
    for number in range(clusters):
        for table, own in _cycle(f"cluster-{number:03d}", number, round_number, at, bundles):
            rows.setdefault(table, []).extend(own)
    manifests = rows.pop("cycles")
    files = {table: _append(root, table, own) for table, own in rows.items()}
    for row in manifests:
        row["files"] = [
            {"table": one["table"], "write_id": one["write_id"], "path": path, "size": size, "digest": "d"}
            for one in row["writes"]
            for path, size in [files[one["table"]][row["cluster"]]]
        ]
    _append(root, "cycles", manifests)


def _cycle(name: str, number: int, round_number: int, at: datetime, bundles: int) -> Iterator[tuple[str, list[Row]]]:
    mode = MODES[number % len(MODES)]
    ids = {table: f"{table}-{name}-{round_number}" for table in ("broker_load", "unload_decisions", "guard_decisions")}

    def stamped(write_id: str, row: Row) -> Row:
        return {**row, "cluster": name, "cycle_at": at, "cycle_date": at.date(), "write_id": write_id}

    brokers = [f"broker-{one}.{name}:8080" for one in range(BROKERS)]
    found: dict[str, list[Row]] = {
        "broker_load": [
            {"broker": broker, "state": "reported", "bundles": 50, "msg_rate_in": 10.0, "msg_rate_out": 10.0,
             "weighted_usage": 0.4} for broker in brokers
        ],
        "unload_decisions": [
            {"subject": f"acme/ns{one}/0x00000000_0xffffffff", "subject_kind": "bundle", "strategy": "ThresholdShedder",
             "outcome": "kept", "rule": "within_limits", "sentence": "It stays.", "broker": brokers[one % BROKERS]}
            for one in range(bundles)
        ],
        "guard_decisions": [
            {"subject": "acme/ns1/0x00000000_0xffffffff", "subject_kind": "bundle", "position": 1, "outcome": "held",
             "rule": "unloads_per_cycle", "sentence": "The unload of acme/ns1/0x00000000_0xffffffff is held back."}
        ],
    }  # fmt: skip
    for table, rows in found.items():
        yield table, [stamped(ids[table], row) for row in rows]
    plan_id = f"plan-{name}-{round_number}"
    writes = [
        {"table": table, "write_id": ids[table], "version": round_number, "rows": len(rows), "commit": "d"}
        for table, rows in found.items()
    ]
    acts = [
        {"command_id": f"command-{name}-{earlier}", "outcome": _seen(number, earlier), "seen_at": at.isoformat()}
        for earlier in range(max(round_number - 12, 0), round_number)
    ]
    common = {
        "acts": acts if mode == "auto" else [], "attempt": 1, "attempt_id": f"attempt-{name}-{round_number}",
        "kind": "live", "mode": mode, "plan_id": plan_id,
        "splits": 0, "unloads": 2, "placements": 2, "refusals": 0, "held": 1, "writes": writes, "source": "admin",
        "before_max_over_mean": 1.2 + (number + round_number) % 7 / 10, "schema_version": 1, "recorded_at": at,
    }  # fmt: skip
    kinds = [("planned", "planned")] + ([("closed", "closed")] if mode != "approve" else [])
    yield "cycles", [
        stamped(f"c-{name}-{round_number}", {**common, "row_kind": kind, "status": status,
                                             "sequence": 2 * round_number + place, "manifest_digest": "m"})
        for place, (kind, status) in enumerate(kinds, 1)
    ]  # fmt: skip
    yield (
        "settings",
        [
            stamped(
                f"s-{name}-{round_number}", {"key": "evenkeelMaxReportAgeSeconds", "value": "300", "origin": "default"}
            )
        ],
    )
    if mode == "auto":
        command_id = f"command-{name}-{round_number}"
        yield "commands", [
            stamped("o", {"command_id": command_id, "plan_id": plan_id, "step": 1, "kind": "unload", "mode": mode,
                          "bundle": "acme/ns2/0x00000000_0xffffffff", "from_broker": brokers[0], "expires_at": at,
                          "destination": brokers[1]})
        ]  # fmt: skip
        seen = _seen(number, round_number)
        yield (
            "outcomes",
            [stamped("o", {"command_id": command_id, "outcome": seen, "seen_at": at, "detail": "as it should"})],
        )
        yield (
            "controls",
            [{"cluster": name, "kind": "lease", "at": at, "by": "publisher", "token": round_number, "until": at}],
        )


def _seen(number: int, round_number: int) -> str:
    return "harmed" if number % 40 == 0 and round_number % 20 == 0 else "done"


def _append(root: Path, name: str, rows: list[Row]) -> dict[str, tuple[str, int]]:
    """Cluster -> the file that holds its rows, and its size. The log has figures of the columns that a lake's has."""
    table = TABLES[name]
    body = pa.Table.from_pylist([completed(table, row) for row in rows], schema=arrow_schema(table))
    known = {"delta.dataSkippingStatsColumns": "cycle_at,write_id"} if "cycle_at" in body.column_names else None
    write_deltalake(str(root / name), body, mode="append", partition_by=list(table.partition), configuration=known)
    newest = max((root / name / "_delta_log").glob("*.json"))
    added = [json.loads(line).get("add") for line in newest.read_text().splitlines()]
    return {one["partitionValues"]["cluster"]: (unquote(one["path"]), one["size"]) for one in added if one}
