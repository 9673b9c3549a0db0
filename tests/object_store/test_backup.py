"""A lake in a folder is backed up to a store, and restored from it into another prefix and into a folder."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from evenkeel.lake.table_files import delta_table
from evenkeel.maintenance.backup import ABOUT, LakePlace, back_up, restore
from tests.lakes.plausible import plausible_lake
from tests.object_store.conftest import NUMBERS
from tests.object_store.stores import Store

pytestmark = pytest.mark.slow


def test_it_goes_there_and_back(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.variables().items():
        monkeypatch.setenv(name, value)
    whole, lake = plausible_lake(tmp_path / "whole"), tmp_path / "lake"
    for table in ("cycles", "bundle_load"):
        shutil.copytree(whole / table, lake / table)
    there = f"s3a://{store.bucket}/backup-{next(NUMBERS)}"
    first = back_up(str(lake), there, now=lambda: datetime(2026, 11, 27, tzinfo=UTC))
    names = LakePlace.at(str(lake)).files()
    assert LakePlace.at(there).files().items() - {(ABOUT, len(LakePlace.at(there).read(ABOUT) or b""))} == names.items()
    DeltaTable(str(lake / "cycles")).optimize.compact()
    second = back_up(str(lake), there, now=lambda: datetime(2026, 11, 28, tzinfo=UTC))
    assert (second.kept, second.tables["cycles"]) == (first.files, first.tables["cycles"] + 1)
    moved = f"s3a://{store.bucket}/moved-{next(NUMBERS)}"
    restore(there, moved)
    restore(there, str(tmp_path / "back"))
    rows = delta_table(str(lake / "cycles")).to_pyarrow_table()
    assert delta_table(f"{moved}/cycles").to_pyarrow_table() == rows
    assert LakePlace.at(str(tmp_path / "back")).files() == LakePlace.at(str(lake)).files()
