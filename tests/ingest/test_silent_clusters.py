"""Clusters that do not answer, over real sockets: each is skipped in the end, and no other waits for it.

Test plan: what is silent holds its answers until the test ends, or drips them, so nothing hangs on how fast this
machine is; a cluster that has to be decided may take its time (`silent_seconds` as by default).
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import pytest

from evenkeel.handover import OPEN, SKIPPED, ClusterCycle
from evenkeel.ingest.open_run import CycleRequest, cycles_of
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.rubbish import Pieces, RubbishServer, listing, of_json, trickling
from tests.pulsar.admin.simulated import SimulatedCluster

pytestmark = pytest.mark.slow

MORE_THAN_ARE_TAKEN_AT_A_TIME = 12


@pytest.fixture
def good() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2) as running:
        yield running


def held(until: Event) -> Pieces:
    """An answer of which nothing comes until then, and then none that is of use."""

    def pieces() -> Iterator[bytes]:
        until.wait()
        yield b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"

    return pieces


@pytest.fixture
def end() -> Iterator[Event]:
    over = Event()
    yield over
    over.set()


def observed(folder: Path, urls: dict[str, str], **silent_seconds: float) -> dict[str, ClusterCycle]:
    file = folder / "clusters.toml"
    tables = []
    for name, url in urls.items():
        seconds = silent_seconds.get(name)
        tables.append(f'[clusters.{name}]\nadmin = "{url}"')
        tables.append("" if seconds is None else f"silent_seconds = {seconds}")
    file.write_text("\n".join(tables), encoding="utf-8")
    at = datetime.now(UTC).replace(microsecond=0).isoformat(timespec="microseconds")
    request = CycleRequest(lake=str(folder / "lake"), configuration=str(file), at=at)
    return {cycle.cluster: cycle for cycle in cycles_of(request)}


def never(_server: RubbishServer, end: Event) -> dict[str, Pieces]:
    return {"/admin/v2/brokers": held(end)}


def dripping(_server: RubbishServer, _end: Event) -> dict[str, Pieces]:
    beginning = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n["
    return {"/admin/v2/brokers": trickling(beginning, b" ", 0.1)}


def dripping_headers(_server: RubbishServer, _end: Event) -> dict[str, Pieces]:
    return {"/admin/v2/brokers": trickling(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", 0.1)}


def after_its_list(server: RubbishServer, _end: Event) -> dict[str, Pieces]:
    return {"/admin/v2/brokers": of_json([server.id])}


def at_its_figures(server: RubbishServer, _end: Event) -> dict[str, Pieces]:
    return listing(server)


@pytest.mark.parametrize(
    "kind",
    [dripping, at_its_figures,
     *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in (never, dripping_headers, after_its_list))],
)  # fmt: skip
def test_a_silent_cluster_is_skipped_with_how_long_was_waited_and_what_to_do(
    kind: Callable[[RubbishServer, Event], dict[str, Pieces]], good: SimulatedCluster, end: Event, tmp_path: Path
) -> None:
    with RubbishServer(otherwise=held(end)) as server:
        server.answers |= kind(server, end)
        cycles = observed(tmp_path, {"hushed": server.url, "lively": good.url}, hushed=1.5)
    assert {name: cycle.status for name, cycle in cycles.items()} == {"hushed": SKIPPED, "lively": OPEN}
    reason = str(cycles["hushed"].reason)
    assert reason.startswith("the cluster was not observed: none of its brokers gave a whole answer for ")
    assert "`silent_seconds` = 1.5" in reason
    assert "raise `silent_seconds` of this cluster" in reason
    assert [entry.name for entry in (tmp_path / "landing").iterdir() if any(entry.iterdir())] == ["lively"]


@pytest.mark.parametrize("kind", [never, after_its_list])
def test_many_silent_clusters_delay_no_other(
    kind: Callable[[RubbishServer, Event], dict[str, Pieces]], good: SimulatedCluster, end: Event, tmp_path: Path
) -> None:
    landing = tmp_path / "landing" / "z-lively"

    def end_once_it_is_landed() -> None:
        while not any(entry.name[0].isdigit() for entry in landing.glob("*")):
            time.sleep(0.02)
        end.set()

    names = [f"hushed-{number:02d}" for number in range(MORE_THAN_ARE_TAKEN_AT_A_TIME)]
    with RubbishServer(otherwise=held(end)) as server:
        server.answers |= kind(server, end)
        Thread(target=end_once_it_is_landed, daemon=True).start()
        urls = {**dict.fromkeys(names, server.url), "z-lively": good.url}
        cycles = observed(tmp_path, urls, **dict.fromkeys(names, 240))
    assert {name: cycle.status for name, cycle in cycles.items() if name in names} == dict.fromkeys(names, SKIPPED)
    assert cycles["z-lively"].status == OPEN
    assert not any("silent_seconds" in str(cycle.reason) for cycle in cycles.values()), "they were waited for"
