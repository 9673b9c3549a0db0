"""Pictures of a year of heat of 100,000 bundles, and what building heat costs a cycle.

`python -m benchmarks heat [--bundles 100000] [--days 365] [--lake DIR]`. The year's blocks are made by the pure
functions of `evenkeel.heat`, a block at a time: bundles split between blocks, and owners change within them. A lake
that is there already is not written again. Every picture is asked for as a web page would: the tables are opened anew.
Building is measured on cycles of 1,000 bundles in a folder of its own. Goals: each picture in at most 1 s and 2 MB, and
0.4 CPU seconds a cycle where ten are built at once.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import description
from evenkeel.heat import build, picture
from evenkeel.heat.blocks import Block, Piece
from evenkeel.heat.columns import MOST_RANGES
from evenkeel.heat.key_ranges import WIDTH, between, chosen_again, in_order, overlaps
from evenkeel.heat.scale import LAYERS, METRICS, Layer
from evenkeel.heat.tables import MARK_BLOCK_SECONDS, HeatState, HeatTables
from evenkeel.model.bundles import BundleRange
from tests.lakes.small_lake import SmallLake

CLUSTER = "eu-1"
NEWEST = datetime(2026, 11, 25, 11, 55, tzinfo=UTC)
MOST_SECONDS, MOST_BYTES, MOST_CPU = 1.0, 2_000_000, 0.4
NAMESPACES_A_TENANT, BROKERS, SPLITS_A_BLOCK, CYCLE_SECONDS = 10, 100, 40, 300
WHOLE_LAYERS = (3_600, 21_600)
"""Layers whose blocks all hold every bundle; of the others the newest three do, so that the lake stays small."""
MARKS_A_DAY = {"move": 200, "held": 40, "bounce": 15, "split": 5}


class SyntheticYear:
    """Bundles with a load of their own that goes with the hour, and noise."""

    def __init__(self, bundles: int, days: int) -> None:
        self.random = np.random.default_rng(7)
        self.days, self.namespaces = days, max(1, bundles // 100)
        per = bundles // self.namespaces
        self.names = in_order(
            f"tenant-{n // NAMESPACES_A_TENANT:03}/orders-{n % NAMESPACES_A_TENANT}" for n in range(self.namespaces)
        )
        grid = (np.arange(per, dtype=np.int64) * WIDTH) // per
        self.lower = (np.arange(self.namespaces, dtype=np.int64)[:, None] * WIDTH + grid).ravel()
        self.rate = self.random.lognormal(3.0, 2.0, len(self.lower))
        self.owner = self.random.integers(1, BROKERS + 1, len(self.lower)).astype(np.uint16)
        self.begins = self.lower[:0]

    def split(self) -> None:
        """Some bundles, rather heavy ones, become two."""
        heavy = self.random.choice(len(self.lower), SPLITS_A_BLOCK, replace=False, p=self.rate / self.rate.sum())
        upper = np.r_[self.lower[1:], np.int64(self.namespaces * WIDTH)]
        new = (self.lower[heavy] + upper[heavy]) // 2
        self.rate[heavy] /= 2
        lower = np.concatenate((self.lower, new))
        order = np.argsort(lower, kind="stable")
        self.lower = lower[order]
        self.rate = np.concatenate((self.rate, self.rate[heavy]))[order]
        self.owner = np.concatenate((self.owner, self.owner[heavy]))[order]

    def write(self, root: Path) -> None:
        """All blocks and marks, oldest first."""
        tables, newest = HeatTables(str(root), make=True), NEWEST.timestamp()
        for layer in reversed(LAYERS):
            oldest = layer.column_of(newest - min(layer.days, self.days) * 86_400)
            starts = range(layer.block_of(oldest), layer.complete_until(newest), layer.block_seconds)
            self.begins = self.lower[:0]
            for left, start in zip(range(len(starts) - 1, -1, -1), starts, strict=True):
                self.split()
                with_all = layer.seconds in WHOLE_LAYERS or left < 3
                tables.replace(CLUSTER, [self.block(layer, start, oldest, newest, with_all=with_all)], None)
            _say(f"  {layer.seconds} s: {len(starts)} blocks")
        self._write_marks(tables, newest)
        tables.replace(CLUSTER, [], HeatState(1, NEWEST, NEWEST - timedelta(days=30)))

    def block(self, layer: Layer, start: int, oldest: int, newest: float, *, with_all: bool) -> Block:
        """One block, by the pure functions; columns of the finest layer are those of cycles."""
        step = max(layer.seconds, CYCLE_SECONDS)
        until = min(start + layer.block_seconds, layer.complete_until(newest))
        columns = [at for at in range(start, until, step) if at >= oldest]
        block = Block(
            layer, start, columns, [f"{at:032x}" for at in columns], [f"broker-{n}:8080" for n in range(BROKERS)]
        )
        end = self.namespaces * WIDTH
        lower, upper = self.lower, np.r_[self.lower[1:], np.int64(end)]
        self.begins = chosen_again(lower, self.rate, MOST_RANGES, self.begins)
        to_lower, to_upper = between(self.begins, end)
        own = overlaps(lower, upper, to_lower, to_upper)
        figures, owner = [*self._figures(columns)], self._owners(len(columns))
        overview = [
            metric.codes(own.largest(part) if metric.largest else own.sums(part))
            for metric, part in zip(METRICS.values(), figures, strict=True)
        ]
        counted = own.counts(np.ones(len(lower), np.int64)).astype(np.int32).tobytes()
        block.pieces[""] = [_piece(to_lower, to_upper, self.names, counted, overview, own.owners(owner), 0)]
        if with_all:
            codes = [metric.codes(part) for metric, part in zip(METRICS.values(), figures, strict=True)]
            heads = np.flatnonzero(np.diff(lower // WIDTH, prepend=-1))
            for rank, (first, last) in enumerate(zip(heads, [*heads[1:], len(lower)], strict=True)):
                part = slice(first, last)
                cut = [one[:, part] for one in codes]
                block.pieces[self.names[rank]] = [
                    _piece(lower[part], upper[part], (), b"", cut, owner[:, part], rank * WIDTH)
                ]
        return block

    def _figures(self, columns: Sequence[int]) -> Iterator[Any]:
        hours = np.array(columns) / 3_600
        wave = 1.0 + 0.6 * np.sin(2 * np.pi * hours / 24)[:, None]
        noise = self.random.lognormal(0.0, 0.15, (len(columns), 1_000)).repeat(len(self.rate) // 1_000 + 1, axis=1)
        rate = (wave * noise[:, : len(self.rate)] * self.rate).astype(np.float32)
        yield from (rate, rate * 900, np.ceil(rate / 50), np.ceil(rate / 9), rate / float(rate[0].sum()) * BROKERS)

    def _owners(self, columns: int) -> Any:
        owner = np.repeat(self.owner[None, :], columns, axis=0)
        for _ in range(50):
            place, at = self.random.integers(len(self.owner)), self.random.integers(columns)
            owner[at:, place] = self.random.integers(1, BROKERS + 1)
        self.owner = owner[-1].copy()
        return owner

    def _write_marks(self, tables: HeatTables, newest: float) -> None:
        first = int(newest) - self.days * 86_400
        marks: dict[int, list[dict[str, Any]]] = {}
        for day in range(self.days):
            for kind, count in MARKS_A_DAY.items():
                for at, place in self.random.integers((0, 0), (86_400, len(self.lower)), (count, 2)).tolist():
                    moment = first + day * 86_400 + at
                    low = int(self.lower[place])
                    row = {"kind": kind, "namespace": self.names[low // WIDTH], "lower": low % WIDTH}
                    row |= {"at": datetime.fromtimestamp(moment, UTC), "upper": low % WIDTH + 1}
                    row["text"] = f"broker-{at % BROKERS}:8080 → broker-{place % BROKERS}:8080, done"
                    marks.setdefault(moment // MARK_BLOCK_SECONDS * MARK_BLOCK_SECONDS, []).append(row)
        for start, rows in marks.items():
            tables.replace_marks(CLUSTER, {start: rows})


def _piece(lower: Any, upper: Any, names: Any, bundles: bytes, codes: Sequence[Any], owner: Any, base: int) -> Piece:
    columns, ranges = owner.shape
    cells = tuple([np.ascontiguousarray(one).tobytes()] for one in (*codes, owner))
    boundaries = np.concatenate((lower - base, upper - base)).tobytes()
    return Piece(0, boundaries, names, bundles, cells, [bytes(columns * ((ranges + 7) // 8))], columns)


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per question; 0 if every goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks heat")
    parser.add_argument("--bundles", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument(
        "--lake", type=Path, help="where the year lies, or is to be written (default: a folder for now)"
    )
    given = parser.parse_args(arguments)
    _say(description())
    with tempfile.TemporaryDirectory() as folder:
        met = building(Path(folder) / "cycles")
        root = given.lake or Path(folder) / "year"
        if not (root / "heat_blocks").exists():
            started = time.monotonic()
            SyntheticYear(given.bundles, given.days).write(root)
            size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
            _say(
                f"{given.bundles:,} bundles, {given.days} days: {size / 1e6:,.0f} MB, written in "
                f"{time.monotonic() - started:.0f} s"
            )
        return 0 if asking(root) and met else 1


def asking(root: Path) -> bool:
    """Times pictures of the whole cluster and of parts of it."""
    spans = {
        "an hour": 1,
        "a day": 24,
        "three days": 72,
        "a week": 168,
        "a month": 720,
        "a quarter": 2_160,
        "a year": 8_760,
    }
    questions = [(f"{name}, {metric}", hours, 0, metric, None) for name, hours in spans.items()
                 for metric in ("message_rate", "broker_share")]  # fmt: skip
    questions += [
        ("a day half a year ago", 24, 4_380, "message_rate", None),
        ("a month, a tenant of 1,000 bundles", 720, 0, "message_rate", "tenant-042"),
        ("a year, a tenant of 1,000 bundles", 8_760, 0, "message_rate", "tenant-042"),
        ("a year, a tenth of the bundles", 8_760, 0, "message_rate", "tenant-04"),
        ("a year, a namespace", 8_760, 0, "topics", "tenant-042/orders-3"),
        ("a year, a range of it", 8_760, 0, "topics", ("tenant-042/orders-3", 0, 1 << 30)),
        ("a year, half of the bundles", 8_760, 0, "message_rate", "tenant-0"),
    ]
    met = True
    for name, hours, ago, metric, within in questions:
        times, shown = [], None
        for _ in range(3):
            last = NEWEST - timedelta(hours=ago) + timedelta(minutes=5)
            started, cpu = time.perf_counter(), time.process_time()
            shown = picture(root, CLUSTER, last - timedelta(hours=hours), last, metric, within=within)
            size = len(shown.to_json())
            times.append((time.perf_counter() - started, time.process_time() - cpu))
        seconds, cpu = min(times)
        worst = max(times)[0]
        met &= worst <= MOST_SECONDS and size <= MOST_BYTES
        columns, rows = shown.codes.shape
        _say(
            f"{name:<38} {seconds:5.2f} s (at most {worst:.2f}), {cpu:.2f} CPU s, {size / 1e6:.2f} MB, {rows:,} rows, "
            f"{columns:,} columns of {shown.layer_seconds} s, {shown.grain}, {len(shown.marks):,} marks"
        )
    return met


def building(root: Path, bundles: int = 1_000, before: int = 288) -> bool:
    """CPU seconds of building ten cycles, and two, after a day of them; some bundles move in each."""
    lake, at = SmallLake(root), NEWEST - timedelta(days=2)
    chance = random.Random(7)
    number = 0

    def more(count: int) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            lake.add(
                CLUSTER,
                at + timedelta(seconds=CYCLE_SECONDS * number),
                {"bundle_load": _loads(bundles, chance, number)},
            )

    with lake.one_commit():
        more(before)
    started = time.process_time()
    build(str(root))
    _say(
        f"building {before} cycles of {bundles:,} bundles at once: {(time.process_time() - started) / before:.3f} "
        f"CPU s a cycle"
    )
    costs = {}
    for count in (10, 2):
        each = []
        for _ in range(6):
            more(count)
            started = time.process_time()
            build(str(root))
            each.append((time.process_time() - started) / count)
        costs[count] = float(np.mean(each))
        _say(
            f"building {count} cycles a run: {costs[count]:.3f} CPU s a cycle (mean of 6 runs, {min(each):.3f} – "
            f"{max(each):.3f})"
        )
    return costs[10] <= MOST_CPU


def _loads(bundles: int, chance: random.Random, number: int) -> list[dict[str, Any]]:
    rows, per = [], 50
    for n in range(bundles):
        namespace, place = f"acme/orders-{n // per}", n % per
        low, high = place * WIDTH // per, min((place + 1) * WIDTH // per, WIDTH - 1)
        owner = f"broker-{(n + (number if n == number % bundles else 0)) % 3}:8080"
        half = chance.lognormvariate(3, 1) / 2
        rows.append(
            {
                "bundle": f"{namespace}/{BundleRange(low, high)}", "namespace": namespace, "lower": low, "upper": high,
                "owner": owner, "last_owner": owner, "topics": 3, "producers": 2, "consumers": 4,
                "used_msg_rate_in": half, "used_msg_rate_out": half,
                "used_msg_throughput_in": 900 * half, "used_msg_throughput_out": 900 * half,
            }
        )  # fmt: skip
    return rows


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
