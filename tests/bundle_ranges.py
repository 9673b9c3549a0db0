"""What is wrong with a set of bundle ranges, for tests of splits."""

from collections.abc import Iterable

from evenkeel.model.bundles import HIGHEST_HASH, BundleRange, boundary_text


def validate_ranges(ranges: Iterable[BundleRange]) -> list[str]:
    """Holes and overlaps among the ranges of one namespace, in words; empty if they cover all hashes once."""
    problems = []
    reached = 0
    for found in sorted(ranges):
        if found.lower > reached:
            problems.append(f"hole: {boundary_text(reached)}_{boundary_text(found.lower)} belongs to no bundle")
        elif found.lower < reached:
            problems.append(f"overlap: {found} begins before {boundary_text(reached)}")
        reached = max(reached, found.upper)
    if reached != HIGHEST_HASH:
        problems.append(f"hole: {boundary_text(reached)}_0xffffffff belongs to no bundle")
    return problems
