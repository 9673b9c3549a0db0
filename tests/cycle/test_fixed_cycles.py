"""Clusters of every kind are decided as they are on file, figure by figure."""

import json
from functools import cache

import pytest

from tests.cycle.fixed_cycles import COUNT, decided, on_file

known = cache(on_file)


@pytest.mark.parametrize("number", range(COUNT))
def test_a_fixed_cluster_is_decided_as_it_is_on_file(number: int) -> None:
    """If a change is meant: `python -m tests.cycle.fixed_cycles` writes the file again."""
    for made, expected in zip(json.loads(json.dumps(decided(number))), known()[number], strict=True):
        assert made.keys() == expected.keys()
        for table, rows in expected.items():
            assert made[table] == rows, table
