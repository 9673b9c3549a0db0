"""Two pipelines at work on one lake and one cluster, and a lake whose disk is full: nothing twice, nothing lost."""

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.handover import Handover
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.ingest.wish_intake import Maker, wish_row
from evenkeel.lake.record import read_attempts, read_cycles, read_table
from evenkeel.lake.store import Lake
from evenkeel.lake.wishes import append_wishes
from evenkeel.pipeline import DECIDING, publish, run_cycle
from evenkeel.publish.dispatch import Sending, reach_with
from evenkeel.spark.session import close, connect
from tests.planned import request
from tests.publish.acting import QUICK, LivingPulsar

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def living() -> Iterator[LivingPulsar]:
    pulsar = LivingPulsar()
    yield pulsar
    pulsar.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("apart", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_two_pipelines_that_know_nothing_of_each_other_move_each_bundle_once(
    apart: int, engine: Any, living: LivingPulsar, new_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schedulers, or two installations, decide for the same moment or a second apart."""
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    configuration = new_lake.parent / "evenkeel.toml"
    configuration.write_text(living.described())
    time.sleep(apart)
    now = datetime.now(UTC).replace(microsecond=0)

    def run(number: int) -> None:
        at = now - timedelta(seconds=apart * number)
        session = connect(engine.url, f"scheduler {number}")
        asked = CycleRequest(
            lake=str(new_lake), configuration=str(configuration), mode="auto", at=at.isoformat(), run_id=f"run{number}"
        )
        run_cycle(session, asked, lambda *_: None, Sending(reach_with(), timing=QUICK))
        close(session)

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(run, number) for number in range(2)]:
            one.result()
    moves = Counter(one[1] for one in living.effects)
    assert moves
    assert set(moves.values()) == {1}
    assert {attempt.status for attempt in read_cycles(new_lake)} <= {"closed", "withheld"}
    rows = sorted(read_table(new_lake, "outcomes"), key=lambda row: row["seen_at"])
    last = {row["command_id"]: row["outcome"] for row in rows}
    done = {row["bundle"] for row in read_table(new_lake, "commands") if last.get(row["command_id"]) == "done"}
    assert done == set(moves)
    assert main(["verify", "--lake", str(new_lake)]) == 0


def test_a_request_goes_out_once_where_two_pipelines_open_before_either_publishes(
    spark: Any, living: LivingPulsar, new_lake: Path
) -> None:
    """The bundle is moved back in between, so that a second command for it would have an effect."""
    configuration = new_lake.parent / "evenkeel.toml"
    configuration.write_text(living.described())
    now, bundle = datetime.now(UTC).replace(microsecond=0), sorted(living.owner)[0]
    namespace, _, span = bundle.rpartition("/")
    owner, destination = living.owner[bundle], next(b for b in living.brokers if b != living.owner[bundle])
    given = {"kind": "unload", "namespace": namespace, "bundle": span, "destinationBroker": destination}
    lake, maker = Lake(str(new_lake)), Maker("jo", (now - timedelta(minutes=1)).isoformat(timespec="microseconds"))
    append_wishes(spark, lake, [wish_row(given, "lab", maker)])
    handovers = []
    for number in range(2):
        at = now + timedelta(seconds=number)
        asked = CycleRequest(
            lake=str(new_lake), configuration=str(configuration), mode="auto", at=at.isoformat(), run_id=f"run{number}"
        )
        handovers.append(open_cycles(spark, asked))
    assert all(handover.cycles[0].wishes for handover in handovers)
    for handover in handovers:
        decided = handover
        for task in DECIDING:
            decided = task(spark, decided)
        publish(spark, decided, Sending(reach_with(), timing=QUICK))
        living.owner[bundle] = owner
    moves = Counter(one[1] for one in living.effects)
    assert moves[bundle] == 1
    first, second = sorted(read_cycles(new_lake), key=lambda attempt: attempt.cycle_at)
    assert (first.status, second.status) == ("closed", "withheld")
    assert "a request is carried out once" in (second.reason or "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "evenkeel-tests", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(place: Path, free: int) -> None:
    """Leaves so many bytes of the disk."""
    found = os.statvfs(place)
    (place / "ballast").write_bytes(b"\0" * max(0, found.f_bavail * found.f_frsize - free))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part", [0.3, pytest.param(0.02, marks=pytest.mark.exhaustive), pytest.param(0.8, marks=pytest.mark.exhaustive)]
)
def test_a_lake_whose_disk_is_full_says_so_and_once_there_is_room_the_run_leaves_one_set_of_rows(
    part: float,
    spark: Any,
    empty_lake: Callable[[Path], Path],
    planned_cycle: Callable[[Path], Handover],
    small_disk: Path,
    tmp_path: Path,
) -> None:
    lake, undisturbed = empty_lake(small_disk / "lake"), tmp_path / "undisturbed"
    before = _size(lake)
    publish(spark, planned_cycle(undisturbed))
    (known,) = read_attempts(undisturbed)

    fill_up(small_disk, int(part * (_size(undisturbed) - before)))
    with pytest.raises(Exception, match="No space left on device"):
        run_cycle(spark, request(lake, 0), lambda *_: None)
    assert [one for one in read_attempts(lake) if one.status == "closed"] == []

    (small_disk / "ballast").unlink()
    run_cycle(spark, request(lake, 0), lambda *_: None)
    attempt = read_attempts(lake)[-1]
    assert (attempt.plan_id, attempt.status) == (known.plan_id, "closed")
    assert len(read_cycles(lake)) == 1
    assert len(read_table(lake, "commands")) == len(read_table(undisturbed, "commands"))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
