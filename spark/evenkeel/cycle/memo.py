"""One cycle's rows for several rounds and variants, with the values computed from them.

The live pipeline gives a round plain rows, and every value is computed once for that round. A caller that decides a
whole cycle, or decides by several strategies, passes `SharedRows`: reports, histories and boundaries are then made
once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
_T = TypeVar("_T")


class SharedRows(dict[str, Sequence[Row]]):
    """Rows by table. `known` holds values made of the observed ones, which no decision changes.

    With `acts_only` rounds leave out verdicts without effect: splits, unloads, placements and refusals are equal, and a
    plan has no id.
    """

    def __init__(self, rows: Rows, known: dict[Hashable, Any] | None = None, *, acts_only: bool = False) -> None:
        super().__init__(rows)
        self.known: dict[Hashable, Any] = {} if known is None else known
        self.acts_only = acts_only

    def having(self, more: Rows) -> SharedRows:
        """Return these rows with other decided rows, cycle or state; values computed from the observed ones stay."""
        return SharedRows({**self, **more}, self.known, acts_only=self.acts_only)


def once(work_out: Callable[[Rows], _T]) -> Callable[[Rows], _T]:
    """Wrap a function of observed rows alone, neither of settings nor of decisions, so that its answer is kept with the
    rows.

    The answer is shared and must not be changed.
    """

    @wraps(work_out)
    def kept(rows: Rows) -> _T:
        return once_for(rows, work_out, lambda: work_out(rows))

    return kept


def once_for(rows: Rows, key: Hashable, work_out: Callable[[], _T]) -> _T:
    """Return the value that `work_out` gives for the key, computed once for these rows."""
    if not isinstance(rows, SharedRows):
        return work_out()
    if key not in rows.known:
        rows.known[key] = work_out()
    value: _T = rows.known[key]
    return value


def is_known(rows: Rows, function: Callable[[Rows], Any]) -> bool:
    """Return True if the answer of a function marked `once` is kept with these rows."""
    return isinstance(rows, SharedRows) and getattr(function, "__wrapped__", function) in rows.known


def acts_only(rows: Rows) -> bool:
    """Return True if verdicts without effect are to be left out."""
    return isinstance(rows, SharedRows) and rows.acts_only
