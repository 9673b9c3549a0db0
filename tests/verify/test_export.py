"""A range of cycles as a lake of its own: the same values, the same chain, nothing invented."""

from __future__ import annotations

import json
import shutil
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.errors import BadInput, NoSuchCycle
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.record import find_cycles, read_attempts, read_rows, read_table
from evenkeel.verify.export import export
from tests.lakes.plausible import LAB, SPREAD, broker_load
from tests.lakes.small_lake import SmallLake, moment
from tests.verify.exported import damaged_files

pytestmark = pytest.mark.slow

SINCE, UNTIL = moment("2026-11-21T08:26:00"), moment("2026-11-21T08:29:00")


@pytest.fixture(scope="module")
def exported(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exports") / "some"
    export(str(lake), out, since=SINCE, until=UNTIL, cluster=LAB)
    return out


def inside(lake: Path) -> list:
    return [attempt for attempt in read_attempts(lake, cluster=LAB) if SINCE <= attempt.cycle_at <= UNTIL]


def test_it_is_a_lake_with_just_those_cycles_and_their_rows(lake: Path, exported: Path) -> None:
    attempts = read_attempts(exported)
    assert [(a.cluster, a.attempt_id) for a in attempts] == [(LAB, a.attempt_id) for a in inside(lake)]
    assert len(attempts) == 3
    for mine, theirs in zip(attempts, inside(lake), strict=True):
        assert (mine.planned, mine.closed) == (theirs.planned, theirs.closed)
        for table in sorted({write.table for write in theirs.writes}):
            assert read_rows(exported, mine, table) == read_rows(lake, theirs, table), table


def test_a_chain_that_is_cut_has_an_anchor_and_one_that_is_whole_has_none(lake: Path, exported, tmp_path) -> None:
    rows = sorted(read_table(exported, "cycles"), key=lambda row: row["sequence"])
    (anchor,) = read_table(exported, "anchors")
    source = {row["sequence"]: row for row in read_table(lake, "cycles", {"cluster": [LAB]})}
    assert anchor["sequence"] == rows[0]["sequence"] - 1
    assert anchor["cycle_at"] == source[anchor["sequence"]]["cycle_at"]
    assert [row["sequence"] for row in rows] == list(range(rows[0]["sequence"], rows[0]["sequence"] + len(rows)))
    whole = export(
        str(lake), tmp_path / "whole", since=moment("2026-11-21T00:00:00"), until=moment("2026-11-22T00:00:00")
    )
    assert sorted(whole.clusters) == [LAB, SPREAD]
    assert not (tmp_path / "whole" / "anchors").exists()


def test_its_manifest_names_every_file_and_a_changed_one_is_found(exported: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    assert damaged_files(copy) == []
    said = json.loads((copy / "export.json").read_text())
    assert said["clusters"][LAB]["attempts"] == 3
    one, two = sorted(name for name in said["files"] if name.endswith(".parquet"))[:2]
    (copy / one).write_bytes((copy / one).read_bytes()[:-1] + b"!")
    (copy / two).unlink()
    (copy / "more").touch()
    assert damaged_files(copy) == sorted([one, two, "more"])


def test_a_tar_holds_the_same_files(lake: Path, exported: Path, tmp_path: Path) -> None:
    done = export(str(lake), tmp_path / "some.tar", since=SINCE, until=UNTIL, cluster=LAB)
    assert done.size == (tmp_path / "some.tar").stat().st_size
    with tarfile.open(tmp_path / "some.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    assert damaged_files(tmp_path / "some") == []
    assert [a.attempt_id for a in read_attempts(tmp_path / "some")] == [a.attempt_id for a in read_attempts(exported)]
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_what_is_there_already_is_left_alone(lake: Path, exported: Path, capsys) -> None:
    before = {path: path.stat().st_mtime_ns for path in exported.rglob("*")}
    words = ["export", "--lake", str(lake), "--from", str(SINCE), "--to", str(UNTIL), "--out", str(exported)]
    assert main(words) == 2
    assert "there already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in exported.rglob("*")} == before


def test_rows_past_their_retention_are_listed_and_the_rest_is_exported(lake: Path, tmp_path: Path, capsys) -> None:
    shutil.copytree(lake, tmp_path / "lake")
    table = DeltaTable(str(tmp_path / "lake" / "bundle_load"))
    (gone,) = find_cycles(lake, cluster=LAB, cycle="2026-11-21T08:28")
    (write,) = gone.writes_of("bundle_load")
    table.delete(f"write_id = '{write.write_id}'")
    words = ["export", "--lake", str(tmp_path / "lake"), "--from", "2026-11-21T08:26", "--to", "2026-11-21T08:28"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    said = json.loads((tmp_path / "out" / "export.json").read_text())
    (missing,) = said["missing"]
    assert missing["write_id"] == write.write_id
    assert (missing["listed"], missing["found"]) == (write.rows, 0)
    told = capsys.readouterr()
    assert f"missing: bundle_load of {LAB} at {gone.cycle_at.isoformat()}: 0 of {write.rows}" in told.err
    assert "3 cycles" in told.out


MIDNIGHT = moment("2026-11-22T00:00:00")


@pytest.fixture
def upkept(tmp_path: Path) -> Path:
    """Two cycles before midnight whose files an upkeep has put together and removed, one after it that reads what the
    second one wrote, and four days later one that was skipped."""
    root = tmp_path / "upkept"
    lake = SmallLake(root)
    for minutes in (2, 1):
        lake.add(LAB, MIDNIGHT - timedelta(minutes=minutes), {"broker_load": [broker_load("b1:8080", 0.1 * minutes)]})
    attempts = read_attempts(root)
    before = [file for attempt in attempts for file in attempt.planned["files"]]
    table = DeltaTable(str(root / "broker_load"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    (uri,) = table.file_uris()
    made = hashed(str(root / "broker_load"), Path(uri).relative_to(root / "broker_load").as_posix())
    after = {"path": made.path, "size": made.size, "digest": made.digest}
    proof = {"cluster": LAB, "cycle_date": (MIDNIGHT - timedelta(days=1)).date(), "table_name": "broker_load"}
    files = {"files_before": [{name: file[name] for name in after} for file in before], "files_after": [after]}
    lake.append("proofs", [{**proof, **files, "writes": 2, "rows": 2, "proven_at": datetime.now(UTC)}])
    own = attempts[1].planned
    lake.add(LAB, MIDNIGHT, {}, reads=own["writes"], files=own["files"], predecessor_attempt_id=own["attempt_id"])
    lake.add(LAB, MIDNIGHT + timedelta(days=4), {}, status="skipped", reason="no snapshot")
    return root


def test_files_that_upkeep_has_put_together_come_along_with_their_proofs(upkept: Path, tmp_path: Path) -> None:
    done = export(str(upkept), tmp_path / "out", since=MIDNIGHT, until=MIDNIGHT)
    assert (done.cycles, done.missing) == (1, [])
    assert read_table(tmp_path / "out", "broker_load") == read_table(upkept, "broker_load")
    assert read_table(tmp_path / "out", "proofs") == read_table(upkept, "proofs")


def test_a_cycle_that_wrote_nothing_is_exported_from_a_lake_with_proofs(upkept: Path, tmp_path: Path) -> None:
    since = MIDNIGHT + timedelta(days=4)
    done = export(str(upkept), tmp_path / "out", since=since, until=since)
    assert (done.cycles, done.missing) == (1, [])
    assert (done.rows["proofs"], done.rows["broker_load"]) == (0, 0)
    assert [attempt.cycle_at for attempt in read_attempts(tmp_path / "out")] == [since]


@pytest.mark.parametrize(
    ("since", "until", "error", "said"),
    [
        (moment("2027-01-01T00:00:00"), moment("2027-01-02T00:00:00"), NoSuchCycle, "On record are 2026-11-21 08:24"),
        (UNTIL, SINCE, BadInput, "lies after"),
    ],
)
def test_a_range_without_cycles_is_refused_and_leaves_nothing(
    lake, tmp_path, since: datetime, until, error, said
) -> None:
    with pytest.raises(error, match=said):
        export(str(lake), tmp_path / "out", since=since, until=until)
    assert list(tmp_path.iterdir()) == []
