"""Puts the import of a library off until something of it is used, for libraries that others import and never use."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, find_spec
from types import ModuleType


class _Finder:
    """Finds the named modules as Python would, and gives them a loader that waits for the first use."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        self._names.discard(name)  # asked below for the same name, the others must answer
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def put_off(*names: str) -> Iterator[None]:
    """While the block runs, importing one of these modules for the first time only notes where it is."""
    finder = _Finder([name for name in names if name not in sys.modules])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
