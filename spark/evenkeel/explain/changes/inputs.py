"""The rows with which a recorded cycle was decided, read for asking its decisions again."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.errors import EvenkeelError, LakeError
from evenkeel.explain.changes.question import AskedCycle
from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.tables import is_in
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.store import Lake
from evenkeel.repetition.projections import columns_looked_at
from evenkeel.repetition.rounds import OBSERVED, ROUNDS, STATE
from evenkeel.spark.rows import rows_of
from evenkeel.verify.recorded_cycle import background_of, restore_cycle


def question_of(record: Record, attempt: Attempt) -> AskedCycle:
    """Return the question that repeats the decisions of an attempt; LakeError if some of its rows are gone."""
    try:
        cycle = restore_cycle(attempt, background_of(Lake(str(record.lake)), [attempt])).cycle_row
    except (LookupError, EvenkeelError) as error:
        raise LakeError(str(error)) from error
    # Decisions without an act, which expire first, are not used by the later rounds.
    tables = (*OBSERVED, *(table for task_round in ROUNDS for table in task_round.tables))
    rows: dict[str, Sequence[Row]] = {table: _rows(record, attempt, table) for table in tables}
    return AskedCycle({**rows, "cycle": [cycle], "state": _state_before(record, attempt)})


def _rows(record: Record, attempt: Attempt, table: str) -> list[Row]:
    kinds = types_of(table)
    wanted = columns_looked_at(table, list(kinds)) if table in OBSERVED else list(kinds)
    columns = {name: kinds[name] for name in wanted if name not in STAMP_NAMES}
    table_rows = record.arrow_rows([attempt], table, [*columns])
    rows = [] if table_rows is None else rows_of(table_rows, columns)
    listed = sum(write.rows for write in attempt.writes_of(table))
    if table in OBSERVED and len(rows) < listed:
        raise LakeError(f"rows of {table} are past their retention")
    return rows


def _state_before(record: Record, attempt: Attempt) -> list[Row]:
    """Return the state of the previous cycle: the rows of `strategy_state` that this one took over."""
    taken = sorted({write.write_id for write in attempt.reads_of(STATE)})
    at = attempt.planned["predecessor_cycle_at"]
    if not taken or at is None:
        return []
    rows = record.outbox(STATE, attempt.cluster, at, at, where=is_in("write_id", taken))
    if not rows:
        raise LakeError(f"the rows of {STATE} of the cycle before are past their retention")
    return [as_read(STATE, row) for row in rows]
