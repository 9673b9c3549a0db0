"""Ranges of keys: unions only refine, sharing by width loses nothing, an overview is small, steady and settled."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.heat.key_ranges import WIDTH, chosen, chosen_again, in_order, overlaps, renamed, union

MOST = 16


@st.composite
def ranges(draw: Any, most: int = 12) -> tuple[Any, Any]:
    """Sorted ranges without overlaps, with gaps between some of them."""
    bounds = sorted(draw(st.sets(st.integers(0, 200), min_size=2, max_size=most)))
    kept = [pair for pair in itertools.pairwise(bounds) if draw(st.booleans())] or [(bounds[0], bounds[1])]
    return np.array([low for low, _ in kept], np.int64), np.array([high for _, high in kept], np.int64)


@given(st.lists(ranges(), min_size=1, max_size=4))
def test_a_union_refines_each_of_its_parts_and_holds_no_more(given_: list[tuple[Any, Any]]) -> None:
    lower, upper = union(given_)
    assert (lower < upper).all()
    assert (upper[:-1] <= lower[1:]).all()
    for low, high in given_:
        own = overlaps(low, high, lower, upper)
        assert (upper - lower)[own.target].sum() == (high - low).sum()
        assert len(own.target) == len({*own.target.tolist()}), "each new range lies in one of the old ones"
    covered = {point for low, high in given_ for pair in zip(low, high, strict=True) for point in range(*pair)}
    assert {point for pair in zip(lower, upper, strict=True) for point in range(*pair)} == covered


@given(ranges(), ranges(), st.data())
def test_what_is_shared_by_width_adds_up_to_what_there_was(
    source: tuple[Any, Any], target: tuple[Any, Any], data: st.DataObject
) -> None:
    lower, upper = union([source, target])
    figures = np.array(data.draw(st.lists(st.floats(0, 1e9), min_size=len(source[0]), max_size=len(source[0]))))
    finer = overlaps(*source, lower, upper)
    shared = finer.sums(figures)
    assert np.nansum(shared) == pytest.approx(figures.sum())
    # And back: each old range gets its own again.
    assert overlaps(lower, upper, *source).sums(shared) == pytest.approx(figures)
    assert (finer.flags(np.zeros(len(figures), np.bool_))[finer.target] == (finer.share < 1)).all()


@given(ranges(), ranges())
def test_nothing_stays_nothing_and_what_is_not_known_stays_so(source: tuple[Any, Any], target: tuple[Any, Any]) -> None:
    own = overlaps(*source, *target)
    zero, unknown = np.zeros(len(source[0])), np.full(len(source[0]), np.nan)
    reached = {*own.target.tolist()}
    expected = [0.0 if n in reached else np.nan for n in range(len(target[0]))]
    np.testing.assert_array_equal(own.sums(zero), expected)
    assert np.isnan(own.sums(unknown)).all()
    assert np.isnan(own.largest(unknown)).all()
    codes = np.full(len(source[0]), 3, np.uint16)
    assert own.owners(codes).tolist() == [3 if n in reached else 0 for n in range(len(target[0]))]


@given(st.integers(1, 60), st.integers(1, 5), st.data())
def test_an_overview_is_small_and_is_the_same_each_time(count: int, namespaces: int, data: st.DataObject) -> None:
    lower = np.sort(np.array([n % namespaces * WIDTH + n // namespaces for n in range(count)], np.int64))
    weight = np.array(data.draw(st.lists(st.floats(0, 1e6) | st.just(np.nan), min_size=count, max_size=count)))
    first = chosen(lower, weight, MOST)
    assert len(first) <= MOST
    assert np.isin(first, lower).all()
    assert first[0] == lower[0]
    assert (chosen(lower, weight, MOST) == first).all()
    again = chosen_again(lower, weight, MOST, first)
    assert len(again) <= MOST
    if count > MOST:
        assert np.isin(first, again).all(), "what began a range goes on to do so"


@given(st.integers(MOST + 1, 60), st.data())
def test_splits_only_refine_an_overview(count: int, data: st.DataObject) -> None:
    lower = np.arange(count, dtype=np.int64) * 4
    weight = np.ones(count)
    before = chosen(lower, weight, MOST)
    split = lower[data.draw(st.integers(0, count - 1))] + 2
    after = np.sort(np.append(lower, split))
    again = chosen_again(after, np.ones(count + 1), MOST, before)
    assert np.isin(before, again).all()


def test_a_bundle_that_grows_heavy_gets_a_range_of_its_own() -> None:
    lower, weight = np.arange(1_000, dtype=np.int64), np.ones(1_000)
    before = chosen(lower, weight, 64)
    weight[503] = 10_000
    again = chosen_again(lower, weight, 64, before)
    assert 504 in again
    assert 503 in again
    assert len(again) <= 64
    assert np.isin(before, again).all()


def test_names_are_in_the_order_of_tenant_and_namespace_and_ranges_follow_their_names() -> None:
    names = in_order(["a-b/x", "a/y", "a/b", "a.c/z"])
    assert names == ("a/b", "a/y", "a-b/x", "a.c/z")
    lower, upper = np.array([WIDTH, 3 * WIDTH]), np.array([2 * WIDTH, 3 * WIDTH + 5])
    moved_lower, moved_upper, there = renamed(lower, upper, names, ("a/y", "a-b/x"))
    assert there.tolist() == [True, False]
    assert (moved_lower.tolist(), moved_upper.tolist()) == ([0], [WIDTH])
