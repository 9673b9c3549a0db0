"""`evenkeel doctor` over several lakes: each of them is looked at, by its name."""

import json
from pathlib import Path

import pytest

from evenkeel.cli import main
from tests.json_schemas import check
from tests.lakes.several_lakes import lakes_in_force


def test_each_lake_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lakes_in_force(tmp_path, monkeypatch)
    made.lose("north")
    words = ["doctor", "--only", "lake", "--only", "lake_writer", "--only", "configuration"]
    main([*words, "--json"])
    (found,) = check("doctor", capsys.readouterr().out)
    told = {(one["check"], one.get("lake")): one["outcome"] for one in found["checks"]}
    assert set(told) == {
        ("configuration", None),
        *((name, lake) for name in ("lake", "lake_writer") for lake in ("north", "south", "old")),
    }
    assert {one["cluster"] for one in found["checks"]} == {None}
    assert "there is no lake at" in json.dumps(found["checks"])
    main([*words, "--lake", "south"])
    assert "south: " not in capsys.readouterr().out
