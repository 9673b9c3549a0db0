"""Every page of the desk, from a lake in a folder and from the same lake in an object store, in turns.

`python -m benchmarks pages_in_store [--rounds 7] [--lake DIR] [--cluster NAME] [--far MILLISECONDS]`. The pages come
from the reader's process, as Airflow starts it. *First*: of a reader that has just begun. *Further*: with whatever it
keeps at hand. The store is the stand-in of the tests, on loopback, over a folder. Without `--lake` a day of a synthetic
cluster of 476 bundles is written. Goal: no page more than three times as long, first and further, or below 50 ms.

`--far`: each request waits so much longer, in a proxy that counts them; no goal is set then.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.in_store import far_store
from benchmarks.machine import description
from tests.object_store.stores import Store, running_store
from tests.plugins.warm_lake import CLUSTER, warm_lake

MOST_RATIO = 3.0
LONGEST_S = 300.0
"""What is to be measured is not ended."""
LITTLE_S = 0.05
"""Who is answered within so long does not wait, however much shorter a folder takes."""
_NUMBERS = frozenset({"lower", "upper", "first", "to", "at"})
PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per page; 0 if the goal was met by all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pages_in_store")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--lake", type=Path, metavar="DIR")
    parser.add_argument("--cluster", default=CLUSTER)
    parser.add_argument("--far", type=float, metavar="MILLISECONDS")
    given = parser.parse_args(list(arguments))
    print(f"  {description()}", flush=True)
    sys.path.insert(0, str(PLUGINS))
    with tempfile.TemporaryDirectory(prefix="evenkeel-pages-") as name, ExitStack() as opened:
        folder = Path(name)
        os.environ.setdefault("AIRFLOW_HOME", f"{folder}/airflow")
        lake = given.lake or warm_lake(folder / "lake", scale=4)
        store = opened.enter_context(running_store(folder / "store", build=True))
        files = _upload(store, lake)
        proxy = None if given.far is None else opened.enter_context(far_store(store, given.far / 1000))
        os.environ.update(store.variables(None if proxy is None else proxy.url))
        print(f"  {files} files in the store; {description().rpartition(', ')[2]}", flush=True)
        count: Callable[[], int] = (lambda: 0) if proxy is None else proxy.count
        seen = Pages(given.cluster, count)
        for _ in range(given.rounds):
            seen.round("folder", str(lake))
            seen.round("store", store.lake("lake"))
        return seen.verdict(is_near=proxy is None)


def _upload(store: Store, lake: Path) -> int:
    client = store.client()
    files = [file for file in sorted(lake.rglob("*")) if file.is_file() and not file.name.endswith(".crc")]
    for file in files:
        client.upload_file(str(file), store.bucket, f"lake/{file.relative_to(lake)}")
    return len(files)


class Pages:
    """The pages, and what each took: seconds and requests, by page, place, and whether it was the first look."""

    def __init__(self, cluster: str, requests: Callable[[], int]) -> None:
        from evenkeel_page.pages import _PAGES

        self.asked: dict[str, dict[str, Any]] = {
            "clusters": {},
            "cycles": {},
            "cycle": {"cluster": cluster, "at": "latest"},
            "settings": {"show": "all"},
            "proof": {},
            "heat": {"cluster": cluster},
            "heat_picture": {"cluster": cluster, "metric": "byte_rate"},
            "heat_why": {},
        }
        self.left_out = sorted(set(_PAGES) - set(self.asked))
        self._requests = requests
        self.seen: dict[tuple[str, str, bool], list[tuple[float, int]]] = {}

    def round(self, place: str, lake: str) -> None:
        """A new reader makes each page, and makes it again."""
        from evenkeel_page.reader import Job, Reader

        with _reader(Reader) as reader:
            self.asked["heat_why"] = self.asked["heat_why"] or self._hottest_cell(lake)
            for is_first in (True, False):
                for page, arguments in self.asked.items():
                    job = Job(page, lake, arguments)
                    before, began = self._requests(), time.perf_counter()
                    found = reader.ask(job)
                    cost = (time.perf_counter() - began, self._requests() - before)
                    assert found.status == 200, (page, place, found.status, found.body[-300:])
                    self.seen.setdefault((page, place, is_first), []).append(cost)

    def _hottest_cell(self, lake: str) -> dict[str, Any]:
        """The cell that the table of the heat map names first."""
        from evenkeel_page.pages import answer
        from evenkeel_page.reader import Job

        link = re.search(r'href="(heat/why[^"]+)"', answer(Job("heat", lake, self.asked["heat"])).body)
        assert link is not None, "the table of the heat map leads nowhere"
        words = {name: one[0] for name, one in parse_qs(urlsplit(html.unescape(link[1])).query).items()}
        words["first"] = words.pop("from")
        return {name: int(word) if name in _NUMBERS else word for name, word in words.items()}

    def verdict(self, *, is_near: bool) -> int:
        """Prints the medians; 0 where no goal is set or each page met it."""
        missed = 0
        print(f"    {'page':<16}{'':<9}{'folder':>10}{'store':>10}{'ratio':>8}{'' if is_near else '  requests'}")
        for page in self.asked:
            for is_first in (True, False):
                (near, _), (there, requests) = (
                    [statistics.median(one) for one in zip(*self.seen[page, place, is_first], strict=True)]
                    for place in ("folder", "store")
                )
                is_late = there > max(MOST_RATIO * near, LITTLE_S)
                missed += is_late
                print(
                    f"    {page:<16}{'first' if is_first else 'further':<9}{near:>8.3f} s{there:>8.3f} s"
                    f"{there / near:>8.2f}{'' if is_near else f'  {requests:,.0f}'}{'  missed' if is_late else ''}",
                    flush=True,
                )
        if self.left_out:
            print(f"    not measured: {', '.join(self.left_out)}")
        return int(is_near and missed > 0)


@contextmanager
def _reader(kind: Any) -> Iterator[Any]:
    reader = kind(longest=LONGEST_S)
    try:
        reader.start()
        time.sleep(2)  # its start is not of a page
        yield reader
    finally:
        reader.close()
