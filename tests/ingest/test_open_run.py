"""How a run opens the cycles of running clusters: all at the same time, once a moment, or left out."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.handover import FAILED, OPEN, SKIPPED
from evenkeel.ingest.open_run import CycleRequest, check, cycles_of
from evenkeel.pulsar.admin import authentication
from evenkeel.pulsar.admin.connection import Credentials
from evenkeel.secret import Secret
from evenkeel.sources import collecting
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import Answer, Asked, SimulatedCluster

TOKEN = "t0k3n-of-the-test"
RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "lost-modular"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2, token=TOKEN) as running:
        yield running


def request_for(folder: Path, *tables: str, **more: str) -> CycleRequest:
    file = folder / "clusters.toml"
    file.write_text("\n".join(tables), encoding="utf-8")
    return CycleRequest(lake=str(folder / "lake"), configuration=str(file), **more)


def running(name: str, cluster: SimulatedCluster, more: str = 'connection = "any"') -> str:
    return f'[clusters.{name}]\nadmin = "{cluster.url}"\n{more}'


def credentials(_: str) -> Credentials:
    return Credentials(authentication.token(Secret(TOKEN)))


def now() -> str:
    return datetime.now(UTC).replace(microsecond=0).isoformat(timespec="microseconds")


def test_a_recording_that_cannot_be_read_stops_no_other_cluster(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "0000.json").write_text('{"format": 1, "note": ' + "[" * 100_000 + "]" * 100_000 + "}")
    tables = (
        f'[clusters.deep]\nrecording = "{deep}"',
        f'[clusters.gone]\nrecording = "{tmp_path / "gone"}"',
        f'[clusters.recorded]\nrecording = "{RECORDING}"',
    )
    for at in (now(), None):
        request = request_for(tmp_path, *tables, **({"at": at} if at else {}))
        check(request)
        cycles = {cycle.cluster: cycle for cycle in cycles_of(request)}
        assert {name: cycle.status for name, cycle in cycles.items()} == {
            "deep": SKIPPED, "gone": SKIPPED, "recorded": OPEN,
        }  # fmt: skip
        assert {cycle.source for cycle in cycles.values()} == {"recording"}
        assert "it has no snapshot: no recording at" in str(cycles["gone"].reason)
        assert "the folder does not exist" in str(cycles["gone"].reason)
        assert "no readable snapshot" in str(cycles["deep"].reason)


def test_where_no_cluster_can_be_had_the_first_error_is_raised_before_anything_starts(tmp_path: Path) -> None:
    tables = [f'[clusters.{name}]\nrecording = "{tmp_path / name}"' for name in ("one", "two")]
    with pytest.raises(BadInput, match=r"no recording at .*one: the folder does not exist"):
        check(request_for(tmp_path, *tables))
    with pytest.raises(BadInput, match=r"no recording at .*one: the folder does not exist"):
        cycles_of(request_for(tmp_path, tables[0]))


def test_one_that_cannot_be_observed_is_left_out_and_the_others_go_on(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    with SimulatedCluster(sized(Size(1, 1, 1)), 1) as gone:
        dead = running("dead", gone)
    at = now()
    request = request_for(
        tmp_path,
        running("east", cluster),
        dead,
        running("stranger", cluster, ""),
        running("unnamed", cluster, 'connection = "unnamed"'),
        f'[clusters.recorded]\nrecording = "{RECORDING}"',
        at=at,
    )
    known = {"any": Credentials(authentication.token(Secret(TOKEN)))}
    cycles = {cycle.cluster: cycle for cycle in cycles_of(request, known.get)}
    assert {name: cycle.status for name, cycle in cycles.items()} == {
        "dead": SKIPPED, "east": OPEN, "recorded": OPEN, "stranger": SKIPPED, "unnamed": FAILED,
    }  # fmt: skip
    assert {cycle.cycle_at for name, cycle in cycles.items() if name != "recorded"} == {at}
    assert {name: cycle.source for name, cycle in cycles.items()}["east"] == "pulsar-admin"
    assert "the cluster was not observed" in str(cycles["dead"].reason)
    assert "check host and port" in str(cycles["dead"].reason)
    assert "the token (or password) is missing, wrong or expired" in str(cycles["stranger"].reason)
    assert "set EVENKEEL_TOKEN_UNNAMED" in str(cycles["unnamed"].reason)
    assert Path(cycles["east"].snapshot.path).parent == tmp_path / "landing/east"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["clusters.toml", "landing"]


HALF = '["acme/\\ud800"]'


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/brokers$", Answer(429, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 -2300"})),
        ("/brokers$", Answer(429, headers={"Retry-After": "\xb2"})),
        ("/brokers$", Answer(200, '["\\ud800:8080"]')),
        ("/brokers$", Answer(200, "[1, null, [], {}]")),
        ("/clusters$", Answer(200, '["\\ud800"]')),
        ("/tenants$", Answer(200, '["\\ud800"]')),
        ("/namespaces/[^/]*$", Answer(200, HALF)),
        ("ownedNamespaces$", Answer(200, '{"acme/\\ud800/0x00000000_0xffffffff": {}}')),
    ],
    ids=lambda value: value if isinstance(value, str) else (value.headers or value.body),
)
def test_names_and_headers_of_no_use_stop_no_other_cluster(
    path: str, answer: Answer, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2, token=TOKEN) as odd:
        odd.fault(path, answer)
        request = request_for(tmp_path, running("odd", odd), running("east", cluster), at=now())
        cycles = {cycle.cluster: cycle for cycle in cycles_of(request, credentials)}
    assert cycles["east"].status == OPEN
    assert cycles["odd"].status in (OPEN, SKIPPED)
    assert str(cycles["odd"].reason).isascii()


def test_an_error_that_nobody_foresaw_leaves_out_its_cluster_alone(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = collecting.take_snapshot

    def fails_for_one(client: Any, writer: Any, *given: Any, **more: Any) -> Any:
        if "odd" in str(writer.place):
            raise ZeroDivisionError("of \ud800")
        return observe(client, writer, *given, **more)

    monkeypatch.setattr(collecting, "take_snapshot", fails_for_one)
    request = request_for(tmp_path, running("odd", cluster), running("east", cluster), at=now())
    cycles = {cycle.cluster: cycle for cycle in cycles_of(request, credentials)}
    assert {name: cycle.status for name, cycle in cycles.items()} == {"east": OPEN, "odd": FAILED}
    assert cycles["odd"].reason == "the cluster was not observed: ZeroDivisionError: of \\ud800"


def test_a_run_repeated_reads_what_it_landed_and_needs_no_cluster(cluster: SimulatedCluster, tmp_path: Path) -> None:
    request = request_for(tmp_path, running("east", cluster), at=now())
    first = cycles_of(request, credentials)
    asked = len(cluster.seen)
    cluster.close()
    assert cycles_of(request, lambda _: None) == first
    assert len(cluster.seen) == asked


def test_without_a_moment_it_is_now_to_the_second(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (cycle,) = cycles_of(request_for(tmp_path, running("east", cluster)), credentials)
    assert cycle.at.microsecond == 0
    assert abs(cycle.at - datetime.now(UTC)) < timedelta(seconds=30)


def test_a_backfill_reads_what_was_landed_and_never_asks(cluster: SimulatedCluster, tmp_path: Path) -> None:
    request = request_for(tmp_path, running("east", cluster), at=now())
    live = cycles_of(request, credentials)
    asked = len(cluster.seen)
    assert cycles_of(replace(request, kind="backfill"), credentials) == live
    earlier = datetime.fromisoformat(str(request.at)) - timedelta(minutes=5)
    (missing,) = cycles_of(replace(request, kind="backfill", at=earlier.isoformat()), credentials)
    assert missing.status == SKIPPED
    assert f"the nearest are {request.at}" in str(missing.reason)
    assert len(cluster.seen) == asked


def test_a_task_that_only_puts_a_failure_on_record_asks_no_cluster(cluster: SimulatedCluster, tmp_path: Path) -> None:
    request = request_for(tmp_path, running("east", cluster), at=now())
    (cycle,) = cycles_of(request, credentials, may_observe=False)
    assert cycle.status == SKIPPED
    assert cluster.seen == []


def test_a_past_moment_is_not_observed(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (cycle,) = cycles_of(request_for(tmp_path, running("east", cluster), at="2026-01-01T00:00:00Z"), credentials)
    assert cycle.status == SKIPPED
    assert "cannot be observed" in str(cycle.reason)
    assert cluster.seen == []


def test_a_moment_to_come_is_refused_before_anything_is_on_record(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """On record it would be the newest cycle until then, and no other one of the cluster could be carried out."""
    late = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    request = request_for(
        tmp_path, running("east", cluster), f'[clusters.recorded]\nrecording = "{RECORDING}"', at=late
    )
    with pytest.raises(
        BadInput, match=r"is still to come, in 576,000 min by the clock of this machine: nothing was put"
    ):
        cycles_of(request, credentials)
    assert cluster.seen == []
    (recorded,) = cycles_of(replace(request, clusters=("recorded",)))
    assert recorded.status == OPEN, "a recording is of its own time"


def test_clusters_are_observed_at_the_same_time(cluster: SimulatedCluster, tmp_path: Path) -> None:
    meeting = Barrier(6, timeout=10)

    def wait_for_the_others(_: Asked) -> Answer:
        meeting.wait()
        return Answer(401)

    cluster.fault("/brokers$", wait_for_the_others)
    tables = [running(f"c{number}", cluster) for number in range(6)]
    cycles = cycles_of(request_for(tmp_path, *tables), credentials)
    assert ["answered 401" in str(cycle.reason) for cycle in cycles] == [True] * 6


def test_the_token_is_in_nothing_that_is_handed_on(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault("/brokers$", Answer(500, f"Bearer {TOKEN}"))
    (cycle,) = cycles_of(request_for(tmp_path, running("east", cluster)), credentials)
    assert cycle.status == SKIPPED
    assert TOKEN not in repr(cycle)


def test_a_backfills_moment_without_a_snapshot_of_its_own_is_on_record_as_skipped(tmp_path: Path) -> None:
    """The recording has 08:35:07, 08:35:36 and 08:35:41; none between 08:36 and 08:37."""
    recording = f"recording:{Path(__file__).resolve().parent.parent / 'recordings' / 'lost-modular'}"
    request = CycleRequest(str(tmp_path), source=recording, kind="backfill", at="2026-11-21T08:36:00+00:00")
    (first,) = cycles_of(replace(request, after="2026-11-21T08:35:00+00:00"))
    assert (first.status, first.cycle_at) == ("open", "2026-11-21T08:35:41.110000+00:00")
    (second,) = cycles_of(replace(request, after=request.at, at="2026-11-21T08:37:00+00:00"))
    assert (second.status, second.cycle_at) == ("skipped", "2026-11-21T08:37:00.000000+00:00")
    assert "no snapshot after 2026-11-21T08:36:00+00:00" in str(second.reason)
    assert "2026-11-21T08:35:41.110000+00:00" in str(second.reason)
