"""Tables that one process looks at again and again: opened once, and brought up to date once a look.

To open a table is to read its log since the last checkpoint: some forty requests where it lies in an object store, and
a page is made of a dozen tables. Commands look once, and need none of this.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.table_files import delta_table

_MOST = 24
_MANIFESTS = "/cycles"


def open_at(path: str) -> Any:
    """The table as its log describes it: within a look the one that the look has; raises what deltalake raises."""
    look = _LOOK.get()
    return delta_table(path) if look is None else look.table(path)


def mark_of(path: str) -> object:
    """What tells a table from another one that took its place: the identity of its log's folder; None in a store."""
    try:
        found = os.stat(f"{path.removeprefix('file://')}/_delta_log")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def brought_up_to_date(opened: Any, path: str, mark: object) -> bool | None:
    """Takes up what was committed to an open table; whether that was anything.

    None where another table has taken its place, it is gone, or cannot be read on: what was opened is of no use then.
    """
    newest = newest_version(path, since=opened.version())
    if newest < opened.version() or mark != mark_of(path):
        return None
    if newest == opened.version():
        return False
    try:
        opened.update_incremental()
    except Exception:  # whatever it is, opening the table anew will say it
        return None
    return True


class OpenTables:
    """The tables of one process, those used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, object]] = OrderedDict()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Within it, each table is as it was when it was first asked for; other threads do not take part."""
        token = _LOOK.set(_Look(self))
        try:
            yield
        finally:
            _LOOK.reset(token)

    def current(self, path: str) -> Any:
        """The table as it is now."""
        opened, mark = self._kept.pop(path, (None, None))
        if opened is None or brought_up_to_date(opened, path, mark) is None:
            mark = mark_of(path)
            opened = delta_table(path)
        self._kept[path] = opened, mark
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return opened


class _Look:
    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables
        self._seen: dict[str, Any] = {}

    def table(self, path: str) -> Any:
        """A table, not older than the manifests: what they list was written before them."""
        if path not in self._seen:
            if path.endswith(_MANIFESTS):
                self._seen.clear()
            self._seen[path] = self._tables.current(path)
        return self._seen[path]


_LOOK: ContextVar[_Look | None] = ContextVar("evenkeel_look", default=None)
