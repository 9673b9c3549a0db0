"""Airflow with ten tabs of the desk open, and without, in turns: how much longer do its own answers take?

`python -m benchmarks tabs [--turns 3] [--seconds 40] [--lake DIR] [--cluster NAME]`. A real Airflow (scheduler, DAG
processor, API server) on loopback; one client asks what its own pages ask: the runs of a DAG, the list of DAGs, the
dashboard's figures. A turn has three parts: no tab; ten tabs that are opened at once, until each has its page; the
same tabs open, which go on as the pages' scripts do: three of the clusters and three of a cycle that renew themselves
with ETag, four of the heat map with their picture. The clients run in this process, so what they cost lies on both
sides alike or speaks against the tabs. Without `--lake` a day of a synthetic cluster of 476 bundles is written. Goal:
with open tabs the 95th percentile is at most 1.25 times as long. What opening ten at once costs is told beside it.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
TABS = 10
REFUSED = (503, 504)
OPENED_WITHIN_S = 120.0
AGAIN_S = 3.0
"""A browser's patience where the queue is full: what `Retry-After` says."""
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
            began = time.monotonic()
            opening = _ask_for(rest.url, token, OPENED_WITHIN_S, Seen(), told.are_open)
            took = time.monotonic() - began
            beside = _ask_for(rest.url, token, seconds, Seen())
        seen.add(without, opening, beside)
        print(
            f"    turn {turn + 1}: p95 {_p95(without.all()):.0f} ms without, {_p95(opening.all()):.0f} ms while tabs "
            f"are opened ({took:.0f} s), {_p95(beside.all()):.0f} ms with them open; of the desk {told.answers} "
            f"answers, {told.kept} of them unchanged, {told.refused} refused; {told.megabytes:.1f} MB; "
            f"{description().rpartition(', ')[2]}",
            flush=True,
        )
    return seen.verdict()


@dataclass
class Seen:
    """Milliseconds by question; `opening`: while tabs are opened; `beside`: with them open."""

    took: dict[str, list[float]] = field(default_factory=dict)
    opening: dict[str, list[float]] = field(default_factory=dict)
    beside: dict[str, list[float]] = field(default_factory=dict)

    def all(self) -> list[float]:
        """Of all questions."""
        return _all(self.took)

    def add(self, without: Seen, opening: Seen, beside: Seen) -> None:
        """Takes up a turn."""
        for name in ASKED:
            self.took.setdefault(name, []).extend(without.took[name])
            self.opening.setdefault(name, []).extend(opening.took[name])
            self.beside.setdefault(name, []).extend(beside.took[name])

    def verdict(self) -> int:
        """Prints what it came to; 0 if all questions together met the goal."""
        print(f"    {'question':<44}{'asked':>6}{'p50':>7}{'p95':>7}{'opening: p95':>14}{'open: p50':>11}{'p95':>7}")
        lines = [(name.partition("?")[0], self.took[name], self.opening[name], self.beside[name]) for name in ASKED]
        lines.append(("all", self.all(), _all(self.opening), _all(self.beside)))
        ratio = 0.0
        for name, without, opening, beside in lines:
            ratio, opened = _p95(beside) / _p95(without), _p95(opening) / _p95(without)
            print(
                f"    {name:<44}{len(without):>6}{statistics.median(without):>7.1f}{_p95(without):>7.1f}"
                f"{_p95(opening):>7.1f} {opened:>4.2f} x{statistics.median(beside):>11.1f}{_p95(beside):>7.1f} "
                f"{ratio:>4.2f} x",
                flush=True,
            )
        return int(ratio > MOST_RATIO)


def _all(values: Mapping[str, Sequence[float]]) -> list[float]:
    return [one for some in values.values() for one in some]


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _ask_for(url: str, token: str, seconds: float, seen: Seen, is_enough: Callable[[], bool] = lambda: False) -> Seen:
    """Asks one question after the other, each as often, for so long or until it is enough; each twice at least."""
    client, until = Client(url, token), time.monotonic() + seconds
    while time.monotonic() < until and not (is_enough() and len(seen.all()) >= 2 * len(ASKED)):
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
    """What the tabs were answered: how often, how often with 304, how often with 503 or 504, and bytes on the wire;
    and how many of them have been `opened`."""

    opened: int = 0
    answers: int = 0
    kept: int = 0
    refused: int = 0
    megabytes: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, status: int, tag: str, size: int) -> int:
        """Counts an answer, and gives its status."""
        with self.lock:
            self.answers += 1
            self.kept += status == 304
            self.refused += status in REFUSED
            self.megabytes += size / 1e6
        assert status in (200, 304, *REFUSED), (status, tag)
        return status

    def note_open(self) -> None:
        """Counts a tab that has all it asked for."""
        with self.lock:
            self.opened += 1

    def are_open(self) -> bool:
        """Whether every tab has been opened."""
        return self.opened == TABS


@contextmanager
def _tabs(url: str, token: str, cluster: str) -> Iterator[Told]:
    """Ten tabs, for a `with` block."""
    told, closed = Told(), threading.Event()
    named = urlencode({"cluster": cluster})
    map_of = (f"/evenkeel/heat/picture?{named}",)
    kinds: list[tuple[int, tuple[str, ...], tuple[str, ...], float]] = [
        (3, ("/evenkeel/",), ("/evenkeel/",), CLUSTERS_EVERY_S),
        (3, (f"/evenkeel/cycle?{named}&at=latest",), (f"/evenkeel/cycle-commands?{named}&at=latest",), CYCLE_EVERY_S),
        (4, (f"/evenkeel/heat?{named}", *map_of), map_of, HEAT_EVERY_S),
    ]
    works = [
        _tab(Client(url, token), first, renewed, every, told, closed)
        for count, first, renewed, every in kinds
        for _ in range(count)
    ]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    yield told
    closed.set()
    for thread in threads:
        thread.join(60)


def _tab(
    client: Client, first: Sequence[str], renewed: Sequence[str], every: float, told: Told, closed: threading.Event
) -> Callable[[], None]:
    """A tab: what it asks for at `first`, again where it is refused, and then what it renews."""

    def work() -> None:
        tags: dict[str, str] = {}
        for page in first:
            while not closed.is_set() and told.note(*client.get(page)) in REFUSED:
                closed.wait(AGAIN_S)
        told.note_open()
        while not closed.wait(every):
            for page in renewed:
                status, tag, size = client.get(page, tags.get(page, ""))
                tags[page] = tag or tags.get(page, "")
                told.note(status, tag, size)

    return work
