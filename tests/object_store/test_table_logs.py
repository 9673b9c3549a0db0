"""The folders of tables in a bucket are checked as those on a disk are."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.errors import LakeError
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.table_metadata import demand_as_declared
from evenkeel.verify.tables_of_record import check_tables
from tests.lakes.small_lake import SmallLake, moment
from tests.object_store.stores import Store

pytestmark = pytest.mark.slow

AT = moment("2026-11-21T12:00:00")


def test_tables_in_a_bucket_are_checked(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in store.variables().items():
        monkeypatch.setenv(variable, value)
    small, client = SmallLake(tmp_path), store.client()
    for cluster in ("lab", "a b/ü"):
        small.add(cluster, AT, {"settings": [{"key": "k", "value": "v"}]})
    for file in sorted(tmp_path.rglob("*")):
        if file.is_file():
            client.upload_file(str(file), store.bucket, f"checked/{file.relative_to(tmp_path).as_posix()}")
    lake = store.lake("checked")
    assert check_tables(lake, {}, []) == []
    demand_as_declared(TABLES["settings"], f"{lake}/settings")

    log = "checked/settings/_delta_log"
    name = f"{0:020}.{1:020}.compacted.json"
    client.put_object(Bucket=store.bucket, Key=f"{log}/{name}", Body=b"{}")
    client.put_object(Bucket=store.bucket, Key=f"{log}/{1:020}.json", Body=b"")
    faults = check_tables(lake, {}, [])
    assert [(fault.table, fault.place) for fault in faults] == [
        ("settings", f"_delta_log/{name}"),
        ("settings", "commit 1"),
    ]
    with pytest.raises(LakeError, match=r"commit 1 .* is empty"):
        demand_as_declared(TABLES["settings"], f"{lake}/settings")
