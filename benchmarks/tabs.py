"""Airflow with ten tabs of the desk open, and without, in turns: how much longer do its own answers take?

`python -m benchmarks tabs [--turns 3] [--seconds 40] [--lake DIR] [--cluster NAME]`. A real Airflow (scheduler, DAG
processor, API server) on loopback; one client asks what its own pages ask: the runs of a DAG, the list of DAGs, the
dashboard's figures. The tabs are loaded anew at the beginning of each turn and go on as the pages' scripts do: three
of the clusters and three of a cycle that renew themselves with ETag, four of the heat map with their picture. The
clients run in this process, so what they cost lies on both sides alike or speaks against the tabs. Without `--lake`
a day of a synthetic cluster of 476 bundles is written. Goal: the 95th percentile at most 1.25 times as long.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from benchmarks.machine import description
from devtools.local_airflow.home import Wiring
from devtools.local_airflow.rest import Rest
from devtools.local_airflow.service import DAG_ID, airflow_for
from tests.plugins.warm_lake import CLUSTER, warm_lake

MOST_RATIO = 1.25
RUNS = 40
PAUSE_S = 0.05
"""Between two questions of the client whose answers are measured."""
CLUSTERS_EVERY_S, CYCLE_EVERY_S, HEAT_EVERY_S = 30.0, 7.0, 60.0
CHECKOUT = Path(__file__).resolve().parent.parent
_DAY = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2099-01-01T00:00:00Z"}
ASKED = (
    f"/api/v2/dags/{DAG_ID}/dagRuns?limit=50&order_by=-run_after",
    "/ui/dags?limit=20",
    "/ui/dashboard/dag_stats",
    f"/ui/dashboard/historical_metrics_data?{urlencode(_DAY)}",
    "/api/v2/monitor/health",
)


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per question; 0 if the goal was met by all of them together."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tabs")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--lake", type=Path, metavar="DIR")
    parser.add_argument("--cluster", default=CLUSTER)
    given = parser.parse_args(list(arguments))
    print(f"  {description()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-tabs-") as folder:
        lake = given.lake or warm_lake(Path(folder) / "lake", scale=4)
        wiring = Wiring(CHECKOUT, "sc://127.0.0.1:1", str(lake))
        with airflow_for(Path(folder) / "airflow", wiring) as airflow:
            airflow.rest.patch(f"/api/v2/dags/{DAG_ID}", {"is_paused": True})
            for _ in range(RUNS):
                airflow.rest.trigger(DAG_ID, logical_date=None, conf={})
            return _in_turns(airflow.rest, given.cluster, given.turns, given.seconds)


def _in_turns(rest: Rest, cluster: str, turns: int, seconds: float) -> int:
    token, seen = rest.token(), Seen()
    _ask_for(rest.url, token, 10.0, Seen())  # whatever is made once is made before
    for turn in range(turns):
        without = _ask_for(rest.url, token, seconds, Seen())
        with _tabs(rest.url, token, cluster) as told:
            beside = _ask_for(rest.url, token, seconds, Seen())
        seen.add(without, beside)
        print(
            f"    turn {turn + 1}: p95 {_p95(without.all()):.0f} ms without, {_p95(beside.all()):.0f} ms with; of the "
            f"desk {told.answers} answers, {told.kept} of them unchanged, {told.refused} refused; "
            f"{told.megabytes:.1f} MB; {description().rpartition(', ')[2]}",
            flush=True,
        )
    return seen.verdict()


@dataclass
class Seen:
    """Milliseconds by question; `beside`: with tabs open."""

    took: dict[str, list[float]] = field(default_factory=dict)
    beside: dict[str, list[float]] = field(default_factory=dict)

    def all(self) -> list[float]:
        """Of all questions."""
        return [one for values in self.took.values() for one in values]

    def add(self, without: Seen, beside: Seen) -> None:
        """Takes up a turn."""
        for name in ASKED:
            self.took.setdefault(name, []).extend(without.took[name])
            self.beside.setdefault(name, []).extend(beside.took[name])

    def verdict(self) -> int:
        """Prints what it came to; 0 if all questions together met the goal."""
        print(f"    {'question':<58}{'asked':>7}{'p50':>8}{'p95':>8}{'with: p50':>11}{'p95':>8}{'p95 ratio':>11}")
        every = ("all", self.all(), [one for values in self.beside.values() for one in values])
        lines = [(name.partition("?")[0], self.took[name], self.beside[name]) for name in ASKED]
        ratio = 0.0
        for name, without, beside in (*lines, every):
            ratio = _p95(beside) / _p95(without)
            print(
                f"    {name:<58}{len(without):>7}{statistics.median(without):>8.1f}{_p95(without):>8.1f}"
                f"{statistics.median(beside):>11.1f}{_p95(beside):>8.1f}{ratio:>11.2f}",
                flush=True,
            )
        return int(ratio > MOST_RATIO)


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _ask_for(url: str, token: str, seconds: float, seen: Seen) -> Seen:
    """Asks one question after the other, each as often, for so long."""
    client, until = Client(url, token), time.monotonic() + seconds
    while time.monotonic() < until:
        for name in ASKED:
            began = time.perf_counter()
            status, _, _ = client.get(name)
            seen.took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
            assert status == 200, (name, status)
            time.sleep(PAUSE_S)
    return seen


class Client:
    """A browser's connection, which is kept and made again where it was closed."""

    def __init__(self, url: str, token: str) -> None:
        self._place, self._token = urlsplit(url).netloc, token
        self._connection = http.client.HTTPConnection(self._place, timeout=60)

    def get(self, path: str, tag: str = "") -> tuple[int, str, int]:
        """Status, ETag and bytes on the wire."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "gzip"}
        if tag:
            headers["If-None-Match"] = tag
        try:
            self._connection.request("GET", path, headers=headers)
            answer = self._connection.getresponse()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            self._connection = http.client.HTTPConnection(self._place, timeout=60)
            self._connection.request("GET", path, headers=headers)
            answer = self._connection.getresponse()
        return answer.status, answer.getheader("ETag") or "", len(answer.read())


@dataclass
class Told:
    """What tabs were answered: how often, how often with 304, how often with 503 or 504, and bytes on the wire."""

    answers: int = 0
    kept: int = 0
    refused: int = 0
    megabytes: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, status: int, size: int) -> None:
        """Counts an answer."""
        with self.lock:
            self.answers += 1
            self.kept += status == 304
            self.refused += status in (503, 504)
            self.megabytes += size / 1e6
        assert status in (200, 304, 503, 504), status


@contextmanager
def _tabs(url: str, token: str, cluster: str) -> Iterator[Told]:
    """Ten tabs, for a `with` block."""
    told, closed = Told(), threading.Event()
    named = urlencode({"cluster": cluster})
    kinds: list[tuple[int, tuple[str, ...], float]] = [
        (3, ("/evenkeel/",), CLUSTERS_EVERY_S),
        (3, (f"/evenkeel/cycle?{named}&at=latest",), CYCLE_EVERY_S),
        (4, (f"/evenkeel/heat?{named}", f"/evenkeel/heat/picture?{named}"), HEAT_EVERY_S),
    ]
    works = [_tab(url, token, pages, every, told, closed) for count, pages, every in kinds for _ in range(count)]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    yield told
    closed.set()
    for thread in threads:
        thread.join(60)


def _tab(
    url: str, token: str, pages: Sequence[str], every: float, told: Told, closed: threading.Event
) -> Callable[[], None]:
    def work() -> None:
        client, tags = Client(url, token), dict.fromkeys(pages, "")
        while not closed.is_set():
            refused = False
            for page in pages:
                status, tag, size = client.get(page, tags[page])
                tags[page] = tag or tags[page]
                told.note(status, size)
                refused |= status in (503, 504)
            closed.wait(3.0 if refused else every)

    return work
