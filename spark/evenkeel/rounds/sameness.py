"""Whether rows decided now are those that were recorded, to the bit, in whatever order."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenkeel.lake.plain import as_read

Row = Mapping[str, Any]

# The last version of the format in which a value's bytes do not depend on which other values are the same object.
_BY_VALUE = 2


def same(table: str, columns: Sequence[str], recorded: Iterable[Row], made: Iterable[Row]) -> bool:
    """Compares these columns of a table: `recorded` as they were read, `made` as a round gave them."""
    return _contents(columns, recorded) == _contents(columns, (as_read(table, row) for row in made))


def _contents(columns: Sequence[str], rows: Iterable[Row]) -> list[bytes]:
    """Bytes that are equal for equal rows only: -0.0 is not 0.0, and a NaN is itself."""
    return sorted(marshal.dumps([row[name] for name in columns], _BY_VALUE) for row in rows)
