"""Bundles that share hashes: one of them was, or will be, part of the other."""

from __future__ import annotations

from evenkeel.decisions.bundles import BundleRange, namespace_of, range_of
from evenkeel.errors import BadInput


def overlaps(bundle: str, other: str) -> bool:
    """Whether two bundles of one namespace share hashes; a name that is no bundle's equals itself only."""
    if bundle == other:
        return True
    found = _ranges(bundle, other)
    return found is not None and found[0].lower < found[1].upper and found[1].lower < found[0].upper


def is_part_of(bundle: str, whole: str) -> bool:
    """Whether a bundle lies within another one and is smaller."""
    found = _ranges(bundle, whole) if bundle != whole else None
    return found is not None and found[1].covers(found[0])


def _ranges(bundle: str, other: str) -> tuple[BundleRange, BundleRange] | None:
    """The ranges of two bundles of one namespace."""
    try:
        if namespace_of(bundle) != namespace_of(other):
            return None
        return range_of(bundle), range_of(other)
    except BadInput:
        return None
