"""`evenkeel wish` refuses what is not a wish before it looks for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.cli import main, parser

RANGE = "0x00000000_0x40000000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["split", "orders", "-b", RANGE], "tenant/namespace, not as 'orders'"),
        (["split", "acme/orders", "-b", "largest"], "LARGEST or HOT"),
        (["split", "acme/orders", "-b", RANGE, "-sb", "1,two"], "'two' is not a boundary"),
        (["unload", "acme/orders", "-b", "HOT"], "names its bundle as a range"),
        (["unload", "acme/orders", "-b", RANGE, "--at", "soon"], "--at 'soon' is not a time"),
    ],
)
def test_what_is_no_wish_ends_in_one_message(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wish", *words, "--lake", str(tmp_path), "--cluster", "lab"]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


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


def test_the_list_of_a_folder_without_a_lake_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wish", "list", "--lake", str(tmp_path)]) == 2
    assert "there is no lake at" in capsys.readouterr().err
