"""`evenkeel wish` refuses what is not a wish before it looks for Spark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from evenkeel.cli import main, parser, wish
from evenkeel.lake.record import read_table
from evenkeel.lake.store import as_arrow
from evenkeel.lake.wishes import ended_drains
from tests.lakes.small_lake import SmallLake

RANGE = "0x00000000_0x40000000"


def test_options_are_those_of_pulsars_admin_command_line() -> None:
    split = ["wish", "split", "acme/orders", "--lake", "x", "--cluster", "lab"]
    long = ["--bundle", RANGE, "--split-algorithm-name", "a", "--split-boundaries", "1", "--unload"]
    short = ["-b", RANGE, "-san", "a", "-sb", "1", "-u"]
    assert parser().parse_args(split + long) == parser().parse_args(split + short)
    assert parser().parse_args([*split, "-bt", "HOT"]).bundle_type == "HOT"
    unload = ["wish", "unload", "acme/orders", "-b", RANGE, "--lake", "x", "--cluster", "lab"]
    assert parser().parse_args([*unload, "-d", "b:1"]) == parser().parse_args([*unload, "--destinationBroker", "b:1"])
    for both in ([*split, "-b", RANGE, "-bt", "HOT"], split):
        with pytest.raises(SystemExit):
            parser().parse_args(both)


def test_a_lake_that_was_written_to_takes_a_wish_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(wish, "session", start)
    write_deltalake(str(tmp_path / "wishes"), as_arrow("wishes", []), partition_by=["cluster"])
    asked = ["-b", RANGE, "-san", "specified_positions_divide", "-sb", "0x10000000", "--at", "2026-03-02T06:00:00Z"]
    words = ["wish", "split", "acme/orders", *asked, "--lake", str(tmp_path), "--cluster", "lab"]
    assert main(words) == 0
    (row,) = read_table(tmp_path, "wishes")
    assert (row["namespace"], row["positions"], row["kind"]) == ("acme/orders", [0x10000000], "split")
    assert row["made_at"] == datetime(2026, 3, 2, 6, tzinfo=UTC)


def test_names_in_the_list_do_nothing_to_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "b\x1b[2J\x9b1m\u202e\nclosed:8080"
    at = datetime(2026, 3, 2, 6, tzinfo=UTC)
    row = {"wish_id": "w" * 32, "kind": "drain", "broker": name, "cluster": "lab\x1b[8m", "made_at": at}
    lake = SmallLake(tmp_path)
    lake.append("wishes", [{**row, "made_by": "ann\x07"}])
    lake.append("cycles", [])
    assert main(["wish", "list", "--lake", str(tmp_path)]) == 0
    assert main(["wish", "list", "--lake", str(tmp_path), "--json"]) == 0
    line, listed, *more = capsys.readouterr().out.split("\n")
    assert more == [""]
    assert line.isprintable()
    assert listed.isprintable()
    assert r"drain b\u001b[2J\u009b1m\u202e\u000aclosed:8080" in line
    assert json.loads(listed)["wishes"][0]["broker"] == name


@pytest.mark.parametrize("kinds", [("drain", "undrain"), ("drain", "undrain", "drain")])
def test_the_last_drain_or_undrain_counts_whatever_the_clocks_of_the_operators_say(
    kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=3)
    record: list[dict[str, Any]] = []

    def put(given: Any, row: Any) -> int:
        record.append({**row, "made_at": datetime.fromisoformat(row["made_at"])})
        return 0

    monkeypatch.setattr(wish, "_put", put)
    monkeypatch.setattr(wish, "read_table_if_any", lambda lake, table: list(record))
    monkeypatch.setattr(wish, "_moment", lambda text: (ahead if not record else datetime.now(UTC)).isoformat())
    for kind in kinds:
        assert main(["wish", kind, "b1:8080", "--lake", str(tmp_path), "--cluster", "lab"]) == 0
    assert [row["kind"] for row in record] == list(kinds)
    assert record[-1]["wish_id"] not in ended_drains(record)
    assert {row["wish_id"] for row in record[:-1] if row["kind"] == "drain"} <= ended_drains(record)
