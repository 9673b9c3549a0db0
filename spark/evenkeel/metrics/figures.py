"""Reads the figures of all metrics from a lake: those of the status, of the log and of the last `verify`.

Durations of a cycle's tasks come from the commits of their rows: every commit names its task and its write. A task's
own process knows more, and Airflow exports it (`airflow.task.duration`); the lake knows when rows were committed.

Figures of the transparency log are read again only after a change, and never too often. The ends of chains come from
Delta's log of `cycles`, which takes a second for a year of cycles. For a table without statistics of its files, every
file has to be opened. So after a reading the next one waits for twenty times as long.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from evenkeel.errors import EvenkeelError
from evenkeel.handover import PULSAR_ADMIN
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.record import Attempt, Row
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.metrics.declarations import NEEDS, OPEN_COMMAND, OUTCOMES, SEVERITIES
from evenkeel.pipeline import TASK_IDS
from evenkeel.status.attention import StatusRows, is_newer, usual_distance
from evenkeel.status.gather import StatusGathered, gather_status, written_rows
from evenkeel.status.line import ClusterStatus, line_of
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.lake_log import has_log, storage_of
from evenkeel.transparency.log import CHECKPOINT
from evenkeel.transparency.overview import LogOverview, read_overview
from evenkeel.transparency.witnesses import STATES
from evenkeel.verify.runs import read_runs

REST = 20
"""Factor of a reading's duration after which the next reading may start."""


@dataclass(frozen=True, slots=True)
class LogSeen:
    """A log at a moment; `written_at`: when its newest checkpoint was written (seconds since 1970), None if unknown."""

    overview: LogOverview
    written_at: float | None


class LogWatch:
    """The log of a lake, as far as it was read."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._key: tuple[object, ...] | None = None
        self._seen: LogSeen | None = None
        self._not_before = 0.0

    def read(self) -> LogSeen | None:
        """Return the log's figures, latest known; None without a log. Raises LogError, LakeError or BadNote."""
        if self._key is not None and time.monotonic() < self._not_before:
            return self._seen
        files = files_of(Lake(self._lake).root)
        if not has_log(storage := storage_of(self._lake)):
            self._key, self._seen = None, None
            return None
        key = storage.get(CHECKPOINT), storage.get(STATES), newest_version(Lake(self._lake).path("cycles"))
        if key != self._key:
            begun = time.monotonic()
            self._key = None
            self._seen = LogSeen(read_overview(self._lake), files.modified(LOG_FOLDER).get(CHECKPOINT))
            ended = time.monotonic()
            self._key, self._not_before = key, ended + REST * (ended - begun)
        return self._seen


_KEPT_COMMITS = 20_000
_MOST_BYTES = 4 << 20
_LONGEST = timedelta(days=1)
"""A task that seems to take longer does not: the snapshot was another day's, or a clock is wrong."""


class CommitTimes:
    """Times of a lake's commits, with their tasks; earlier reads stay in memory."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake(lake)
        self._commit = lru_cache(_KEPT_COMMITS)(self._read)

    def seconds_of(self, attempt: Attempt) -> dict[str, float]:
        """Return task -> its duration in seconds, for tasks of an attempt with known commits; see `declarations`."""
        ends: dict[str, datetime] = {}
        for write in attempt.writes:
            commit = self._commit(write.table, write.version)
            if commit is not None and commit[1] == write.write_id:
                ends[commit[0]] = max(commit[2], ends.get(commit[0], commit[2]))
        recorded = attempt.planned.get("recorded_at")
        if recorded is not None and ends:
            ends["publish"] = max(recorded, ends.get("publish", recorded))
        taken = attempt.planned.get("snapshot_at")
        before = taken if attempt.planned.get("source") == PULSAR_ADMIN and attempt.kind == "live" else None
        seconds: dict[str, float] = {}
        for task in (name for name in TASK_IDS if name in ends):
            if before is not None and timedelta(0) <= ends[task] - before <= _LONGEST:
                seconds[task] = (ends[task] - before).total_seconds()
            before = ends[task]
        return seconds

    def _read(self, table: str, version: int) -> tuple[str, str, datetime] | None:
        """Return task, write id and moment of a commit; None if it is gone, or lacks them."""
        files = files_of(self._lake.path(table))
        try:
            data = files.read(f"_delta_log/{version:020d}.json")
        except OSError:  # the log keeps commits for a while only
            return None
        if len(data) > _MOST_BYTES:
            return None
        for line in data.splitlines():
            if line.startswith(b'{"commitInfo"'):
                return _said(line)
        return None


def _said(line: bytes) -> tuple[str, str, datetime] | None:
    try:
        info: dict[str, Any] = parse_json(line)["commitInfo"]
        info_fields = parse_json(info["userMetadata"])
        moment = datetime.fromtimestamp(int(info["timestamp"]) / 1000, UTC)
        return str(info_fields["task_id"]), str(info_fields["write_id"]), moment
    except (NotJson, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


MOST_WITNESSES = 32
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
            _try(figures, "log", lambda: _say_log(figures, self._log.read()))
            _try(figures, "verify", lambda: _say_verify(figures, self._recent.lake))
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


def _say_log(figures: LakeFigures, seen: LogSeen | None) -> None:
    if seen is None:
        return
    overview = seen.overview
    size = overview.checkpoint.checkpoint.size
    figures.say("evenkeel_log_leaves", size)
    figures.say("evenkeel_checkpoint_timestamp_seconds", seen.written_at)
    figures.say("evenkeel_unlogged_commits", sum(overview.unlogged.values()))
    figures.say("evenkeel_lost_commits", sum(overview.lost.values()))
    for witness in overview.witnesses[:MOST_WITNESSES]:
        figures.say("evenkeel_witness_timestamp_seconds", witness.at, witness.name)
        figures.say("evenkeel_witness_behind_leaves", max(size - witness.size, 0), witness.name)
        figures.say("evenkeel_witness_failing", bool(witness.fault), witness.name)
        figures.say("evenkeel_witness_inconsistent", witness.is_inconsistent, witness.name)


def _say_verify(figures: LakeFigures, lake: str) -> None:
    for run in read_runs(lake, 1)[:1]:
        figures.say("evenkeel_verify_timestamp_seconds", run.at.timestamp())
        figures.say("evenkeel_verify_faults", run.places)
