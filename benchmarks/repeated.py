"""What benchmarks share that decide one small cycle again and again: their options, a line per run, the medians."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parent.parent / "demo" / "recordings" / "own-threshold"


_REPORTED_AT = re.compile(r'(?<="lastUpdate":)\d{13}')


def moved(snapshot: Mapping[str, Any], by: timedelta) -> dict[str, Any]:
    """A recorded snapshot, its times, those of its requests and those of brokers' reports moved."""

    def later(at: str) -> str:
        return (datetime.fromisoformat(at) + by).isoformat()

    def reported_later(body: Any) -> Any:
        milliseconds = by // timedelta(milliseconds=1)
        return _REPORTED_AT.sub(lambda at: str(int(at[0]) + milliseconds), body) if isinstance(body, str) else body

    times = {name: later(snapshot[name]) for name in ("started_at", "finished_at")}
    requests = [{**one, "at": later(one["at"]), "body": reported_later(one["body"])} for one in snapshot["requests"]]
    return {**snapshot, **times, "requests": requests}


def moved_file(snapshot: Mapping[str, Any], n: int, by: timedelta) -> bytes:
    """The file of a recorded snapshot as number `n` of a recording, its times moved."""
    return gzip.compress(json.dumps({**moved(snapshot, by), "n": n}).encode(), mtime=0)


def options(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """`recording` and `runs`, the number of warm ones."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    parser.add_argument("--runs", type=int, default=8)
    return parser.parse_args(list(arguments))


@dataclass(slots=True)
class Figures:
    """Seconds by name, of the warm runs; `cycle` is the one that a goal is set for."""

    seen: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Mapping[str, float], *, warm: bool) -> None:
        """Prints a run, and keeps it if it is a warm one."""
        line = "  ".join(f"{name} {value:.1f}" for name, value in figures.items())
        print(f"    {'warm' if warm else 'cold'} {line}", flush=True)
        if warm:
            for name, value in figures.items():
                self.seen.setdefault(name, []).append(value)

    def verdict(self, most_seconds: float) -> int:
        """Prints the medians; 0 if a cycle's is within the goal."""
        for name, values in self.seen.items():
            low, middle, high = min(values), statistics.median(values), max(values)
            print(f"    {name:<12}{low:6.2f} / {middle:.2f} / {high:.2f} s (min, median, max)")
        return 0 if statistics.median(self.seen["cycle"]) <= most_seconds else 1
