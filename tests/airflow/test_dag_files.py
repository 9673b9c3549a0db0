"""What an asset's event says of the writes behind it."""

from __future__ import annotations

from evenkeel.airflow.dag_files import by_table, tell
from evenkeel.handover import Write


def write(table: str, write_id: str, cluster: str, rows: int) -> Write:
    return Write(table, write_id, 7, rows, "digest", cluster)


def test_a_write_for_several_clusters_is_told_once_with_all_its_rows() -> None:
    given = [write("bundle_load", "b", "west", 3), write("bundle_load", "a", "east", 1)]
    given += [write("bundle_load", "b", "east", 4), write("rejected", "c", "east", 0)]
    told = by_table("/lake", given)
    assert told["bundle_load"] == {
        "lake": "/lake",
        "writes": [
            {"write_id": "a", "version": 7, "clusters": ["east"], "rows": 1},
            {"write_id": "b", "version": 7, "clusters": ["east", "west"], "rows": 7},
        ],
    }
    assert set(told) == {"bundle_load", "rejected"}


def test_without_airflow_nobody_is_told() -> None:
    tell(None, "/lake", [write("bundle_load", "b", "west", 3)])
