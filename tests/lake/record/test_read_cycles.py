from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, LakeError, NoSuchCycle
from evenkeel.lake.record import find_cycles, read_attempts, read_cycles, read_rows, read_rows_of
from tests.lakes.plausible import ACTING, HOT, LAB, LAB_FIRST, SKIPPED, A, B, C, add_first_plan_sent, bundle_load
from tests.lakes.small_lake import SmallLake, moment

AT = moment("2026-11-21T08:00:00")


def test_cycles_come_by_cluster_and_time_with_their_last_status(lake: Path) -> None:
    cycles = read_cycles(lake)

    assert [(a.cluster, a.status) for a in cycles] == [
        *[("lab", "skipped" if n == SKIPPED else "closed") for n in range(8)],
        *[("spread", "closed")] * 3,
    ]


def test_the_newest_live_attempt_counts_and_a_backfill_only_where_there_is_no_other(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    for number, kind in ((1, "live"), (2, "rerun"), (3, "backfill")):
        small.add("lab", AT, {}, attempt=number, kind=kind)
    small.add("lab", AT + timedelta(minutes=1), {}, kind="backfill")

    assert [(a.number, a.kind) for a in read_cycles(tmp_path)] == [(2, "rerun"), (1, "backfill")]
    assert len(read_attempts(tmp_path)) == 4


def test_an_attempt_that_sent_commands_outranks_a_newer_one(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    add_first_plan_sent(small, AT)

    assert [a.plan_id for a in read_cycles(tmp_path)] == ["first"]


def test_rows_that_no_manifest_lists_are_not_read(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.add("lab", AT, {"bundle_load": [bundle_load(HOT, A, 1.0)]})
    killed = {"cluster": "lab", "cycle_at": AT, "cycle_date": AT.date(), "write_id": "killed"}
    small.append("bundle_load", [{**bundle_load(HOT, B, 2.0), **killed}])

    (attempt,) = read_cycles(tmp_path)
    assert [row["owner"] for row in read_rows(tmp_path, attempt, "bundle_load")] == [A]


def test_rows_of_several_attempts_are_told_apart(lake: Path) -> None:
    cycles = read_cycles(lake, cluster=LAB)
    usages = read_rows_of(lake, cycles, "broker_load", columns=["broker", "weighted_usage"])

    assert [row["weighted_usage"] for row in usages[cycles[0].attempt_id]] == [0.22, 0.19, 0.18]
    assert usages[cycles[SKIPPED].attempt_id] == []
    assert [row["broker"] for row in usages[cycles[ACTING].attempt_id]] == [A, B, C]


def test_maps_come_as_dicts_and_times_in_utc(lake: Path) -> None:
    (attempt,) = find_cycles(lake, cluster="spread")
    (policies,) = read_rows(lake, attempt, "cluster_policies")

    assert policies["failure_domains"] == {"east": [A, B], "west": [C]}
    assert policies["snapshot_finished_at"] == attempt.cycle_at


@pytest.mark.parametrize("asked", ["2026-11-21T08:26:23", "2026-11-21T08:26", "2026-11-21T08:26:23.371+00:00",
                                   "2026-11-21T08:26:23.371000Z", "2026-11-21T09:26:23+01:00"])  # fmt: skip
def test_a_cycle_is_found_by_its_time_to_the_second_or_minute(lake: Path, asked: str) -> None:
    assert [a.cycle_at for a in find_cycles(lake, cluster=LAB, cycle=asked)] == [LAB_FIRST + timedelta(minutes=2)]


def test_latest_gives_the_newest_cycle_of_each_cluster(lake: Path) -> None:
    assert [(a.cluster, a.cycle_at.minute) for a in find_cycles(lake, cycle="latest")] == [("lab", 31), ("spread", 10)]


def test_a_time_that_fits_several_cycles_is_refused_with_their_times(lake: Path) -> None:
    with pytest.raises(NoSuchCycle, match=r"fits several cycles: .*09:10:05.*09:10:23"):
        find_cycles(lake, cluster="spread", cycle="2026-11-21T09:10")


def test_an_unknown_time_names_the_nearest_cycle(lake: Path) -> None:
    with pytest.raises(NoSuchCycle, match=r"nearest is 2026-11-21T08:31:23.371000\+00:00 of lab"):
        find_cycles(lake, cycle="2026-11-21T08:40:00")


def test_an_unknown_cluster_names_the_nearest(lake: Path) -> None:
    with pytest.raises(NoSuchCycle, match="Did you mean 'spread'"):
        find_cycles(lake, cluster="spreed")


def test_text_that_is_no_time_is_refused(lake: Path) -> None:
    with pytest.raises(BadInput, match="--cycle 'yesterday' is not a time: write"):
        find_cycles(lake, cycle="yesterday")


def test_a_folder_without_a_lake_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"there is no lake at .*nowhere"):
        read_cycles(tmp_path / "nowhere")


def test_a_lake_without_cycles_says_how_to_get_one(tmp_path: Path) -> None:
    SmallLake(tmp_path).append("cycles", [])
    with pytest.raises(NoSuchCycle, match="run one first"):
        find_cycles(tmp_path)


def test_a_table_that_lost_its_files_is_damaged(tmp_path: Path) -> None:
    SmallLake(tmp_path).add("lab", AT, {"bundle_load": [bundle_load(HOT, A, 1.0)]})
    for file in (tmp_path / "bundle_load").rglob("*.parquet"):
        file.unlink()
    (attempt,) = read_cycles(tmp_path)
    with pytest.raises(LakeError, match=r"table bundle_load of .* cannot be read"):
        read_rows(tmp_path, attempt, "bundle_load")


def test_a_damaged_log_is_said_to_be_damaged(tmp_path: Path) -> None:
    SmallLake(tmp_path).add("lab", AT, {})
    for commit in (tmp_path / "cycles" / "_delta_log").glob("*.json"):
        commit.write_text("<html>not a commit</html>")
    with pytest.raises(LakeError, match="cycles"):
        read_cycles(tmp_path)


def test_a_missing_table_that_a_manifest_lists_is_named(tmp_path: Path) -> None:
    SmallLake(tmp_path).add("lab", AT, {"bundle_load": [bundle_load(HOT, A, 1.0)]})
    (tmp_path / "bundle_load").rename(tmp_path / "elsewhere")
    (attempt,) = read_cycles(tmp_path)
    with pytest.raises(LakeError, match=r"table bundle_load .* is missing"):
        read_rows(tmp_path, attempt, "bundle_load")


def test_fewer_rows_than_the_manifest_lists_are_an_error(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.add("lab", AT, {"bundle_load": [bundle_load(HOT, A, 1.0)]})
    (attempt,) = read_cycles(tmp_path)
    for write in attempt.planned["writes"]:
        write["rows"] = 7
    with pytest.raises(LakeError, match="holds 1 of the 7 rows"):
        read_rows(tmp_path, attempt, "bundle_load")
