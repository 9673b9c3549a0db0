"""Write ids of windows: unique per try and cycle, side by side, known without a look at rows; and found in files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, ids_of, new_try, try_of
from evenkeel.lake.delta_log import rows_by_write

BEGIN = datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)


def handover(*cycles: tuple[str, datetime]) -> Handover:
    opened = []
    for cluster, at in cycles:
        text = at.isoformat(timespec="microseconds")
        opened.append(ClusterCycle(cluster, text, Snapshot("s", text), {}))
    return Handover("lake", Run("cli", "run"), tuple(opened))


def test_one_cycle_of_each_cluster_bears_the_id_of_the_try() -> None:
    own = new_try()
    one_each = handover(("east", BEGIN), ("west", BEGIN + timedelta(seconds=1)))
    assert set(ids_of(one_each, own).values()) == {own}


def test_ids_of_a_window_are_unique_in_order_and_named_by_their_try() -> None:
    moments = [BEGIN + timedelta(microseconds=n) for n in range(3)] + [BEGIN + timedelta(minutes=5 * n) for n in (1, 2)]
    window = handover(*(("east", at) for at in moments), ("west", moments[1]))
    one, other = new_try(), new_try()
    found = ids_of(window, one)
    in_order = [found[cycle.key] for cycle in window.cycles[:-1]]
    assert in_order == sorted(set(in_order))
    assert found[window.cycles[-1].key] == in_order[1], "clusters share it, as they do where each has one cycle"
    assert {len(write_id) for write_id in found.values()} == {32}
    assert {try_of(write_id) for write_id in found.values()} == {try_of(one)} != {try_of(other)}
    assert not set(found.values()) & set(ids_of(window, other).values())
    assert ids_of(window, one) == found


@pytest.mark.parametrize("at", [datetime(1969, 12, 31, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)])
def test_a_moment_that_no_id_can_hold_is_refused(at: datetime) -> None:
    with pytest.raises(ValueError, match="cannot be part of a window"):
        ids_of(handover(("east", at), ("east", BEGIN)), new_try())


@pytest.mark.parametrize("statistics", [True, False])
def test_the_ids_in_a_file_are_found_in_all_of_its_row_groups(tmp_path: Path, statistics: bool) -> None:
    ids = ["a"] * 4 + ["b", "c", "b", "c"] + ["d"] * 2
    table = pa.table({"write_id": ids, "value": range(10)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=4, write_statistics=statistics)
    assert rows_by_write(str(tmp_path / "rows.parquet")) == {"a": 4, "b": 2, "c": 2, "d": 2}
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert rows_by_write(str(tmp_path / "none.parquet")) == {}
