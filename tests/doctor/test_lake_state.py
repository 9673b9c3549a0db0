"""What is said of a lake: real lakes of earlier versions, half an upgrade, a newer one, a held lock, a log."""

import os
import shutil
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.doctor import storage
from evenkeel.doctor.checks import CheckFinding, CheckOutcome, Site
from evenkeel.errors import EvenkeelError
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.transparency.keys import make_key_file
from evenkeel.transparency.lake_log import begin, storage_of
from tests.kept_lakes.unpacking import kept_lake
from tests.lake.lock_holder import held
from tests.transparency.lakes import publish_more, set_back, small_lake
from tests.transparency.logs import LOG_KEY, OTHER_KEY


@pytest.fixture(scope="module")
def schema_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept_lake(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def lake(schema_1: Path, tmp_path: Path) -> Path:
    shutil.copytree(schema_1, tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A lake of a few tables."""
    return small_lake(tmp_path)


def site(lake: Path, **environment: str) -> Site:
    return Site(lake=str(lake), home=lake.parent, environment=environment)


def tables(lake: Path) -> CheckFinding:
    return storage.check_tables(site(lake), "")


def add_columns(lake: Path, table: str, columns: pa.Schema) -> None:
    """The table with further columns, as a writer that knows them leaves it."""
    there = DeltaTable(str(lake / table)).to_pyarrow_dataset().schema
    row = pa.Table.from_pylist([], schema=pa.schema([*there, *columns]))
    write_deltalake(str(lake / table), row, mode="append", schema_mode="merge")


def test_a_lake_of_before_1_0_is_refused(lake: Path) -> None:
    there = DeltaTable(str(lake / "controls")).to_pyarrow_dataset().schema
    columns = pa.schema([field for field in there if field.name != "token"])
    shutil.rmtree(lake / "controls")
    write_deltalake(str(lake / "controls"), pa.Table.from_pylist([], schema=columns))
    found = tables(lake)
    assert found.outcome == CheckOutcome.FAIL
    assert "controls in" in found.words
    assert "a version before 1.0" in found.advice


def test_columns_of_a_newer_version_are_refused(lake: Path) -> None:
    add_columns(lake, "controls", pa.schema([pa.field("from_the_future", pa.string())]))
    found = tables(lake)
    assert found.outcome == CheckOutcome.FAIL
    assert "columns of controls" in found.words
    assert "newer version of Evenkeel" in found.advice


def test_a_cycle_of_a_newer_version_is_refused(lake: Path) -> None:
    publish_more(lake, "lab", schema_version=SCHEMA_VERSION + 1)
    found = tables(lake)
    assert found.outcome == CheckOutcome.FAIL
    assert "Written by a newer version" in found.words


def test_a_damaged_table_is_told_and_a_folder_without_a_lake_is_none_yet(lake: Path, tmp_path: Path) -> None:
    found = tables(tmp_path / "nowhere")
    assert (found.outcome, "no lake at" in found.words) == (CheckOutcome.OK, True)
    for commit in (lake / "controls" / "_delta_log").glob("*.json"):
        commit.write_text("rubbish", encoding="utf-8")
    with pytest.raises(EvenkeelError, match="controls"):
        tables(lake)


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of Linux only")
def test_another_server_that_holds_the_lock_is_named(lake: Path) -> None:
    assert storage.check_writer(site(lake), "").outcome == CheckOutcome.OK
    with held(lake):
        found = storage.check_writer(site(lake), "")
    assert found.outcome == CheckOutcome.WARN
    assert "alice on host-7, server of /srv/evenkeel" in found.words


def test_a_probe_writes_one_file_and_leaves_none(lake: Path) -> None:
    before = sorted(lake.iterdir())
    looked = site(lake)
    assert "with --probe alone" in storage.check_rights(looked, "").words
    assert looked.wrote == []
    probing = Site(lake=str(lake), environment={}, probe=True)
    found = storage.check_rights(probing, "")
    assert (found.outcome, "was written, read and removed" in found.words) == (CheckOutcome.OK, True)
    (name,) = probing.wrote
    assert Path(name).parent == lake
    assert sorted(lake.iterdir()) == before
    new = Site(lake=str(lake / "not" / "yet"), environment={}, probe=True)
    assert storage.check_rights(new, "").outcome == CheckOutcome.OK
    assert new.wrote == []
    assert not (lake / "not").exists()


def test_a_folder_without_rights_and_a_file_in_the_way_fail(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "is a file" in storage.check_rights(site(tmp_path / "file" / "lake"), "").words
    if os.geteuid() == 0:
        pytest.skip("root may read and write anything")
    (lake / "controls" / "_delta_log").chmod(0o500)
    found = storage.check_rights(site(lake), "")
    (lake / "controls" / "_delta_log").chmod(0o700)
    assert found.outcome == CheckOutcome.FAIL
    assert "controls/_delta_log" in found.words


def test_a_log_is_told_with_its_key_and_what_has_no_leaf(small: Path, tmp_path: Path) -> None:
    lake = small
    key = tmp_path / "log.key"
    make_key_file(key, LOG_KEY.secret())
    own = {"EVENKEEL_LOG_KEY_FILE": str(key)}
    assert storage.check_log(site(lake), "").outcome == CheckOutcome.SKIPPED
    assert storage.check_witnesses(site(lake), "").outcome == CheckOutcome.SKIPPED
    found = storage.check_log(site(lake, **own), "")
    assert (found.outcome, "evenkeel log begin" in found.advice) == (CheckOutcome.WARN, True)
    begin(str(lake), [LOG_KEY])
    assert storage.check_log(site(lake, **own), "").outcome == CheckOutcome.OK
    assert "its key is not set on this machine" in storage.check_log(site(lake), "").words
    publish_more(lake, "modular", 2)
    found = storage.check_log(site(lake, **own), "")
    assert found.outcome == CheckOutcome.WARN
    assert "cycles: 2 commits without a leaf: " in found.words
    key.chmod(0o640)
    with pytest.raises(EvenkeelError, match="chmod 600"):
        storage.check_log(site(lake, **own), "")


def test_commits_that_the_log_vouches_for_and_that_are_gone_fail(small: Path) -> None:
    begin(str(small), [LOG_KEY])
    set_back(small)
    found = storage.check_log(site(small), "")
    assert found.outcome == CheckOutcome.FAIL
    assert "cycles: 1 commit lost" in found.words
    assert "evenkeel verify" in found.advice


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ({}, CheckOutcome.WARN),
        ({"size": 1_000, "at": 1}, CheckOutcome.OK),
        ({"size": 1, "at": 1, "since": 1, "fault": "refused"}, CheckOutcome.WARN),
        ({"size": 1, "at": 1, "since": int(time.time()), "fault": "refused"}, CheckOutcome.OK),
        ({"size": 1, "since": 1, "fault": "another tree", "is_inconsistent": True}, CheckOutcome.FAIL),
    ],
)
def test_witnesses_are_told_with_how_far_behind_each_is(
    state: dict[str, object], outcome: CheckOutcome, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    lake = small
    begin(str(lake), [LOG_KEY])
    if state:
        text = json.dumps({"https://w.example": {"name": "https://w.example", **state}})
        storage_of(str(lake)).put("witnesses", text.encode())
    found = storage.check_witnesses(site(lake), "")
    assert found.outcome == outcome
    assert ("https://w.example" in found.words) == bool(state)
    assert OTHER_KEY.verifier.text not in found.words
