"""The queries of docs/how-to/query.md over views, and the page of ten questions, as they stand there, over the kept
lake."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.lake.record import Record, read_cycles, read_rows
from evenkeel.lake.views.query import ask
from tests.kept_lakes.unpacking import kept_lake
from tests.tutorial.page import Step, differences, steps_of

DOCS = Path(__file__).resolve().parents[3] / "docs" / "how-to"
QUERIES = (DOCS / "query.md").read_text(encoding="utf-8")
QUESTIONS = (DOCS / "ten-questions.md").read_text(encoding="utf-8")
STEPS = [step for step in steps_of(QUESTIONS) if "evenkeel sql" in step.code]
MOMENT = "2026-11-21 20:00:00"

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept lake, at the name that the page of ten questions gives it."""
    return kept_lake(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def answer(lake: Path) -> Callable[[str], Rows]:
    """Runs the query of the page that contains some words."""
    of_spark = QUERIES.index("## Read the record of an earlier time")
    queries = re.findall(r"```sql\n(.*?);\n```", QUERIES[:of_spark], flags=re.DOTALL)

    def run(words: str) -> Rows:
        (query,) = (one for one in queries if words in one)
        with ask(str(lake), query.replace("MOMENT", MOMENT)) as found:
            return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    return run


def test_queries_about_decisions_give_the_rows_of_the_reader_without_sql(
    lake: Path, answer: Callable[[str], Rows]
) -> None:
    counting = read_cycles(lake)
    unloads = [row for attempt in counting for row in read_rows(lake, attempt, "unload_decisions")]
    places = [row for attempt in counting for row in read_rows(lake, attempt, "placement_decisions")]
    subject = re.search(r"subject = '([^']+)'", QUERIES)[1]
    sentences = [row["sentence"] for row in unloads if row["subject"] == subject]
    assert [row["sentence"] for row in answer("subject = 'acme")] == sentences != []
    near = [r["measured"] for r in unloads if r["rule"] == "below_threshold" and r["margin"] > -0.06]
    assert sorted(row["measured"] for row in answer("below_threshold")) == sorted(near) != []
    removed = [(row["subject"], c["broker"]) for row in places for c in row["candidates"] if c["removed_by"]]
    assert sorted((row["subject"], row["broker"]) for row in answer("removed_by")) == sorted(removed) != []
    digests = {(a.cluster, a.planned["settings_digest"]) for a in counting if a.planned["settings_digest"]}
    assert {(row["cluster"], row["settings_digest"]) for row in answer("AS first")} == digests


def test_moves_of_a_day_are_counted_with_who_made_them(lake: Path, answer: Callable[[str], Rows]) -> None:
    rows = answer("AS moves")
    record, (attempt,) = Record(lake), read_cycles(lake, cluster="lab")
    commands = record.outbox("commands", "lab", attempt.cycle_at, attempt.cycle_at)
    assert [row["bundle"] for row in rows] == sorted(row["bundle"] for row in commands if row["kind"] == "unload")
    assert {row["moves"] for row in rows} == {1}
    requested = {row["bundle"]: row["requested_by"] for row in rows if row["requested_by"] != [None]}
    assert list(requested) == ["acme/ns0/0x20000000_0x40000000", "acme/ns0/0x40000000_0x60000000"]


def test_what_was_held_back_is_told_with_the_cause(answer: Callable[[str], Rows]) -> None:
    rows = answer("'overridden'")
    assert {row["cause"] for row in rows} == {"guard"}
    assert len(rows) == 24


def test_a_cluster_at_a_moment_is_its_last_cycle_up_to_then(lake: Path, answer: Callable[[str], Rows]) -> None:
    (attempt,) = read_cycles(lake, cluster="lab")
    rows = answer("max(cycle_at) FROM cycles")
    assert {row["cycle_at"] for row in rows} == {attempt.cycle_at}
    assert len(rows) == len(read_rows(lake, attempt, "bundle_load"))


def test_there_are_ten_questions() -> None:
    assert len(STEPS) == 10


@pytest.mark.parametrize("step", STEPS, ids=[str(number) for number in range(1, len(STEPS) + 1)])
def test_a_question_has_the_answer_of_the_page(
    step: Step, lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lake.parent)
    assert main(shlex.split(step.code.replace("\\\n", ""))[1:]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert differences(step.output, printed) == []
