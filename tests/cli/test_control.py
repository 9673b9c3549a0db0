"""`evenkeel pause` and `resume`: the right cluster, the record first, and a plain word where an agent was not told."""

import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.cli.control import say
from evenkeel.lake import controls
from evenkeel.lake.record import read_table
from tests.lakes.open_cycle import PLAN, OpenCycle

KEPT = Path(__file__).resolve().parents[1] / "kept_lakes" / "schema_1.tar.gz"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "lake"


def said_of(lake: Path) -> list[tuple[str, str]]:
    rows = [row for row in read_table(lake, "controls") if row["kind"] in ("pause", "resume")]
    return [(row["cluster"], row["kind"]) for row in sorted(rows, key=lambda row: row["at"])]


def test_a_pause_and_a_resumption_are_put_on_record(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pause", "modular", "--lake", str(lake), "--by", "olga", "--reason", "release night"]) == 0
    assert main(["resume", "modular", "--lake", str(lake)]) == 0
    assert said_of(lake) == [("modular", "pause"), ("modular", "resume")]
    assert "modular is paused: no further command goes out" in capsys.readouterr().out


@pytest.mark.parametrize(("first", "then"), [("pause", "resume"), ("resume", "pause")])
def test_the_last_word_holds_whatever_the_clocks_of_the_operators_say(
    first: str, then: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=3)

    with monkeypatch.context() as patched:
        patched.setattr(controls, "datetime", Ahead)
        assert main([first, "modular", "--lake", str(lake)]) == 0
    assert main([then, "modular", "--lake", str(lake)]) == 0
    assert main([then, "extensible", "--lake", str(lake)]) == 0
    assert said_of(lake) == [("extensible", then), ("modular", first), ("modular", then)]


def test_the_last_answer_to_a_plan_holds_too(lake: Path) -> None:
    now = datetime.now(UTC)
    for answer, at in (("approved", now + timedelta(hours=3)), ("rejected", now)):
        row = controls.answer_row("modular", "p" * 64, answer, "olga", at=at)
        say(str(lake), "approvals", row, plan_id=["p" * 64])
    rows = [row for row in read_table(lake, "approvals") if row["plan_id"] == "p" * 64]
    assert max(rows, key=lambda row: row["at"])["answer"] == "rejected"


def test_a_plan_is_approved_without_its_splits_where_it_has_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = datetime.now(UTC)
    waiting, plain = OpenCycle(tmp_path / "lake", at), OpenCycle(tmp_path / "plain", at, splits=False)
    words = ["approve", PLAN[:8], "--without-splits", "--by", "olga", "--reason", "release night", "--lake"]
    assert main([*words, str(waiting.root)]) == 0
    (row,) = read_table(waiting.root, "approvals")
    assert (row["answer"], row["plan_id"], row["note"]) == ("approved_without_splits", PLAN, "release night")
    assert row["by"].endswith("(olga)")
    assert "is approved without splits" in capsys.readouterr().out
    assert main([*words, str(plain.root)]) == 2
    assert "asks for no split: approve it without this option" in capsys.readouterr().err
    assert read_table(plain.root, "approvals") == []


@pytest.mark.parametrize("word", ["pause", "resume"])
def test_a_cluster_that_does_not_exist_is_refused_with_the_nearest_name(
    word: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word, "moduler", "--lake", str(lake)]) == 2
    said = capsys.readouterr()
    assert (said.out, said_of(lake)) == ("", [])
    assert "nothing of 'moduler' is on record" in said.err
    assert "Did you mean 'modular'? On record: extensible, lab, modular, silent." in said.err


def test_the_record_comes_first_and_agents_that_were_not_told_are_named(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    file = tmp_path / "evenkeel.toml"
    queue = "http://127.0.0.1:1/queue/new.fifo"
    file.write_text(f'[clusters.new]\nadmin = ["http://127.0.0.1:1"]\nqueue = "{queue}"\nreports = "{queue}"\n')
    assert main(["pause", "new", "--lake", str(lake), "--config", str(file)]) == 2
    assert (
        "its agents did not get it: messages of a queue are signed, and the keys 'queue_new'" in capsys.readouterr().err
    )
    assert main(["resume", "new", "--lake", str(lake), "--config", str(file)]) == 2
    monkeypatch.setenv("EVENKEEL_KEYS_QUEUE_NEW", "k" * 32)
    assert main(["pause", "new", "--lake", str(lake), "--config", str(file)]) == 2
    said = capsys.readouterr()
    assert said_of(lake) == [("new", "pause"), ("new", "resume"), ("new", "pause")]
    assert "new is paused" in said.out
    assert "the pause of new is on record and holds for every publisher, but its agents did not get it" in said.err
    assert main(["pause", "nex", "--lake", str(lake), "--config", str(file)]) == 2
    assert "Did you mean new?" in capsys.readouterr().err
