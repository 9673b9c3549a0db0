"""Cut a bundle in the middle of its range (Pulsar: RangeEquallyDivideBundleSplitAlgorithm)."""

from __future__ import annotations

from evenkeel.model.split_algorithms.split_option import Cut, SplitOption


def cut(option: SplitOption) -> Cut:
    """Return one cut at lower + (upper - lower) div 2, whatever topics there are.

    The full range is cut at 0x7fffffff, as its upper end is 0xffffffff and not 2^32.
    """
    return Cut((option.lower + (option.upper - option.lower) // 2,), "middle_of_range")
