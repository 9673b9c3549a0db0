"""Memory that a long-running process has freed, and that its allocators would keep.

The C library of Linux cuts large blocks out of its heap once the first of them was freed, and small ones that live on
then hold the pages between them: over a month in windows a command kept twice as much as it used.
"""

from __future__ import annotations

import ctypes
from functools import cache

_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` in malloc.h."""
_LARGE = 1 << 20
"""Bytes of a block that the system gives, and takes back, by itself."""


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
