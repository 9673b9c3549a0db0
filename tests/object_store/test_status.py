"""The status of a lake in a bucket is that of the same lake in a folder, and a store that fails is told in one line."""

from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.lake.record import read_attempts
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.record.tables import OpenTables
from evenkeel.status import read_status
from tests.lakes.small_lake import moment
from tests.lakes.urgent_lake import EVERY, UrgentLake
from tests.object_store.stores import Store
from tests.sources.landing_zone.faults import Faults

pytestmark = pytest.mark.slow

NOW = moment("2026-11-21T12:00:00")


def small(root: Path) -> Path:
    """Two clusters, one of which needs something."""
    lake = UrgentLake(root, NOW)
    lake.course("calm")
    lake.course("a b/ü", status="failed", reason="gone")
    lake.said("calm", "pause", NOW, "upgrade")
    lake.lake.write()
    return root


def upload(store: Store, root: Path, name: str) -> str:
    client = store.client()
    for file in sorted(root.rglob("*")):
        if file.is_file() and not file.name.endswith(".crc"):
            client.upload_file(str(file), store.bucket, f"{name}/{file.relative_to(root).as_posix()}")
    return store.lake(name)


def test_a_lake_in_a_bucket_has_the_same_status(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = small(tmp_path)
    for variable, value in store.variables().items():
        monkeypatch.setenv(variable, value)
    recent = Recent(upload(store, root, "status"))
    there, here = (read_status(lake, NOW + timedelta(seconds=9)) for lake in (recent, root))
    assert there.clusters == here.clusters
    assert there.unread == {}
    assert [line.cluster for line in there.clusters] == ["a b/ü", "calm"]
    added = UrgentLake(root, NOW)
    added.lake.add("calm", NOW + EVERY, {}, status="failed", reason="later", source="admin")
    added.lake.write()
    upload(store, root, "status")
    assert [line.state for line in read_status(recent, NOW + EVERY).clusters] == ["failed", "failed"]


def test_a_page_that_is_made_again_asks_a_store_for_no_log_a_second_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = upload(store, small(tmp_path), "again")
    with Faults(store.port) as proxy:
        for variable, value in store.variables(proxy.url).items():
            monkeypatch.setenv(variable, value)
        tables = OpenTables()

        def asked() -> tuple[int, int, int]:
            """How often for a log, for whether a file is there, and for a list."""
            proxy.forget()
            with tables.look():
                assert {one.cluster for one in read_attempts(lake)} == {"calm", "a b/ü"}
            return proxy.count("GET", r"_delta_log/\d"), proxy.count("HEAD"), proxy.count("GET", "list-type")

        assert asked()[0] > 0
        assert asked() == (0, 2, 0), "the newest version, and that there is none behind it"
