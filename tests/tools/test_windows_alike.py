"""`tools/windows_alike.py` cuts recordings into windows of any size, the same for the same seed."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tools.windows_alike import SINGLE, cuts, listed, ways_of


@given(st.integers(1, 60), st.integers(0, 1_000))
def test_windows_hold_every_snapshot_once(snapshots: int, seed: int) -> None:
    sizes = list(cuts(random.Random(seed), snapshots))
    assert sum(sizes) == snapshots
    assert min(sizes) > 0


def test_ways_are_the_same_for_the_same_seed_and_cycle_by_cycle_comes_first() -> None:
    ways = ways_of(20, 3, 7)
    assert ways == ways_of(20, 3, 7) != ways_of(20, 3, 8)
    assert [way.sizes for way in ways[:2]] == [(), (20,)]
    assert ways[0].name == SINGLE
    assert len({way.partitions for way in ways}) == 3


def test_what_only_one_side_has_is_named() -> None:
    assert list(listed(["a", "b"], ["b", "c"])) == ["only first: a", "only then: c"]
