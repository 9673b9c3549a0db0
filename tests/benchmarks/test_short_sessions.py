import pytest

from benchmarks.short_sessions import LEVEL_WITHIN, HeapContents, counted, growing, growth


def seen(*megabytes: float) -> list[tuple[int, HeapContents]]:
    return [(100 * (n + 1), HeapContents(int(size * 1e6), {})) for n, size in enumerate(megabytes)]


def test_a_heap_that_fills_first_and_then_stays_is_level() -> None:
    assert abs(growth(seen(50, 80, 99, 100, 101, 100, 99, 100))) < LEVEL_WITHIN


def test_a_heap_that_goes_on_growing_is_not() -> None:
    assert growth(seen(50, 60, 70, 80, 90, 100, 110, 120)) == pytest.approx(30 / 90)


def test_what_the_collector_fills_gaps_with_is_not_live() -> None:
    lines = """ num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:            10        3000000  [I (java.base@17)
   2:          2000          64000  java.lang.String (java.base@17)
   3:             2             48  [Lorg.example.Row;
Total          2012        3064048
"""
    found = counted(lines)
    assert found == HeapContents(64_048, {"[I": 10, "java.lang.String": 2000, "[Lorg.example.Row;": 2}, found.sizes)
    assert found.sizes == {"java.lang.String": 64_000, "[Lorg.example.Row;": 48}


def test_what_a_jvm_says_that_is_no_count_is_an_error() -> None:
    with pytest.raises(ValueError, match="no count of objects: 4711"):
        counted("4711\nCould not find any processes")


def test_the_classes_that_grow_are_told_by_the_least_of_three_looks() -> None:
    looks = [
        (number, HeapContents(0, {"Kept": number, "Cached": number % 3}, {"Kept": 24 * number, "Cached": number % 3}))
        for number in range(1, 13)
    ]
    assert growing(looks) == [("Kept", 6, 144)]
