"""The last lines of a run tell what it left out."""

from __future__ import annotations

from tests.left_out import FULL_JDK, MAVEN, TO_HAVE, lacking, summary


def test_what_a_machine_lacks_is_counted_and_told_with_how_to_have_it() -> None:
    reasons = [f"('a.py', 5, 'Skipped: {lacking(FULL_JDK)}: no javac')", f"Skipped: {lacking(FULL_JDK)}"]
    assert list(summary([*reasons, f"Skipped: {lacking(MAVEN)}", "Skipped: only on Linux"], 0)) == [
        f"2 tests were left out, since this machine has no full JDK. To have it: {TO_HAVE[FULL_JDK]}",
        f"1 test was left out, since this machine has no Maven. To have it: {TO_HAVE[MAVEN]}",
    ]


def test_exhaustive_tests_are_counted_and_where_nothing_was_left_out_nothing_is_said() -> None:
    assert list(summary([], 71)) == ["71 exhaustive tests were left out; `make test-all` runs them, too."]
    assert list(summary([], 0)) == []
