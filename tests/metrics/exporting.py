"""An exporter of a lake in this process, or as a process of its own, and what a scrape of it says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from evenkeel.metrics.exporter import MetricsServer, Watched
from evenkeel.secret import Secret
from tests.serving import serving

Scraped = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(text: str) -> Scraped:
    """Name and labels of each sample -> its value."""
    found: Scraped = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def value_of(found: Scraped, name: str, **labels: str) -> float | None:
    """The value of a sample; None where there is none."""
    return found.get((name, frozenset(labels.items())))


@contextmanager
def exporting(watch: Watched, token: Secret | None = None, connection_seconds: float = 20.0) -> Iterator[str]:
    """The URL of an exporter of what was read last; the test itself reads the lake."""
    server = MetricsServer(("127.0.0.1", 0), watch, token)
    server.connection_seconds = connection_seconds
    with serving(server) as port:
        yield f"http://127.0.0.1:{port}"


class Exporter(NamedTuple):
    """`evenkeel metrics` as a process: where it serves, and its process id."""

    url: str
    pid: int


@contextmanager
def exporter(lake: Path | None, *more: str, log: Path) -> Iterator[Exporter]:
    """Runs `evenkeel metrics` as a process, whose standard error goes to a file; without a lake over those that are
    configured."""
    words = [sys.executable, "-m", "evenkeel.cli", "metrics", "--listen", "127.0.0.1:0", *more]
    words += [] if lake is None else ["--lake", str(lake)]
    with log.open("w") as err:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=err, text=True, env={**os.environ})
    assert process.stdout is not None
    try:
        yield Exporter(process.stdout.readline().strip(), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        process.stdout.close()


def scrape(url: str, **headers: str) -> Scraped:
    """What a scrape of an address says."""
    answer = httpx.get(url, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return scraped(answer.text)
