"""The last lines of a run tell what it left out; and no test depends on how fast a machine is."""

import re
from pathlib import Path

import pytest

from tests.left_out import FULL_JDK, NGINX, TO_HAVE, lacking, leaves_all_out, summary


def test_what_a_machine_lacks_is_counted_and_told_with_how_to_have_it() -> None:
    reasons = [f"('a.py', 5, 'Skipped: {lacking(FULL_JDK)}: no javac')", f"Skipped: {lacking(FULL_JDK)}"]
    assert list(summary([*reasons, f"Skipped: {lacking(NGINX)}", "Skipped: only on Linux"], 0)) == [
        f"2 tests were left out, since this machine has no full JDK. To have it: {TO_HAVE[FULL_JDK]}",
        f"1 test was left out, since this machine has no nginx. To have it: {TO_HAVE[NGINX]}",
    ]


def test_exhaustive_tests_are_counted_and_where_nothing_was_left_out_nothing_is_said() -> None:
    assert list(summary([], 71)) == ["71 exhaustive tests were left out; `make test-all` runs them, too."]
    assert list(summary([], 0)) == []


@pytest.mark.parametrize(
    ("line", "markers", "is_left_out"),
    [
        ("pytestmark = pytest.mark.spark", "not (spark or slow)", True),
        ("pytestmark = [pytest.mark.airflow, pytest.mark.slow]", "not (spark or slow)", True),
        ("pytestmark = pytest.mark.airflow", "not (spark or slow)", False),
        ("    pytestmark = pytest.mark.spark", "not (spark or slow)", False),
        ("", "not (spark or slow)", False),
        ("pytestmark = pytest.mark.spark", "", False),
        ("pytestmark = pytest.mark.spark", "spark", False),
        ("pytestmark = pytest.mark.exhaustive", "not exhaustive", False),
        ("pytestmark = pytest.mark.spark", "not (spark and slow)", False),
    ],
)
def test_a_file_is_not_imported_of_which_nothing_would_run(line: str, markers: str, is_left_out: bool) -> None:
    assert leaves_all_out(f"import pytest\n\n{line}\n", markers) is is_left_out


def test_no_test_asserts_how_long_something_took() -> None:
    """A slow machine would fail it. A wait that ends by a deadline is none: `assert monotonic() < until` in a loop."""
    took = re.compile(r"assert\b[^\n]*(monotonic|perf_counter|time)\(\) - \w|assert\b[^\n]*\bseconds < ")
    tests = Path(__file__).parent
    assert [str(file.relative_to(tests)) for file in tests.rglob("*.py") if took.search(file.read_text())] == []
