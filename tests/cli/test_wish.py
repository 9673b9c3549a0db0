"""`evenkeel wish` takes what the newest cycle saw, and refuses the rest, without Spark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main, parser, wish
from evenkeel.lake.record import read_table
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


AT = datetime(2026, 3, 2, 6, tzinfo=UTC)
WHERE = ["--cluster", "lab", "--lake"]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake of one cycle: a broker and a namespace of two bundles."""
    lake = SmallLake(tmp_path / "lake")
    for table in ("wishes", "broker_reports", "commands"):
        lake.append(table, [])
    boundaries = ["0x00000000", "0x40000000", "0xffffffff"]
    namespaces = [{"namespace": "acme/orders", "boundaries": boundaries, "bundles": 2}]
    lake.add("lab", AT, {"broker_load": [{"broker": "b1:8080"}], "namespace_bundles": namespaces})
    return str(lake.root)


def test_a_wish_for_what_the_newest_cycle_saw_is_recorded(lake: str) -> None:
    asked = ["-b", RANGE, "-san", "specified_positions_divide", "-sb", "0x10000000", "--at", "2026-03-02T06:00:00Z"]
    assert main(["wish", "split", "acme/orders", *asked, *WHERE, lake]) == 0
    (row,) = read_table(lake, "wishes")
    assert (row["namespace"], row["positions"], row["kind"]) == ("acme/orders", [0x10000000], "split")
    assert row["made_at"] == AT
    for words in (
        f"unload acme/orders -b {RANGE} -d b1:8080",
        "unload acme/orders",
        "split acme/orders -bt HOT",
        "unload-topic persistent://acme/orders/a",
        "drain b1:8080",
        "undrain b1:8080",
    ):
        assert main(["wish", *words.split(), *WHERE, lake]) == 0, words
    assert main(["wish", "split", "acme/new", "-bt", "HOT", "--at", "2026-03-02T05:00:00Z", *WHERE, lake]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "unload acme/order",
            "acme/order is not a namespace of lab in its newest cycle (2026-03-02T06:00:00+00:00). Did",
        ),
        ("split acme/order -bt HOT", "Did you mean 'acme/orders'?"),
        ("unload-topic persistent://acme/order/a", "Did you mean 'acme/orders'?"),
        ("unload acme/orders -b 0x00000000_0x40000001", "is not a bundle of lab"),
        ("split acme/orders -b 0x00000000_0xffffffff", "is not a bundle of lab"),
        (f"unload acme/orders -b {RANGE} -d b2:8080", "b2:8080 is not a broker of lab"),
        ("drain b2:8080", "Did you mean 'b1:8080'?"),
    ],
)
def test_a_wish_for_what_does_not_exist_is_refused(
    words: str, said: str, lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wish", *words.split(), *WHERE, lake]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.endswith("Nothing was changed\n")
    assert read_table(lake, "wishes") == []


def test_a_wish_makes_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wish", "unload", "acme/orders", *WHERE, str(tmp_path / "mistyped")]) == 2
    assert "there is no lake at" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


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
    monkeypatch.setattr(wish, "demand_known", lambda lake, row: None)
    monkeypatch.setattr(wish, "read_table_if_any", lambda lake, table: list(record))
    monkeypatch.setattr(wish, "_moment", lambda text: (ahead if not record else datetime.now(UTC)).isoformat())
    for kind in kinds:
        assert main(["wish", kind, "b1:8080", "--lake", str(tmp_path), "--cluster", "lab"]) == 0
    assert [row["kind"] for row in record] == list(kinds)
    assert record[-1]["wish_id"] not in ended_drains(record)
    assert {row["wish_id"] for row in record[:-1] if row["kind"] == "drain"} <= ended_drains(record)
