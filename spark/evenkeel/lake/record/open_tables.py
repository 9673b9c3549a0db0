"""Tables that one process reads again and again: opened once, and updated once a look.

Opening a table reads its log since the last checkpoint: some forty requests in an object store, and a page reads a
dozen tables. Commands read a table once, and do not need this.
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
    """Return the table as its log describes it: within a look the look's one; raises what deltalake raises."""
    look = _LOOK.get()
    return delta_table(path) if look is None else look.table(path)


def mark_of(path: str) -> object:
    """Return the identity of a table, to detect a replaced one: the inode of its log's folder; None in a store."""
    try:
        status = os.stat(f"{path.removeprefix('file://')}/_delta_log")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def brought_up_to_date(opened: Any, path: str, mark: object) -> bool | None:
    """Take up new commits of an open table; return True if there were any.

    Returns None if another table has replaced it, it is gone, or cannot be read further: then the open table is
    useless.
    """
    newest = newest_version(path, since=opened.version())
    if newest < opened.version() or mark != mark_of(path):
        return None
    if newest == opened.version():
        return False
    try:
        opened.update_incremental()
    except Exception:  # whatever the error, opening the table again reports it
        return None
    return True


class OpenTables:
    """The tables of one process, most recently used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, object]] = OrderedDict()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Hold one look: in the block each table stays as first opened; other threads do not take part."""
        token = _LOOK.set(_Look(self))
        try:
            yield
        finally:
            _LOOK.reset(token)

    def current(self, path: str) -> Any:
        """Return the table as it is now."""
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
        """Return a table that is not older than the manifests: their listed rows were written before them."""
        if path not in self._seen:
            if path.endswith(_MANIFESTS):
                self._seen.clear()
            self._seen[path] = self._tables.current(path)
        return self._seen[path]


_LOOK: ContextVar[_Look | None] = ContextVar("evenkeel_look", default=None)
