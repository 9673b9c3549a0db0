"""Memory that a long-running process has freed, and that its allocators would keep; and how often it is looked through.

The C library of Linux cuts large blocks out of its heap once the first of them was freed, and small ones that live on
then hold the pages between them: over a month in windows a command kept twice as much as it used.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache

_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` in malloc.h."""
_LARGE = 1 << 20
"""Bytes of a block that the system gives, and takes back, by itself."""
_OBJECTS = 100_000
"""So many new objects at least between two looks for circles of garbage. By default it is some hundred: while the rows
of 100,000 bundles were made and decided on, Python looked through them again and again, for 40 % of the time."""


def look_for_circles_seldom() -> None:
    """From here on Python looks for objects that refer to each other and to which nothing leads less often; all other
    objects are freed at once, as ever."""
    gc.set_threshold(_OBJECTS)


def return_large_blocks() -> None:
    """From here on large blocks go back to the system as soon as they are freed; nothing where the C library has no
    such setting."""
    library = _glibc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def return_freed() -> None:
    """Gives back what was freed so far; nothing where the C library cannot do it."""
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
