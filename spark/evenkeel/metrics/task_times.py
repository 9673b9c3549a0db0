"""Durations of a cycle's tasks, by the commits of their rows: every commit names its task and its write.

A task's own process knows more, and Airflow exports it (`airflow.task.duration`); the lake knows when rows were
committed.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.handover import PULSAR_ADMIN
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.record import Attempt
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.pipeline import TASK_IDS

_KEPT_COMMITS = 20_000
_MOST_BYTES = 4 << 20
_LONGEST = timedelta(days=1)
"""A task that seems to take longer does not: the snapshot was another day's, or a clock is wrong."""


class CommitTimes:
    """Times of a lake's commits, with their tasks; earlier reads stay in memory."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake(lake)
        self._known: OrderedDict[tuple[str, int], tuple[str, str, datetime] | None] = OrderedDict()

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

    def _commit(self, table: str, version: int) -> tuple[str, str, datetime] | None:
        key = (table, version)
        if key not in self._known:
            self._known[key] = self._read(table, version)
            if len(self._known) > _KEPT_COMMITS:
                self._known.popitem(last=False)
        return self._known[key]

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
