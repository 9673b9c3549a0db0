"""What unfolds under a decision of the report: the rule with its numbers, what lost, what would have changed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.audit.explain.changes import Around
from evenkeel.audit.explain.changes.splits import setting_values
from evenkeel.audit.explain.model import reason_of
from evenkeel.audit.explain.text import MOST_LINES, alternative_line, rule_line
from evenkeel.audit.read import Row


@dataclass(frozen=True, slots=True)
class Why:
    """In words as `evenkeel explain` has them; `others` are empty where the report shows them in a table."""

    rule: str
    others: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


class Whys:
    """The explanations of a cycle's rows; each is made when it is asked for."""

    def __init__(self, tables: Mapping[str, Sequence[Row]]) -> None:
        self._settings = tables.get("settings", ())
        values = setting_values(self._settings)
        self._around = {table: Around(rows, values) for table, rows in tables.items() if table.endswith("_decisions")}

    def of(self, table: str, row: Row) -> Why:
        """The explanation of one row of a decided table."""
        reason = reason_of(table, row, self._around[table], self._settings)
        others = () if table == "placement_decisions" else reason.alternatives[:MOST_LINES]
        return Why(
            rule_line(reason),
            tuple(alternative_line(one) for one in others),
            tuple(change.sentence for change in reason.changes[:MOST_LINES]),
        )
