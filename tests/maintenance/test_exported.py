"""An export reads bit for bit as the lake that it was taken from, by Spark and after an upkeep too."""

import hashlib

import pytest

from evenkeel.lake.record import read_attempts, read_table
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors
from evenkeel.verify.export import export
from tests.maintenance.recorded_lake import STATE, day
from tests.verify.exported import damaged_files
from tests.written_rows import changed

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
def test_every_write_of_an_export_has_the_rows_that_it_had(spark, history, tmp_path) -> None:
    done = export(history.lake.root, tmp_path / "out", since=day(391), until=day(407))
    assert damaged_files(tmp_path / "out") == []
    assert (done.cycles, done.missing) == (3, [])
    lake = Lake(str(tmp_path / "out"))
    inside = [w for (_, at), writes in history.writes.items() if day(391) <= at <= day(407) for w in writes]
    read = [w for w in history.writes[("lab", day(30))] if w.table in STATE]
    assert len(inside) == 3 * 8
    assert changed(spark, lake, history.lake, (*inside, *read)) == []

    rows = sorted(read_table(lake.root, "cycles"), key=lambda row: row["sequence"])
    (anchor,) = read_table(lake.root, "anchors")
    before = anchor["manifest_digest"]
    for row in rows:
        before = hashlib.sha256((before + row["body_digest"]).encode()).hexdigest()
        assert row["manifest_digest"] == before
    assert [a.attempt_id for a in read_attempts(lake.root)] == [
        a.attempt_id for a in read_attempts(history.lake.root) if day(391) <= a.cycle_at <= day(407)
    ]
    assert {row["wish_id"] for row in read_table(lake.root, "wishes")} == {"w0", "old", "w391"}
    # It can be gone on from, like any lake.
    asked = [("lab", day(409).isoformat(timespec="microseconds"), None)]
    found = find_predecessors(lake, asked, kind="live")["lab", asked[0][1]]
    assert found.cycle_at == day(407).isoformat(timespec="microseconds")
    assert lake.read(spark, "strategy_state", found.writes).count() == 2
