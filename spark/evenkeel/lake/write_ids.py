"""Write ids, the stamp of every row: unique per task try and cycle.

A try that writes one cycle of each cluster stamps all rows with its own id. A try that writes a window makes an id for
each cycle: the first digits of its own, and the moment of the cycle. So the ids of a try sort together, statistics of
files lead to them, and they are known without reading rows.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from evenkeel.handover import CycleKey, Handover

if TYPE_CHECKING:
    from pyspark.sql import Column

# Together as long as an id without a moment: the log's statistics keep no longer texts. Microseconds since 1970 need no
# more digits before the year 2112.
_OF_THE_TRY, _OF_THE_MOMENT = 19, 13
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def new_try() -> str:
    """Return the id of a task try, 32 hex digits; the part used in ids of cycles is practically unique."""
    return uuid.uuid4().hex


def try_of(write_id: str) -> str:
    """Return the common beginning of the ids of one try."""
    return write_id[:_OF_THE_TRY]


def ids_of(handover: Handover, try_id: str) -> dict[CycleKey, str]:
    """Return cycle -> the id under which a try writes its rows."""
    if not handover.is_window():
        return {cycle.key: try_id for cycle in handover.cycles}
    return {cycle.key: _of_cycle(try_id, cycle.at) for cycle in handover.cycles}


def _of_cycle(try_id: str, at: datetime) -> str:
    moment = f"{(at - _BEGIN) // timedelta(microseconds=1):0{_OF_THE_MOMENT}x}"
    if len(moment) != _OF_THE_MOMENT or moment.startswith("-"):
        raise ValueError(f"a cycle at {at.isoformat()} cannot be part of a window")
    return try_of(try_id) + moment


def id_column(handover: Handover, try_id: str) -> Column:
    """Return the write id of a row by its `cycle_at`, in SQL; the ids are those of `ids_of`."""
    from pyspark.sql import functions as F

    if not handover.is_window():
        return F.lit(try_id)
    moment = F.lpad(F.lower(F.hex(F.unix_micros(F.col("cycle_at").cast("timestamp")))), _OF_THE_MOMENT, "0")
    return F.concat(F.lit(try_of(try_id)), moment)
