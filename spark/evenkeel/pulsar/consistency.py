"""Whether a snapshot's own times fit together; no clock is asked."""

from __future__ import annotations

from datetime import datetime, timedelta

from evenkeel.pulsar.reading import Rejection, place_of
from evenkeel.pulsar.view import View

TIMES_DO_NOT_FIT = "times_do_not_fit"


def times_that_do_not_fit(view: View, tolerance_seconds: float) -> Rejection | None:
    """Why the snapshot cannot be of the moment that it names, or None.

    It must have finished after it started, and every request must lie between, give or take the tolerance (the
    collector's clock may be set meanwhile).
    """
    start, end = view.started_at, view.finished_at
    if start is not None and end < start:
        return _rejection("snapshot", f"finished_at {_z(end)} lies before started_at {_z(start)}")
    tolerance = timedelta(seconds=tolerance_seconds)
    outside = [
        (at, answer) for answer, at in view.own.times() if at > end + tolerance or at < (start or end) - tolerance
    ]
    if not outside:
        return None
    at, answer = min(outside, key=lambda item: (item[0], item[1].n))
    found = (
        f"{len(outside)} of {len(view.own)} requests lie outside the snapshot's time ({_z(start or end)} to {_z(end)}) "
        f"by more than evenkeelFutureToleranceSeconds = {tolerance_seconds:g}, the first at {_z(at)}"
    )
    return _rejection(place_of(answer), found)


def _rejection(place: str, found: str) -> Rejection:
    reason = f"{found}: it is not known of which moment the snapshot is; set the collector's clock and take a new one"
    return Rejection("cluster_policies", place, TIMES_DO_NOT_FIT, reason, None)


def _z(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
