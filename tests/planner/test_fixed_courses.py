"""The planner decides on clusters of every kind as the file has it, figure by figure."""

import json
from functools import cache

import pytest

from tests.planner.fixed_courses import COUNT, decided, on_file

known = cache(on_file)


@pytest.mark.parametrize("number", range(COUNT))
def test_the_planner_decides_a_fixed_course_as_it_is_on_file(number: int) -> None:
    """If a change is meant: `python -m tests.planner.fixed_courses` writes the file again."""
    for made, expected in zip(json.loads(json.dumps(decided(number))), known()[number], strict=True):
        assert made.keys() == expected.keys()
        for table, rows in expected.items():
            assert made[table] == rows, table
