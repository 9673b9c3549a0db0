"""Recorded replays and simulations, read without a JVM: lists, figures, courses, and variants as settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoSuchReplay, SettingsError
from evenkeel.lake.record import Row
from evenkeel.lake.record.tables import all_of, damaged, dataset, files_between, is_in, is_table, rows_where
from evenkeel.model.amounts import plural
from evenkeel.replay.comparison import CLOSED_LOOP as COLUMNS_OF_A_MODEL
from evenkeel.replay.comparison import COLUMNS, cell_text
from evenkeel.replay.fold import CYCLES
from evenkeel.replay.history import CLOSED_LOOP, RUNS, HistorySpan, read_span
from evenkeel.replay.recorded_traffic import Error, Shift
from evenkeel.replay.simulation import GENERATED_MANAGER, default_settings
from evenkeel.replay.variants import RECORDED, Variant, notes_on, overrides_in, settings_of
from evenkeel.settings.key import Value

MOST_POINTS = 200
_LISTED = ("cluster", "replay_id", "kind", "since", "until", "cycles", "variants", "limit", "scenario", "made_at")
_WHOLE = (*_LISTED, "summary", "writes", "code_version")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReplayOnRecord:
    """A line of `replay_runs`.

    `variants`: name -> its differences, in words; `scenario`: the model and its traffic, None in an open loop;
    `summary`: a row of figures per variant, empty if not requested; `writes`: write id -> rows in `replay_cycles`.
    """

    cluster: str
    replay_id: str
    kind: str
    since: datetime
    until: datetime
    cycles: int
    variants: Mapping[str, str]
    limit: float
    scenario: Mapping[str, Any] | None
    made_at: datetime
    summary: tuple[Row, ...] = ()
    writes: Mapping[str, int] | None = None
    code_version: str = ""

    @property
    def is_simulation(self) -> bool:
        """Return True if variants steered a model."""
        return self.kind == CLOSED_LOOP

    @property
    def is_generated(self) -> bool:
        """Return True if the cluster was a model with generated traffic."""
        return self.scenario is not None and self.scenario.get("seed") is not None

    @property
    def model_error(self) -> str:
        """Return the model's error on the recorded cycles in words; empty without recorded traffic."""
        error = (self.scenario or {}).get("error")
        if error is None:
            return ""
        shift = error["shift"]
        return Error(**{**error, "shift": None if shift is None else Shift(**shift)}).sentence()

    def columns(self) -> Mapping[str, str]:
        """Key of a row of the summary -> heading."""
        return COLUMNS_OF_A_MODEL if self.is_simulation else COLUMNS

    def cells(self) -> list[list[str]]:
        """The summary as text, row by row, in the order of `columns`."""
        return [[cell_text(row, key) for key in self.columns()] for row in self.summary]


def list_replays(lake: str | Path, cluster: str | None = None) -> list[ReplayOnRecord]:
    """Return all completed replays, of one cluster or of all, the newest first."""
    replays = [_replay(lake, row) for row in _rows(lake, "cluster", cluster, _LISTED)]
    return sorted(replays, key=lambda replay: (replay.made_at, replay.replay_id), reverse=True)


def find_replays(lake: str | Path, ids: Sequence[str]) -> list[ReplayOnRecord]:
    """Return the replays of these ids, in the order of the ids, each once.

    Raises NoSuchReplay for one that is not on record, BadInput if they are of different clusters.
    """
    wanted = [*dict.fromkeys(ids)]
    known = {row["replay_id"]: row for row in _rows(lake, "replay_id", wanted, _WHOLE)}
    missing = [replay_id for replay_id in wanted if replay_id not in known]
    if missing:
        raise NoSuchReplay(
            f"no replay {missing[0][:80]!r} is on record in {lake}: one that is under way, or did not come to its end, "
            "is not listed"
        )
    replays = [_replay(lake, known[replay_id]) for replay_id in wanted]
    clusters = sorted({replay.cluster for replay in replays})
    if len(clusters) > 1:
        raise BadInput(
            f"these replays are of {plural(len(clusters), 'cluster')} ({', '.join(clusters)}): compare those of one"
        )
    return replays


def _rows(lake: str | Path, column: str, value: str | Sequence[str] | None, columns: Sequence[str]) -> list[Row]:
    if not is_table(lake, RUNS):
        return []
    values = [value] if isinstance(value, str) else value
    return rows_where(lake, RUNS, None if values is None else is_in(column, values), [*columns])


def _replay(lake: str | Path, row: Row) -> ReplayOnRecord:
    try:
        return ReplayOnRecord(
            **{name: row[name] for name in ("cluster", "replay_id", "kind", "since", "until", "cycles", "limit")},
            made_at=row["made_at"],
            variants=json.loads(row["variants"]),
            scenario=None if row["scenario"] is None else json.loads(row["scenario"]),
            summary=tuple(json.loads(row["summary"])) if "summary" in row else (),
            writes={w["write_id"]: w["rows"] for w in row.get("writes", ()) if w["table"] == CYCLES},
            code_version=row.get("code_version") or "",
        )
    except ValueError as error:
        raise damaged(lake, RUNS, error) from error


@dataclass(frozen=True, slots=True)
class VariantCourse:
    """One variant over the moments of a `Courses`, None where it has no cycle.

    `over_mean`: the largest usage over the mean after the plan, the worst of each stretch; `moves`: so far.
    """

    replay_id: str
    variant: str
    over_mean: tuple[float | None, ...]
    moves: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Courses:
    """At most `MOST_POINTS` moments, each the last of its stretch, and the courses over them.

    `missing`: why not all rows that the replays list exist, empty if they do.
    """

    moments: tuple[datetime, ...]
    courses: tuple[VariantCourse, ...]
    missing: str = ""

    def of(self, replay_id: str, variant: str) -> VariantCourse | None:
        """Return the course of a variant, None if it has no row."""
        return next(
            (course for course in self.courses if (course.replay_id, course.variant) == (replay_id, variant)), None
        )


def read_courses(lake: str | Path, replays: Sequence[ReplayOnRecord]) -> Courses:
    """The courses of all variants of replays of one cluster, from exactly the rows that the replays list."""
    import numpy as np
    import pyarrow.compute as pc

    try:
        rows = _course_rows(lake, replays)
    except LakeError as error:
        return Courses((), (), str(error))
    listed = sum(sum((listed_replay.writes or {}).values()) for listed_replay in replays)
    missing = f"{rows.num_rows:,} of {plural(listed, 'row')} are there" if rows.num_rows != listed else ""
    if not rows.num_rows:
        return Courses((), (), missing)
    times = rows["cycle_at"].cast("int64").to_numpy()
    stretch, ends = _stretches(np, times)
    values = rows["after_max_over_mean"].to_numpy(zero_copy_only=False).astype(float)
    moves = rows["moves"].to_numpy()
    courses = []
    for replay in replays:
        for variant in [str(row["variant"]) for row in replay.summary]:
            is_own = pc.and_(pc.equal(rows["replay_id"], replay.replay_id), pc.equal(rows["variant"], variant))
            mine = is_own.to_numpy()
            if mine.any():
                course = stretch[mine], values[mine], moves[mine]
                courses.append(VariantCourse(replay.replay_id, variant, *_course(np, len(ends), *course)))
    moments = tuple(_EPOCH + timedelta(microseconds=int(end)) for end in ends)
    return Courses(moments, tuple(courses), missing)


def _course_rows(lake: str | Path, replays: Sequence[ReplayOnRecord]) -> Any:
    first, last = min(replay.since for replay in replays), max(replay.until for replay in replays)
    ids = [write_id for replay in replays for write_id in replay.writes or {}]
    inside = all_of(is_in("replay_id", [replay.replay_id for replay in replays]), is_in("write_id", ids))
    columns = ["replay_id", "variant", "cycle_at", "after_max_over_mean", "moves"]
    try:
        files = dataset(lake, CYCLES, files_between([replays[0].cluster], first, last))
        return files.to_table(columns=columns, filter=inside)
    except (OSError, ValueError, KeyError) as error:
        raise damaged(lake, CYCLES, error) from error


def _stretches(np: Any, times: Any) -> tuple[Any, Any]:
    """Return each row's stretch (equal lengths, empty ones left out; few moments: one each), and each one's end."""
    distinct = np.unique(times)
    if len(distinct) <= MOST_POINTS:
        return np.searchsorted(distinct, times), distinct
    width = (distinct[-1] - distinct[0]) // MOST_POINTS + 1
    places, stretch = np.unique((times - distinct[0]) // width, return_inverse=True)
    ends = np.zeros(len(places), dtype="int64")
    np.maximum.at(ends, stretch, times)
    return stretch, ends


def _course(
    np: Any, length: int, stretch: Any, values: Any, moves: Any
) -> tuple[tuple[float | None, ...], tuple[int | None, ...]]:
    worst = np.full(length, np.nan)
    np.fmax.at(worst, stretch, values)
    sums, seen = np.zeros(length, dtype="int64"), np.zeros(length, dtype=bool)
    np.add.at(sums, stretch, moves)
    seen[stretch] = True
    so_far = np.cumsum(sums)
    return (
        tuple(None if np.isnan(value) else float(value) for value in worst),
        tuple(int(value) if is_present else None for value, is_present in zip(so_far, seen, strict=True)),
    )


_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class VariantLines:
    """A variant's lines for the file in EVENKEEL_CONFIG: its table's heading, and a line per key that differs.

    `note`: why there are none, or what they were compared with.
    """

    variant: str
    text: str
    note: str


def lines_of(lake: str, replay: ReplayOnRecord) -> list[VariantLines]:
    """Return the lines of each variant of a replay, compared with the settings of its cluster's newest decided cycle.

    With generated traffic they are compared with Pulsar's defaults.
    """
    span, trouble = None, ""
    if not replay.is_generated:
        try:
            span = read_span(lake, replay.cluster, None, None)
        except EvenkeelError as error:
            trouble = f"The settings in force are unknown: {error}."
    names = [name for name in replay.variants if name != RECORDED]
    return [_lines(replay, name, span) if not trouble else VariantLines(name, "", trouble) for name in names]


def _lines(replay: ReplayOnRecord, name: str, span: HistorySpan | None) -> VariantLines:
    in_force = default_settings() if span is None else span.settings
    manager = GENERATED_MANAGER if span is None else span.manager
    try:
        overrides = overrides_in(replay.variants[name])
        wanted = settings_of(Variant(name, overrides), in_force, manager, replay.cluster)
    except SettingsError as error:
        return VariantLines(name, "", f"These settings cannot be taken now: {error}.")
    if not overrides:
        return VariantLines(
            name, "", "It was decided with the settings recorded at that time: there is nothing to copy."
        )
    before, after = in_force.settings.values(), wanted.settings.values()
    differing = {key: value for key, value in after.items() if value != before[key]}
    if not differing:
        return VariantLines(name, "", "All of it is in force already.")
    heading = "[settings]" if span is None else f"[clusters.{_key(replay.cluster)}.settings]"
    notes = ["Compared with Pulsar's defaults, since the cluster was a model."] if span is None else []
    note = " ".join([*notes, *(f"{text}." for text in notes_on([differing], wanted.settings.generation))])
    lines = [f"{key} = {_toml(value)}" for key, value in sorted(differing.items())]
    return VariantLines(name, "\n".join((heading, *lines)), note)


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, frozenset | tuple):
        each = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(map(_quoted, each))}]"
    return _quoted(value or "")  # no value, of a key that may have none, is written as an empty text


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
