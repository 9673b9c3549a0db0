"""Reading in ranges gives what reading everything gives, whatever the files look like."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from evenkeel.lake.record import Record, read_attempts, read_cycles, read_rows
from tests.examples import at_most
from tests.lakes.plausible import HOT, LAB, A, add_first_plan_sent, bundle_load
from tests.lakes.small_lake import SmallLake, moment

START = moment("2026-11-20T23:50:00")
GAPS = (0, 61.000_400, 0.000_300, 3600, 59.999_999, 86_400, 1)
MOMENTS = [START + timedelta(seconds=sum(GAPS[: n + 1])) for n in range(len(GAPS))]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cycles of two clusters at uneven moments; the first are compacted into one file, as upkeep does."""
    root = tmp_path_factory.mktemp("uneven")
    lake = SmallLake(root)
    for number, at in enumerate(MOMENTS):
        for cluster in ("lab", "odd/ =%2F"):
            lake.add(cluster, at, {"bundle_load": [bundle_load(HOT, A, float(number))]})
        if number == 3:
            DeltaTable(str(root / "cycles")).optimize.compact()
            DeltaTable(str(root / "bundle_load")).optimize.compact()
    return root


@given(offset=st.sampled_from([-2, 0, 2]), index=st.integers(0, len(MOMENTS) - 1), steps=st.integers(-3, 3))
@at_most(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_cycle_in_force_is_the_newest_one_by_then(uneven: Path, offset: int, index: int, steps: int) -> None:
    at = MOMENTS[index] + timedelta(microseconds=offset * 100, seconds=steps)
    record = Record(uneven)
    for cluster in record.clusters():
        before, after = record.in_force(cluster, at), record.following(cluster, at)
        assert (before and before.cycle_at) == max((m for m in MOMENTS if m <= at), default=None)
        assert (after and after.cycle_at) == min((m for m in MOMENTS if m > at), default=None)


def test_ranges_hold_both_ends_and_the_attempts_that_count(uneven: Path) -> None:
    record = Record(uneven)
    found = record.cycles("lab", MOMENTS[1], MOMENTS[4])
    assert [one.attempt_id for one in found] == [a.attempt_id for a in read_cycles(uneven, cluster="lab")[1:5]]


def test_rows_are_those_that_the_manifests_list(uneven: Path) -> None:
    record = Record(uneven)
    for cluster in record.clusters():
        cycles = record.cycles(cluster, MOMENTS[0], MOMENTS[-1])
        found = record.rows(cycles, "bundle_load")
        assert found == {one.attempt_id: read_rows(uneven, one, "bundle_load") for one in cycles}
        throughputs = [found[one.attempt_id][0]["used_msg_throughput_in"] for one in cycles]
        assert throughputs == [n / 2 for n in range(len(MOMENTS))]


def test_rows_without_a_manifest_are_not_read(uneven: Path, tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.add("lab", START, {"bundle_load": [bundle_load(HOT, A, 1.0)]})
    stamp = {"cluster": "lab", "cycle_at": START, "cycle_date": START.date(), "write_id": "killed"}
    small.append("bundle_load", [{**bundle_load(HOT, A, 2.0), **stamp}])
    record = Record(tmp_path)
    (attempt,) = record.cycles("lab", START, START)
    assert len(record.rows([attempt], "bundle_load")[attempt.attempt_id]) == 1


def test_the_plan_that_was_sent_counts_in_a_range_too(lake: Path, tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    add_first_plan_sent(small, START)
    assert [a.plan_id for a in Record(tmp_path).cycles("lab", START, START)] == ["first"]


def test_every_attempt_of_a_plausible_lake_is_found_in_its_own_moment(lake: Path) -> None:
    record = Record(lake)
    for attempt in read_attempts(lake, cluster=LAB):
        assert record.attempts(LAB, attempt.cycle_at, attempt.cycle_at) == [attempt]
    assert record.newest_row_at("bundle_load", LAB) <= datetime.fromisoformat("2026-11-21T08:31:23.372+00:00")
    assert record.dates("bundle_load", LAB) == [moment("2026-11-21").date()]
    assert record.dates("no_such_table", LAB) == []


def test_rows_that_are_left_are_counted(uneven: Path, lake: Path) -> None:
    record = Record(uneven)
    cycles = record.cycles("lab", MOMENTS[0], MOMENTS[-1])
    assert set(record.counts(cycles, "bundle_load").values()) == {1}
    assert set(record.counts(cycles, "broker_load").values()) == {0}
    for attempt in read_cycles(lake, cluster=LAB):
        (listed,) = [write.rows for write in attempt.writes_of("cluster_policies")]
        assert Record(lake).counts([attempt], "cluster_policies") == {attempt.attempt_id: listed}
