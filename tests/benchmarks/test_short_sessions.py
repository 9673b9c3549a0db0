from __future__ import annotations

import pytest

from benchmarks.short_sessions import LEVEL_WITHIN, HeapContents, growth


def seen(*megabytes: float) -> list[tuple[int, HeapContents]]:
    return [(100 * (n + 1), HeapContents(int(size * 1e6), {})) for n, size in enumerate(megabytes)]


def test_a_heap_that_fills_first_and_then_stays_is_level() -> None:
    assert abs(growth(seen(50, 80, 99, 100, 101, 100, 99, 100))) < LEVEL_WITHIN


def test_a_heap_that_goes_on_growing_is_not() -> None:
    assert growth(seen(50, 60, 70, 80, 90, 100, 110, 120)) == pytest.approx(30 / 90)
