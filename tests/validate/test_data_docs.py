"""The Data Docs site: every result stands there, nothing is fetched, nothing from the cluster is markup."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.validate.data_docs import render
from evenkeel.validate.judging import check_cluster
from evenkeel.validate.suites import SUITES, Finding, Found, read_suites
from tests.builders import NOON, cluster
from tests.validate.seen import seen

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
    front = render([*rows("lab"), *rows("../up & <b>away</b>")], tmp_path_factory.mktemp("docs"))
    assert front.name == "index.html"
    return front.parent


def test_front_page_lists_every_cluster_and_its_rules_across_tables(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "<h2>lab</h2>" in page
    assert "<h2>../up &amp; &lt;b&gt;away&lt;/b&gt;</h2>" in page
    assert "boundaries_are_whole" in page
    assert "1 topics are of namespaces that the cluster does not have" in page


def test_every_suite_has_a_page_that_the_front_page_links_to(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)">(\w+)</a>', page)
    assert sorted(table for _, table in links) == sorted([*SUITES, *SUITES])
    for link, _ in links:
        assert (site / link).is_file()
        assert (site / link).resolve().is_relative_to(site.resolve())


def test_failed_expectation_shows_its_counts_and_its_offender(site: Path) -> None:
    page = (site / "lab" / "topic_stats.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "1 unexpected values found" in text
    assert "lab topic_stats" in text, "the page says whose it is"
    assert "20% of 5 total rows" in text
    assert "&lt;script&gt;alert" in page


def test_pages_fetch_nothing_and_run_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) == 2 * len(SUITES) + 1
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert "<script" not in page
        assert not re.findall(r'(?:src|srcset)\s*=\s*["\']https?:', page)
        assert not re.findall(r"<link\b", page)
        assert "url(http" not in page
