"""Great Expectations' Data Docs pages of a validation, as a local site without network requests.

The pages come from the rows of validation_results, so those of any recorded cycle can be rendered, without Spark. Great
Expectations renders the results of each suite. The front page lists the rules across tables, which it does not know.
Its pages refer to foreign style sheets and scripts; a small sheet of Evenkeel replaces those references.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from evenkeel.folders import write_below
from evenkeel.validate.suites import GX_WORDS

Row = Mapping[str, Any]

_EXTERNAL = re.compile(
    r"""<script\b[^>]*\bsrc=["']https?:[^>]*>\s*</script>|<link\b[^>]*>|<img\b[^>]*\bsrc=["']https?:[^>]*>""", re.S
)
_INLINE_SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
_LINK = re.compile(r"""<a\b[^>]*\bhref=["'](?!#)[^>]*>(.*?)</a>""", re.S)
_STYLE = """<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem; max-width: 70rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td:last-child { overflow-wrap: anywhere; min-width: 12rem; }
.failed { font-weight: 600; }
ul, ol { padding-left: 1.2rem; }
.fa-check-circle::before { content: "passed"; }
.fa-times::before { content: "failed"; font-weight: 600; }
nav, footer, input, label, .navbar, .navbar-collapse, .modal, button, .ge-walkthrough-modal { display: none; }
</style>"""


def render(rows: Iterable[Row], directory: Path) -> Path:
    """Write the site for these rows of validation_results under `directory` and return its front page.

    One page per cluster and suite (`<cluster>/<table>.html`) and `index.html`. Existing pages are replaced.
    """
    results = sorted(rows, key=lambda row: (row["cluster"], row["checked_table"], row["rule"]))
    pages: dict[tuple[str, str], str] = {}
    for cluster, table in sorted({(row["cluster"], row["checked_table"]) for row in results}):
        suite_rows = [row for row in results if (row["cluster"], row["checked_table"]) == (cluster, table)]
        of_suite = [row for row in suite_rows if row["kind"] == "expectation"]
        if of_suite:
            name = f"{_file_name(cluster)}/{_file_name(table)}.html"
            write_below(directory, name, _suite_page(cluster, table, of_suite))
            pages[cluster, table] = name
    return write_below(directory, "index.html", _front_page(results, pages))


def _suite_page(cluster: str, table: str, rows: list[Row]) -> str:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    document = ValidationResultsPageRenderer(run_info_at_end=True).render(_suite_result(cluster, table, rows))
    page = DefaultJinjaPageView().render(document)
    # Its links lead to pages of a larger site that is not part of this one. It shows no severity and no rule's name.
    return _LINK.sub(r"\1", offline(page)).replace("<body>", f"<body><h1>Rules</h1>{_table(rows)}", 1)


def _suite_result(cluster: str, table: str, rows: list[Row]) -> Any:
    from great_expectations.core import ExpectationSuiteValidationResult

    passed = sum(bool(row["passed"]) for row in rows)
    return ExpectationSuiteValidationResult(
        success=passed == len(rows),
        results=[_result(row) for row in rows],
        suite_name=escape(f"{cluster} {table}"),
        suite_parameters={},
        statistics={
            "evaluated_expectations": len(rows),
            "successful_expectations": passed,
            "unsuccessful_expectations": len(rows) - passed,
            "success_percent": 100.0 * passed / len(rows),
        },
        meta={"run_id": {"run_name": "evenkeel", "run_time": str(rows[0]["cycle_at"])}},
    )


def _result(row: Row) -> Any:
    """Return one expectation's result. Its renderer escapes nothing, so all texts of the row are escaped in it."""
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    definition = _escaped(json.loads(row["definition"]))
    checked, failed = row["checked_rows"] or 0, row["failed_rows"] or 0
    kind, kwargs, severity = definition["type"], definition["kwargs"], _severity(row)
    return ExpectationValidationResult(
        success=bool(row["passed"]),
        expectation_config=ExpectationConfiguration(type=kind, kwargs=kwargs, severity=severity),
        result={
            "element_count": checked,
            "unexpected_count": failed,
            "unexpected_percent": 100.0 * failed / checked if checked else 0.0,
            "partial_unexpected_list": _escaped([*(row["sample"] or ())]),
        },
    )


def _escaped(value: Any) -> Any:
    """Return a value of JSON with its texts, and the names in it, as text of a page."""
    if isinstance(value, dict):
        return {escape(name): _escaped(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    return escape(value) if isinstance(value, str) else value


def offline(page: str) -> str:
    """Return the page without anything fetched from elsewhere and without scripts, styled by a sheet of its own."""
    bare = _INLINE_SCRIPT.sub("", _EXTERNAL.sub("", page))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return bare.replace("</head>", f"{head}{_STYLE}</head>", 1)


def _front_page(results: list[Row], pages: Mapping[tuple[str, str], str]) -> str:
    parts = ["<h1>Validation</h1>"]
    for cluster in sorted({row["cluster"] for row in results}):
        cluster_rows = [row for row in results if row["cluster"] == cluster]
        failed = sum(not row["passed"] for row in cluster_rows)
        at = _moment(cluster_rows[0]["cycle_at"])
        parts.append(f"<h2>{escape(cluster)}</h2><p>{len(cluster_rows)} rules, {failed} failed, as of {at}</p>")
        links = [
            f'<li><a href="{page}">{escape(table)}</a></li>'
            for (name, table), page in sorted(pages.items())
            if name == cluster
        ]
        parts.append(f"<ul>{''.join(links)}</ul>" if links else "")
        ordered = sorted(cluster_rows, key=lambda row: (row["passed"], row["kind"], row["checked_table"], row["rule"]))
        parts.append(_table(row for row in ordered if row["kind"] != "expectation" or not row["passed"]))
    return offline(
        f'<!doctype html><html lang="en"><head><title>Validation</title></head><body>{"".join(parts)}</body></html>'
    )


def _table(rows: Iterable[Row]) -> str:
    header = "<tr><th>Rule</th><th>Table</th><th>Severity</th><th>Result</th><th>Detail</th></tr>"
    return f"<table><thead>{header}</thead><tbody>{''.join(map(_line, rows))}</tbody></table>"


def _severity(row: Row) -> str:
    """Return the severity by Great Expectations' own word."""
    return GX_WORDS.get(row["severity"], "critical")


def _line(row: Row) -> str:
    verdict = "passed" if row["passed"] else '<span class="failed">failed</span>'
    severity = f"{_severity(row)} ({row['severity']})"
    cells = [*map(escape, (row["rule"], row["checked_table"], severity)), verdict, escape(row["detail"])]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _moment(at: datetime) -> str:
    """Return the moment in UTC; a time without a zone, as Spark gives it, is UTC already."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _file_name(name: str) -> str:
    """Return a file name for any name: its plain characters, with a digest if others were left out."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
