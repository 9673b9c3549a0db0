"""Commands over several lakes: all of them without `--lake`, that of a cluster, and one that cannot be read."""

import json
from pathlib import Path

import pytest

from evenkeel.cli import main
from tests.json_schemas import check
from tests.lakes.several_lakes import MOVED, Installation, lakes_in_force

HOT = "acme/payments/0x40000000_0x50000000"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.chdir(tmp_path)
    return lakes_in_force(tmp_path, monkeypatch)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_status_is_of_all_lakes(made: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "status")
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].split() == ["CLUSTER", "LAKE", "BUSIEST/MEAN", "MODE", "LAST", "CYCLE"]
    assert lines[1].split()[:2] == ["eu-1", "north"]
    assert "1 of 4 clusters needs attention." in lines
    assert lines[-1] == "uk belongs to the lake south: its earlier cycles are in old (--lake old)"


def test_a_lake_that_is_gone_is_one_line_and_the_code_says_it(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    made.lose("north")
    code, out, _ = told(capsys, "status")
    assert code == 2
    assert [line for line in out.splitlines() if "cannot be read" in line] == [
        f"lake north cannot be read: there is no lake at {made.path('north')}: "
        + out.partition(f"{made.path('north')}: ")[2].splitlines()[0]
    ]
    assert "us-1" in out
    code, out, _ = told(capsys, "status", "--cluster", "us-1")
    assert code == 0


def test_the_json_says_the_lake_of_each_cluster(made: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    made.lose("north")
    code, out, _ = told(capsys, "status", "--json")
    (found,) = check("status", out)
    assert code == 2
    assert {one["cluster"]: one["lake"] for one in found["clusters"]} == {"us-1": "south", MOVED: "south"}
    assert [(one["name"], one["fault"] is None) for one in found["lakes"]] == [
        ("north", False), ("south", True), ("old", True),
    ]  # fmt: skip
    assert found["moved"] == [{"cluster": MOVED, "before": "old", "now": "south"}]


def test_a_cluster_that_is_named_is_found_and_a_lake_by_its_name(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = told(capsys, "status", "--cluster", "us-1", "--json")
    (found,) = check("status", out)
    assert found["lake"] == made.path("south")
    _, out, _ = told(capsys, "status", "--lake", "old", "--json")
    (found,) = check("status", out)
    assert found["lake"] == made.path("old")
    assert [one["cluster"] for one in found["clusters"]] == [MOVED]
    code, _, err = told(capsys, "status", "--cluster", "us-2")
    assert code == 2
    assert "no cycle of cluster 'us-2' is on record" in err


def test_a_lake_alone_is_as_it_always_was(made: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "status", "--lake", made.path("north"), "--json")
    made.file.write_text('lake = "north"\n[clusters.eu-1]\nrecording = "r"\n')
    _, out, _ = told(capsys, "status", "--json")
    (found,) = check("status", out)
    assert set(found) == {"version", "lake", "at", "clusters", "unread"}
    assert "lake" not in found["clusters"][0]


def test_a_report_is_drawn_of_each_lake_or_of_that_of_the_cluster(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = told(capsys, "report", "--cluster", "us-1", "--out", "one.html")
    assert (code, out.splitlines()) == (0, ["one.html"])
    code, out, err = told(capsys, "report", "--json")
    results = check("report", out)
    assert [(one["lake"], Path(one["page"]).name) for one in results] == [
        ("north", "report-north.html"), ("south", "report-south.html"), ("old", "report-old.html"),
    ]  # fmt: skip
    made.lose("south")
    code, out, err = told(capsys, "report")
    assert code == 2
    assert out.splitlines() == ["report-north.html", "report-old.html"]
    assert "the lake south cannot be read: there is no lake at" in err


def test_verify_is_of_each_lake(made: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    made.lose("south")
    code, out, err = told(capsys, "verify", "--depth", "chain", "--json", "--unrecorded")
    (found,) = check("verify", out)
    assert code == 2
    assert set(found["lakes"]) == {"north", "south", "old"}
    assert set(found["lakes"]["north"]["chains"]) == {"eu-1", "eu-2"}
    assert "error" in found["lakes"]["south"]
    assert err.count("the lake south cannot be read") == 1
    code, out, _ = told(capsys, "verify", "--depth", "chain", "--json", "--unrecorded", "--cluster", MOVED)
    (found,) = check("verify", out)
    assert set(found["lakes"]) == {"old"}
    assert code == 1, "a small lake has chains in name alone"


def test_explain_looks_in_all_lakes_and_refuses_what_several_have(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = "pulsar-1.prod:8080"
    code, _, err = told(capsys, "explain", broker)
    assert code == 2
    assert "several clusters" in err or "the lakes" in err
    code, out, _ = told(capsys, "explain", broker, "--cluster", "us-1")
    assert code == 0
    assert out.startswith("in the lake south:\n")
    code, out, _ = told(capsys, "explain", broker, "--cluster", "us-1", "--json")
    (found,) = check("explain", out)
    assert found["lake"] == "south"


def test_an_earlier_moment_of_a_moved_cluster_is_found_where_it_was(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    from datetime import timedelta

    at = (made.now - timedelta(days=3)).isoformat()
    _, out, _ = told(capsys, "explain", "pulsar-1.prod:8080", "--cluster", MOVED, "--at", at, "--json")
    assert json.loads(out)["lake"] == "old"


def test_an_unknown_name_of_a_lake_is_a_folder(made: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "status", "--lake", "nort")
    assert code == 2
    assert "there is no lake at nort" in err
