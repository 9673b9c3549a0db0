"""`evenkeel sql` and `evenkeel views` as commands: forms of the answer, and messages."""

import csv
import json
import sys
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.lake.views.query import BATCH_ROWS
from tests.kept_lakes.unpacking import kept_lake
from tests.lakes.plausible import ODD, fill_odd
from tests.lakes.small_lake import SmallLake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(kept_lake(tmp_path_factory.mktemp("kept")))


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Return the texts of the command on standard output and on standard error."""
    code = main([*words])
    printed = capsys.readouterr()
    assert code == (2 if printed.err.startswith("evenkeel: ") else 0)
    return printed.out, printed.err


def test_an_answer_is_a_table_csv_or_json(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = (
        "SELECT cluster, cycle_at, unloads, shedder, 0.5e0 AS half, true AS yes FROM cycles WHERE cluster = 'silent'"
    )
    table, _ = asked(capsys, "sql", "--lake", lake, query)
    assert table.splitlines()[1].split() == ["silent", "2026-11-21T08:37:00+00:00", "NULL", "NULL", "0.5", "true"]
    text, _ = asked(capsys, "sql", "--lake", lake, "--csv", query)
    assert [*csv.reader(text.splitlines())][1] == ["silent", "2026-11-21T08:37:00+00:00", "", "", "0.5", "true"]
    text, _ = asked(capsys, "sql", "--lake", lake, "--json", query)
    row = {"cluster": "silent", "cycle_at": "2026-11-21T08:37:00+00:00", "unloads": None, "shedder": None}
    assert json.loads(text) == {"version": 1, "row": {**row, "half": 0.5, "yes": True}}


def test_a_table_ends_after_a_thousand_rows_and_csv_does_not(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = f"SELECT a.key FROM settings a, range(10) LIMIT {2 * BATCH_ROWS}"
    table, words = asked(capsys, "sql", "--lake", lake, query)
    assert len(table.splitlines()) == 1 + 1_000
    assert words == "only the first 1,000 rows are shown: --csv or --json prints all of them\n"
    for form, heading in (("--csv", 1), ("--json", 0)):
        text, words = asked(capsys, "sql", "--lake", lake, form, query)
        assert (len(text.splitlines()), words) == (heading + 2 * BATCH_ROWS, "")
    table, words = asked(capsys, "sql", "--lake", lake, "SELECT key FROM settings LIMIT 0")
    assert (table, words) == ("key\n", "")


def test_json_has_no_figure_that_json_lacks_and_no_column_twice(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = asked(capsys, "sql", "--lake", lake, "--json", "SELECT 'nan'::double AS a, kind FROM cycles LIMIT 1")
    assert json.loads(text)["row"] == {"a": None, "kind": "live"}
    text, words = asked(capsys, "sql", "--lake", lake, "--json", "SELECT 1 AS a, 2 AS a FROM cycles")
    assert (text, words) == ("", "evenkeel: several columns are named a: name them apart with AS\n")


def test_names_of_a_cluster_draw_nothing_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = SmallLake(tmp_path / "odd")
    fill_odd(small)
    for table in ("commands", "outcomes"):
        small.append(table, [])
    text, _ = asked(capsys, "sql", "--lake", str(small.root), "SELECT cluster FROM cycles")
    assert "\u202e" in ODD
    assert text.splitlines()[1:] == [ODD.replace("\u202e", "\\u202e")]


def test_faults_are_a_sentence(lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = asked(capsys, "sql", "--lake", lake, "SELECT nope FROM cycles")
    assert 'Referenced column "nope" not found' in words
    assert words.count("\n") == 1
    _, words = asked(capsys, "sql", "--lake", str(tmp_path / "gone"), "SELECT * FROM cycles")
    assert words.startswith("evenkeel: there is no lake at ")
    _, words = asked(capsys, "views", "--lake", lake, "--dialect", "trino", "--register")
    assert "give the printed script to Trino's own command" in words
    _, words = asked(capsys, "views", "--lake", lake, "--dialect", "spark", "--schema", "a;b")
    assert "--schema a;b: give a name of letters, digits and _" in words


def test_without_duckdb_the_message_says_what_to_install(
    lake: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    _, words = asked(capsys, "sql", "--lake", lake, "SELECT 1")
    assert words == "evenkeel: the package duckdb is not installed: pip install 'evenkeel[sql]'\n"


def test_views_are_registered_only_where_a_catalog_keeps_them(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path))
    monkeypatch.delenv("EVENKEEL_SPARK", raising=False)
    _, words = asked(capsys, "views", "--lake", lake, "--dialect", "spark", "--register")
    assert words.startswith("evenkeel: no Spark server is running whose catalog could keep the views")


def test_several_lakes_want_a_name(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "evenkeel.toml"
    lakes = {"one": (lake, "lab"), "two": (tmp_path / "two", "prod")}
    file.write_text(
        "".join(f'[lakes.{name}]\npath = "{path}"\nclusters = ["{of}"]\n' for name, (path, of) in lakes.items())
        + "".join(f'[clusters.{of}]\nadmin = ["http://127.0.0.1:9"]\n' for _, of in lakes.values())
    )
    monkeypatch.setenv("EVENKEEL_CONFIG", str(file))
    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    _, words = asked(capsys, "sql", "SELECT count(*) FROM cycles")
    assert words == "evenkeel: there are several lakes: give --lake with one or two\n"
    text, _ = asked(capsys, "sql", "--lake", "one", "--csv", "SELECT count(*) AS n FROM cycles")
    assert text == "n\n6\n"


def test_the_script_is_printed(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = asked(capsys, "views", "--lake", lake, "--dialect", "spark", "--schema", "mine")
    assert "CREATE SCHEMA IF NOT EXISTS mine;\nUSE mine;\n" in text
    assert f"CREATE TABLE IF NOT EXISTS raw_cycles USING delta LOCATION '{lake}/cycles';" in text
    assert "bytes of the bundle, in and out, as decisions used them [byte/s]" in text
