"""The order of a backfill's cycles: each continues from the averages and the state of the previous one.

Airflow starts the runs of a backfill in parallel, whatever `max_active_runs` the DAG has, and goes backwards on
request. So the first task of each run waits for the previous run, and fails with a message if that one cannot come.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.errors import EvenkeelError

log = logging.getLogger(__name__)

BACKFILL = "backfill"
_UNDER_WAY = frozenset({"queued", "running"})
# A run that is next in line begins within seconds; one that does not is kept from it by those after it.
_LONGEST_IN_LINE = timedelta(minutes=2)
_LOOK_EVERY_S = 1.0
# Then the task gives its place in the pool back and comes again.
_LOOK_FOR_S = 60.0
_COME_AGAIN = timedelta(seconds=5)


def kind_of(dag_run: Any) -> str:
    """backfill or live."""
    run_type = str(getattr(dag_run.run_type, "value", dag_run.run_type))
    return BACKFILL if run_type == BACKFILL else "live"


def await_turn(dag_run: Any, ti: Any, *, windows: bool = False) -> datetime | None:
    """Return once the previous run of this backfill is over, with its logical date; at once in any other run.

    `windows`: True if every run of the DAG decides an interval of the past, whatever its kind. Then any run waits for
    each run under way. Only a backfill's previous run is also awaited before it begins, as any other run might be what
    keeps it from beginning. Raises OutOfOrder if it has not begun in time, AirflowRescheduleException to be called
    again later.
    """
    in_line = kind_of(dag_run) == BACKFILL
    if not in_line and not windows:
        return None
    begin = time.monotonic()
    before = ti.get_previous_dagrun()
    while must_wait(before, dag_run.start_date, datetime.now(UTC), in_line=in_line, windows=windows):
        if time.monotonic() - begin > _LOOK_FOR_S:
            from airflow.sdk.exceptions import AirflowRescheduleException

            raise AirflowRescheduleException(datetime.now(UTC) + _COME_AGAIN)
        log.info("waits for the cycle of %s, from which this one goes on", before.logical_date.isoformat())
        time.sleep(_LOOK_EVERY_S)
        before = ti.get_previous_dagrun()
    return None if before is None else before.logical_date


def must_wait(
    before: Any, since: datetime | None, now: datetime, *, in_line: bool = True, windows: bool = False
) -> bool:
    """Return True if the previous run (None: there is none) has not ended.

    This run is under way `since` then, and `in_line` if it is one of a backfill. `windows` as in `await_turn`.
    """
    if before is None:
        return False
    state = str(getattr(before.state, "value", before.state))
    if not in_line or kind_of(before) != BACKFILL:
        return windows and state == "running"
    if state == "queued" and since is not None and now - since > _LONGEST_IN_LINE:
        raise OutOfOrder(
            f"the run before this one ({before.run_id}) has not begun, and this cycle goes on from its averages: the "
            "backfill goes backwards, or that run was cleared alone. Create the backfill without --run-backwards, or "
            "clear this task once that run is over."
        )
    return state in _UNDER_WAY


class AirflowError(EvenkeelError):
    """Airflow does not start, does not answer, or refuses a request; the text is fit for an operator."""


class OutOfOrder(AirflowError):
    """A backfill's cycle was started before the one that it goes on from."""
