"""Memory of a long-running process: returning freed blocks to the system, and the frequency of garbage collection.

The C library of Linux cuts large blocks out of its heap once the first of them was freed. Small blocks that live on
then hold the pages between them: over a month in windows a command kept twice as much as it used.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache

_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` in malloc.h."""
_LARGE = 1 << 20
"""Size in bytes from which a block is mapped, and unmapped, by itself."""
_OBJECTS = 100_000
"""New objects, at least, between two runs of the cyclic garbage collector. The default is some hundred. While the rows
of 100,000 bundles were made and decided on, the collector took 40 % of the time."""


def look_for_circles_seldom() -> None:
    """Run Python's cyclic garbage collector less often; other objects are still freed at once."""
    gc.set_threshold(_OBJECTS)


def return_large_blocks() -> None:
    """Return large blocks to the system as soon as they are freed, from now on; do nothing if the C library cannot."""
    library = _glibc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def return_freed() -> None:
    """Return all freed memory to the system; do nothing if the C library cannot."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None
    except (OSError, TypeError):  # Windows
        return None
