"""Reads the figures of all metrics from a lake: those of the status, of the log and of the last `verify`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow.compute as pc

from evenkeel.errors import EvenkeelError
from evenkeel.lake.record import Row
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.metrics.declarations import NEEDS, OPEN_COMMAND, OUTCOMES, SEVERITIES
from evenkeel.metrics.log_figures import LogSeen, LogWatch
from evenkeel.metrics.task_times import CommitTimes
from evenkeel.status.attention import StatusRows, is_newer, usual_distance
from evenkeel.status.gather import StatusGathered, gather_status, written_rows
from evenkeel.status.line import ClusterStatus, line_of
from evenkeel.transparency.overview import LogOverview
from evenkeel.verify.runs import read_runs

MOST_WITNESSES = 32
_LOG, _VERIFY = "log", "verify"
Labels = tuple[str, ...]


@dataclass
class LakeFigures:
    """Name of a metric -> the values of its labels -> its value. `unread`: part of the lake -> why it was not read."""

    values: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    unread: dict[str, str] = field(default_factory=dict)

    def say(self, name: str, value: float | None, *labels: str) -> None:
        """Note a value; None is ignored."""
        if value is not None:
            self.values[name][labels] = float(value)


class LakeReader:
    """Reads a lake again and again, and keeps earlier reads in memory."""

    def __init__(self, lake: str) -> None:
        self._recent, self._commits, self._log = Recent(lake), CommitTimes(lake), LogWatch(lake)

    def read(self, now: datetime, cluster: str | None = None) -> LakeFigures:
        """Return the current figures, of all clusters or of one. Raises the errors of `read_status`."""
        gathered = gather_status(self._recent, cluster=cluster)
        figures = LakeFigures(unread=dict(gathered.unread))
        for rows in gathered.clusters:
            _say_cluster(figures, rows, line_of(rows, now))
        self._say_validation(figures, gathered)
        for rows in gathered.clusters:
            if not is_newer(rows.newest):
                for task, seconds in self._commits.seconds_of(rows.newest).items():
                    figures.say("evenkeel_task_duration_seconds", seconds, rows.cluster, task)
        if cluster is None:
            _try(figures, _LOG, lambda: _say_log(figures, self._log.read()))
            _try(figures, _VERIFY, lambda: _say_verify(figures, self._recent.lake))
        return figures

    def _say_validation(self, figures: LakeFigures, gathered: StatusGathered) -> None:
        newest = [rows.newest for rows in gathered.clusters if not is_newer(rows.newest)]
        broken: dict[str, list[Row]] = {}

        def read() -> None:
            broken.update(
                written_rows(self._recent, newest, "validation_results", ("severity", "passed"), ~pc.field("passed"))
            )

        if _try(figures, "validation_results", read):
            for attempt in newest:
                if attempt.writes_of("validation_results"):
                    counts = Counter(str(row["severity"]) for row in broken.get(attempt.cluster, ()))
                    for severity in SEVERITIES:
                        figures.say("evenkeel_validation_failures", counts[severity], attempt.cluster, severity)


def _try(figures: LakeFigures, part: str, read: Callable[[], None]) -> bool:
    """Return True if a part could be read; a fault is kept, and the other parts are still valid."""
    try:
        read()
    except (EvenkeelError, OSError) as error:
        figures.unread[part] = str(error)
        return False
    return True


def _say_cluster(figures: LakeFigures, rows: StatusRows, line: ClusterStatus) -> None:
    name, newest = rows.cluster, rows.newest
    figures.say("evenkeel_cycle_timestamp_seconds", newest.cycle_at.timestamp(), name)
    _say_needs(figures, rows, line)
    if is_newer(newest):
        return
    usual = usual_distance(rows.attempts)
    snapshots = (_seconds(attempt.planned.get("snapshot_at")) for attempt in reversed(rows.attempts))
    figures.say("evenkeel_balance_ratio", line.balance, name)
    figures.say("evenkeel_cycle_recorded_timestamp_seconds", _seconds(newest.planned.get("recorded_at")), name)
    figures.say("evenkeel_cycle_interval_seconds", None if usual is None else usual.total_seconds(), name)
    figures.say("evenkeel_snapshot_timestamp_seconds", next((at for at in snapshots if at is not None), None), name)
    figures.say("evenkeel_cycle_unloads", line.unloads, name)
    figures.say("evenkeel_cycle_splits", line.splits, name)
    figures.say("evenkeel_rejected_records", newest.planned.get("rejected_records"), name)
    if "broker_load" not in figures.unread:
        figures.say("evenkeel_brokers", line.brokers, name)
    counts = Counter(str(act["outcome"] or OPEN_COMMAND) for act in newest.planned.get("acts") or ())
    for outcome in OUTCOMES:
        figures.say("evenkeel_commands", counts[outcome], name, outcome)


def _say_needs(figures: LakeFigures, rows: StatusRows, line: ClusterStatus) -> None:
    counts = {need.kind: need.count for need in line.needs}
    for kind in NEEDS:
        is_known = not is_newer(rows.newest) and not kind.rests_on & figures.unread.keys()
        known = 0 if is_known else None
        figures.say(kind.metric.name, counts.get(kind.need, known), rows.cluster)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


# The transparency log, and the last `verify`.


def _say_log(figures: LakeFigures, seen: LogSeen | None) -> None:
    if seen is None:
        return
    overview = seen.overview
    size = overview.checkpoint.checkpoint.size
    figures.say("evenkeel_log_leaves", size)
    figures.say("evenkeel_checkpoint_timestamp_seconds", seen.written_at)
    figures.say("evenkeel_unlogged_commits", sum(overview.unlogged.values()))
    figures.say("evenkeel_lost_commits", sum(overview.lost.values()))
    _say_witnesses(figures, overview, size)


def _say_witnesses(figures: LakeFigures, overview: LogOverview, size: int) -> None:
    for witness in overview.witnesses[:MOST_WITNESSES]:
        figures.say("evenkeel_witness_timestamp_seconds", witness.at, witness.name)
        figures.say("evenkeel_witness_behind_leaves", max(size - witness.size, 0), witness.name)
        figures.say("evenkeel_witness_failing", bool(witness.fault), witness.name)
        figures.say("evenkeel_witness_inconsistent", witness.is_inconsistent, witness.name)


def _say_verify(figures: LakeFigures, lake: str) -> None:
    for run in read_runs(lake, 1)[:1]:
        figures.say("evenkeel_verify_timestamp_seconds", run.at.timestamp())
        figures.say("evenkeel_verify_faults", run.places)
