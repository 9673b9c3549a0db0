"""A picture's rows hold what the pieces behind them hold, however many rows there are."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.heat.key_ranges import WIDTH, overlaps
from evenkeel.heat.rows_shown import StoredPiece, rows_for, shown
from evenkeel.heat.scale import METRICS, SEVERAL

RATE, SHARE = METRICS["message_rate"], METRICS["broker_share"]
NAMES = ("a/x", "a/y", "b/z")


@st.composite
def pieces(draw: Any) -> list[StoredPiece]:
    """Of each namespace the columns before a split and those after it."""
    found = []
    for rank, _ in enumerate(NAMES):
        edges, first = {0, WIDTH}, 0
        for count in (draw(st.integers(1, 3)), 4):
            edges |= draw(st.sets(st.integers(1, 7), max_size=3).map(lambda cuts: {cut * (WIDTH // 8) for cut in cuts}))
            own = rank * WIDTH + np.array(sorted(edges), np.int64)
            shape = (count if first == 0 else 4 - first, len(own) - 1)
            codes = np.array(draw(st.lists(st.integers(0, 255), min_size=shape[0] * shape[1], max_size=60)), np.uint8)
            codes = np.resize(codes, shape)
            owner = np.full(shape, draw(st.integers(0, 3)), np.uint16)
            bundles = np.ones(shape[1], np.int64)
            found.append(StoredPiece(first, NAMES, own[:-1], own[1:], bundles, codes, owner, np.zeros(shape, np.bool_)))
            first = shape[0]
    return found


@given(pieces(), st.integers(2, 24))
def test_sums_are_kept_in_any_number_of_rows(given_: list[StoredPiece], most: int) -> None:
    lower, upper = rows_for(given_, most, RATE)
    assert len(lower) <= most
    seen = shown(given_, 4, lower, upper, RATE)
    values = RATE.values()
    for n in range(4):
        whole = sum(
            np.nansum(values[one.codes[n - one.first]]) for one in given_ if one.first <= n < one.first + len(one.codes)
        )
        total = np.nansum(values[seen.codes[n]])
        # Each row's sum is put on the scale once more; below its lowest and above its highest step that is far off.
        if RATE.lowest * 30 < whole < RATE.highest:
            assert total == pytest.approx(whole, rel=RATE.factor**0.5 - 1 + 0.02, abs=30 * RATE.lowest)
    assert seen.bundles.sum() >= len(lower) or len(lower) < 3
    largest = shown(given_, 4, lower, upper, SHARE)
    newest = [one for one in given_ if one.first]
    assert largest.codes[3].max() == max(one.codes[-1].max() for one in newest)


@given(pieces())
def test_with_room_for_all_every_range_keeps_its_code_and_owner(given_: list[StoredPiece]) -> None:
    lower, upper = rows_for(given_, 1_000, RATE)
    seen = shown(given_, 4, lower, upper, RATE)
    for piece in given_:
        own = overlaps(piece.lower, piece.upper, lower, upper)
        whole = own.share == 1.0
        part = slice(piece.first, piece.first + len(piece.codes))
        assert (seen.codes[part, own.target[whole]] == piece.codes[:, own.source[whole]]).all()
        assert (seen.owner[part, own.target] == piece.owner[:, own.source]).all()
        assert (seen.shared[part][:, own.target] == ~whole).all()


def test_a_row_of_several_namespaces_adds_them_up_and_has_several_owners() -> None:
    def piece(rank: int, value: float, owner: int) -> StoredPiece:
        codes = RATE.codes(np.array([[value]]))
        bounds = np.array([rank * WIDTH], np.int64), np.array([(rank + 1) * WIDTH], np.int64)
        return StoredPiece(0, NAMES, *bounds, np.ones(1, np.int64), codes, np.full((1, 1), owner, np.uint16),
                           np.zeros((1, 1), np.bool_))  # fmt: skip

    seen = shown(
        [piece(0, 10.0, 1), piece(1, 20.0, 2), piece(2, 5.0, 2)], 1, np.array([0]), np.array([3 * WIDTH]), RATE
    )
    assert RATE.value_of(int(seen.codes[0, 0])) == pytest.approx(35.0, rel=0.1)
    assert (seen.owner[0, 0], seen.bundles[0], seen.shared[0, 0]) == (SEVERAL, 3, False)
