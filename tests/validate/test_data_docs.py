"""The Data Docs site: every result stands there, nothing is fetched, nothing from the cluster is markup."""

import json
import re
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.validate.data_docs import _suite_result, render
from evenkeel.validate.judging import check_cluster
from evenkeel.validate.suites import SUITES, Finding, Found, read_suites
from tests.builders import NOON, cluster
from tests.validate.seen import seen

EXPECTATIONS = Path(__file__).resolve().parents[2] / "expectations"
LATER = NOON + timedelta(minutes=5)
ODD = "persistent://acme/web/<script>alert('x')</script>"


def rows(name: str, cycle_at: datetime = NOON) -> list[dict[str, Any]]:
    """Results of a cluster in which one topic has a negative rate and every bundle's namespace is missing."""
    built = cluster(name).topic(ODD, broker="b1:8080")
    findings = list(check_cluster(seen(built)))
    for suite in read_suites().values():
        for rule in suite.rules:
            broken = rule.name == "msg_rate_in_is_a_rate" and rule.table == "topic_stats"
            found = Found(5, [ODD], "1 of 5 rows break it.", failed=1) if broken else Found(5)
            findings.append(Finding(name, rule, found))
    return [{"cluster": name, "cycle_at": cycle_at, **finding.row()} for finding in findings]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    front = render([*rows("lab"), *rows("../up & <b>away</b>", LATER)], tmp_path_factory.mktemp("docs"))
    assert front.name == "index.html"
    return front.parent


def test_front_page_lists_every_cluster_and_its_rules_across_tables(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    every = len(rows("lab"))
    assert f"<h2>lab</h2><p>{every} rules, 3 failed, as of 2026-11-21 12:00:00 UTC</p>" in page
    odd = "<h2>../up &amp; &lt;b&gt;away&lt;/b&gt;</h2>"
    assert f"{odd}<p>{every} rules, 3 failed, as of 2026-11-21 12:05:00 UTC</p>" in page
    assert "1 topics are of namespaces that the cluster does not have" in page
    listed = re.findall(r"<tr><td>(\w+)</td>", page.partition("<h2>lab</h2>")[2])
    across = [row["rule"] for row in rows("lab") if row["kind"] != "expectation"]
    assert sorted(listed) == sorted([*across, "msg_rate_in_is_a_rate"]), "and the expectation that failed"


def test_every_suite_has_a_page_that_the_front_page_links_to(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)">(\w+)</a>', page)
    assert sorted(table for _, table in links) == sorted([*SUITES, *SUITES])
    own = re.findall(r'<a href="([^"]+)">(\w+)</a>', page.partition("<h2>lab</h2>")[2])
    assert own == [(f"lab/{table}.html", table) for table in sorted(SUITES)], "each cluster has its own"
    for link, _ in links:
        assert (site / link).is_file()
        assert (site / link).resolve().is_relative_to(site.resolve())


def text_of(page: Path) -> str:
    """The page's text without markup, words one space apart."""
    bare = re.sub(r"<style.*?</style>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def test_failed_expectation_shows_its_counts_and_its_offender(site: Path) -> None:
    text = text_of(site / "lab" / "topic_stats.html")
    counts = "Evaluated Expectations 15 Successful Expectations 14 Unsuccessful Expectations 1 Success Percent ≈93.33%"
    assert f"Suite: lab topic_stats Data asset: None Status: Failed Statistics {counts}" in text
    assert "1 unexpected values found. 20% of 5 total rows" in text
    assert "&lt;script&gt;alert" in text
    assert text.index("Run Name evenkeel Run Time 2026-11-21T12:00:00Z") > text.index(counts), "at the end"
    assert "Status: Succeeded" in text_of(site / "lab" / "broker_reports.html")


@pytest.mark.parametrize(
    ("checked", "failed", "shown"),
    [(None, 3, ["3 unexpected values found. 0% of 0 total rows"]), (0, None, []), (5, None, []), (None, None, [])],
)
def test_counts_that_are_unknown_are_shown_as_none(
    tmp_path: Path, checked: int | None, failed: int | None, shown: list[str]
) -> None:
    (row,) = (row for row in rows("lab") if row["rule"] == "msg_rate_in_is_a_rate" and not row["passed"])
    render([{**row, "checked_rows": checked, "failed_rows": failed, "sample": None}], tmp_path)
    text = text_of(tmp_path / "lab" / "topic_stats.html")
    assert re.findall(r"\d+ unexpected values found. \S+ of -?\d+ total rows", text) == shown
    assert re.findall(r"(-?\d+%) unexpected", text) == ["0%"]


def test_a_long_name_gets_a_file_name_of_sixty_characters_and_a_digest(tmp_path: Path) -> None:
    (row,) = (row for row in rows("lab") if row["rule"] == "msg_rate_in_is_a_rate" and not row["passed"])
    render([{**row, "checked_table": "t" * 60}, {**row, "checked_table": "t" * 61}], tmp_path)
    names = sorted(path.stem for path in (tmp_path / "lab").iterdir())
    assert names == ["t" * 60, f"{'t' * 60}-{sha256(b't' * 61).hexdigest()[:8]}"]


@pytest.mark.parametrize("table", SUITES)
def test_each_expectation_shows_the_severity_that_its_suite_gives_it(site: Path, table: str) -> None:
    suite = json.loads((EXPECTATIONS / f"{table}.json").read_text(encoding="utf-8"))
    page = (site / "lab" / f"{table}.html").read_text(encoding="utf-8")
    for expectation in suite["expectations"]:
        rule, severity = expectation["meta"]["rule"], expectation["severity"]
        assert re.search(rf"<tr><td>{rule}</td><td>{table}</td><td>{severity} \(\w+\)</td>", page), rule


@pytest.mark.usefixtures("site")
def test_great_expectations_knows_the_severity_too() -> None:
    result = _suite_result("lab", "topic_stats", [row for row in rows("lab") if row["kind"] == "expectation"])
    assert result.get_max_severity_failure() == "warning"


def test_pages_fetch_nothing_and_run_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) == 2 * len(SUITES) + 1
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert page.count("color-scheme: light dark; }") == page.count("</style></head>") == 1, "one sheet of its own"
        assert "<script" not in page
        assert not re.findall(r'(?:src|srcset)\s*=\s*["\']https?:', page)
        assert not re.findall(r"<link\b", page)
        assert "url(http" not in page


def test_names_of_tables_rules_and_values_become_neither_paths_nor_markup(tmp_path: Path) -> None:
    live = "../../<img src=x onerror=alert(1)>"
    row = next(row for row in rows("lab") if row["rule"] == "msg_rate_in_is_a_rate" and not row["passed"])
    definition = json.loads(row["definition"])
    definition["kwargs"]["column"] = live
    render(
        [{**row, "checked_table": live, "rule": live, "severity": live, "definition": json.dumps(definition)}],
        tmp_path / "a" / "out",
    )
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 2
    for path in written:
        assert path.is_relative_to(tmp_path / "a" / "out")
        assert "<img" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["index.html", "lab", "lab/topic_stats.html"])
def test_pages_are_not_written_through_a_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "topic_stats.html").write_text("theirs")
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    target = tmp_path / "theirs" if name == "lab" else tmp_path / "theirs" / "topic_stats.html"
    (tmp_path / "out" / name).symlink_to(target)
    with pytest.raises(BadInput, match="a symbolic link"):
        render(rows("lab"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["topic_stats.html"]
    assert (tmp_path / "theirs" / "topic_stats.html").read_text() == "theirs"
