"""One cycle's rows as several rounds and several variants see them: what is worked out of them is kept.

The live pipeline hands a round plain rows, and everything is worked out once for that round. Whoever decides a cycle
as a whole, or by several strategies, hands over `SharedRows`: reports, histories and boundaries are then made once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
_T = TypeVar("_T")


class SharedRows(dict[str, Sequence[Row]]):
    """Rows by table. `known` holds what was made of the observed ones, which no decision changes.

    With `acts_only` rounds leave out verdicts after which nothing happens: what is split, unloaded, placed or refused
    is the same, and a plan has no id.
    """

    def __init__(self, rows: Rows, known: dict[Hashable, Any] | None = None, *, acts_only: bool = False) -> None:
        super().__init__(rows)
        self.known: dict[Hashable, Any] = {} if known is None else known
        self.acts_only = acts_only

    def having(self, more: Rows) -> SharedRows:
        """These rows with other decided rows, cycle or state; what is worked out of the observed ones stays."""
        return SharedRows({**self, **more}, self.known, acts_only=self.acts_only)


def once(work_out: Callable[[Rows], _T]) -> Callable[[Rows], _T]:
    """A function of observed rows alone, neither of settings nor of decisions, whose answer is kept with the rows.

    The answer is shared, so nobody may change it.
    """

    @wraps(work_out)
    def kept(rows: Rows) -> _T:
        return once_for(rows, work_out, lambda: work_out(rows))

    return kept


def once_for(rows: Rows, key: Hashable, work_out: Callable[[], _T]) -> _T:
    """The value that `work_out` gives for the key, worked out once for these rows."""
    if not isinstance(rows, SharedRows):
        return work_out()
    if key not in rows.known:
        rows.known[key] = work_out()
    found: _T = rows.known[key]
    return found


def is_known(rows: Rows, function: Callable[[Rows], Any]) -> bool:
    """Whether the answer of a function marked `once` is kept with these rows."""
    return isinstance(rows, SharedRows) and getattr(function, "__wrapped__", function) in rows.known


def acts_only(rows: Rows) -> bool:
    """Whether verdicts after which nothing happens are to be left out."""
    return isinstance(rows, SharedRows) and rows.acts_only
