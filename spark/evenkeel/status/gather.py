"""Reads the rows of the status from the lake: only the newest cycles of each cluster, for all clusters together.

The amount read is bounded by the number of clusters, not by the length of the record. Only the log of `cycles` is read
whole; for other tables the manifests name the files with the rows of a cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.lake.controls import PAUSE, RESUME
from evenkeel.lake.outbox import SENT, harmed
from evenkeel.lake.record import Attempt, Record, Row, attempts_of, clusters_of, trusted
from evenkeel.lake.record.attempts import are_told_apart_by_commands
from evenkeel.lake.record.known_files import LAST_MOMENT, KnownFile, log_moment
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.record.tables import is_in
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.model.past_commands import HARMED
from evenkeel.status.attention import (
    AGE_KEY,
    BOUNCE_SPAN,
    BROKEN_PROMISES_RULE,
    HARM_SPAN,
    MISCONFIGURED,
    SOLE_BUNDLE_RULES,
    StatusRows,
    answer_by,
    is_newer,
    waits_for_approval,
)

COURSE_CYCLES = 24
"""More points than this could not be told apart in a line."""
LEAST_COURSE = 3
FAIR_COURSE_FILES = 240
"""Number of files that the clusters share; each cluster has at least LEAST_COURSE cycles."""
MOST_OUTBOX_FILES = 240
"""Maximum number of files of `commands` that are read for moves back at once; for other clusters only guards report
them."""
MORE_COURSE_FILES = 60
"""Number of files more that one look reads. Earlier files are in memory, so courses grow from look to look."""
_MANIFEST = (
    *("cycle_at", "sequence", "row_kind", "attempt_id", "attempt", "kind", "mode", "plan_id", "status", "reason"),
    *("splits", "unloads", "held", "before_max_over_mean", "source", "schema_version", "acts", "writes", "files"),
    *("snapshot_at", "recorded_at", "rejected_records"),
)
_LIGHT = tuple(name for name in _MANIFEST if name not in ("acts", "writes", "files"))
_MANY_ROWS = 8 * COURSE_CYCLES
"""Of a file of `cycles` with more rows only the newest are taken."""
_THREADS = 3
_STAMP = ("cycle_at", "write_id")
_REPORTS = ("broker", "state", "state_reason")
_LOAD = ("broker", "state", "bundles", "msg_rate_in", "msg_rate_out")
_UNLOADS = ("subject", "subject_kind", "strategy", "rule", "sentence")
_GUARDS = ("subject", "subject_kind", "outcome", "rule", "sentence")
_FINDINGS = ("subject", "rule", "sentence")
_COMMANDS = ("command_id", "cycle_at", "plan_id", "step", "kind", "bundle", "from_broker", "destination", "mode")
_OUTCOMES = ("command_id", "cycle_at", "outcome", "seen_at", "detail")
ByCluster = dict[str, list[Row]]
Span = tuple[datetime, datetime]


@dataclass
class StatusGathered:
    """The gathered rows. `clusters`: the rows of each. `unread`: table -> why it could not be read."""

    lake: str
    clusters: list[StatusRows] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


def gather_status(lake: str | Path | Recent, *, cluster: str | None = None) -> StatusGathered:
    """Return the rows of all clusters on record, or of the named one, by name.

    An existing `Recent` is refreshed, and only new files are read. Raises NoSuchCycle for a cluster that is not on
    record, with the nearest name, or if none is; LakeError if `cycles` cannot be read.
    """
    recent = lake if isinstance(lake, Recent) else Recent(lake)
    recent.refresh()
    names = clusters_of(recent, cluster)
    courses = _courses(recent, names)
    newest = {name: course[-1] for name, course in courses.items() if course}
    readable = {name: attempt for name, attempt in newest.items() if not is_newer(attempt)}
    decided = _newest_decided(courses, readable)
    gathered = StatusGathered(recent.lake)
    tables = _read_all(_reads(recent, readable, decided), gathered.unread)
    for name, attempt in newest.items():
        gathered.clusters.append(
            StatusRows(
                cluster=name,
                attempts=courses[name],
                newest=attempt,
                broker_load=tables["broker_load"].get(name, ()),
                unload_decisions=tables["unload_decisions"].get(name, ()),
                guard_decisions=tables["guard_decisions"].get(name, ()),
                planner_findings=tables["planner_findings"].get(name, ()),
                failed_checks=tables["validation_results"].get(name, ()),
                hung=tables["broker_reports"].get(name, ()),
                harm=tables["harm"].get(name, ()),
                moves=tables["moves"].get(name, ()),
                pause=next(iter(tables["controls"].get(name, ())), None),
                answered=frozenset(str(row["plan_id"]) for row in tables["approvals"].get(name, ())),
                answer_by=answer_by(attempt, tables["settings"].get(name, ())),
            )
        )
    return gathered


def _courses(recent: Recent, names: Sequence[str]) -> dict[str, list[Attempt]]:
    """Return for each cluster the attempts that count for its newest cycles, oldest first, up to the reading limit.

    The newest one, and the newest with decisions, have all columns of `_MANIFEST`, the others no lists. A course with
    unchanged files is not computed again.
    """
    chosen = _course_files(recent, names)
    keys = {name: tuple(file.path for file in course_files) for name, course_files in chosen.items()}
    known = {name: recent.memo.get(("course", name)) for name in names}
    courses = {name: held[1] for name, held in known.items() if held is not None and held[0] == keys[name]}
    new = _new_courses(recent, {name: course_files for name, course_files in chosen.items() if name not in courses})
    for name, course in new.items():
        recent.memo["course", name] = keys[name], course
    return {name: courses[name] if name in courses else new[name] for name in names}


def _new_courses(recent: Recent, chosen: Mapping[str, Sequence[KnownFile]]) -> dict[str, list[Attempt]]:
    rows: ByCluster = defaultdict(list)
    small = [file for course_files in chosen.values() for file in course_files if file.rows <= _MANY_ROWS]
    for row in recent.rows("cycles", small, _MANIFEST, shown=_LIGHT):
        rows[row["cluster"]].append(row)
    for file in (
        chosen_file for course_files in chosen.values() for chosen_file in course_files if chosen_file.rows > _MANY_ROWS
    ):
        rows[file.cluster] += recent.rows("cycles", [file], _MANIFEST, *_newest_of(recent, file), shown=_LIGHT)
    courses = {name: _counting(recent, name, rows.get(name, ())) for name in chosen}
    wanted = {name: (course[-1], _last_decided(course) or course[-1]) for name, course in courses.items() if course}
    whole = _with_lists(recent, chosen, wanted)
    return {
        name: [whole.get((name, attempt.attempt_id), attempt) for attempt in course] for name, course in courses.items()
    }


def _course_files(recent: Recent, names: Sequence[str]) -> dict[str, list[KnownFile]]:
    files = recent.files("cycles")
    room, chosen = MORE_COURSE_FILES, dict[str, list[KnownFile]]()
    fair = max(LEAST_COURSE, FAIR_COURSE_FILES // max(len(names), 1))
    for name in names:
        known_files: list[KnownFile] = []
        moments: set[int] = set()
        for file in files.newest_first(name):
            is_kept = recent.is_kept("cycles", file, _MANIFEST)
            is_new = file.last not in moments
            if is_new and (len(moments) >= COURSE_CYCLES or (len(moments) >= fair and not is_kept and room < 1)):
                break
            room -= not is_kept and len(moments) >= fair
            known_files.append(file)
            moments.add(file.last)
            if file.rows > _MANY_ROWS:
                break
        chosen[name] = known_files
    return chosen


def _newest_of(recent: Recent, file: KnownFile) -> tuple[Any, str]:
    """A condition for the newest cycles of a file of many, and its name."""
    import pyarrow.compute as pc

    since = recent.newest_moment("cycles", file, 2 * COURSE_CYCLES)
    return (None, "") if since is None else (pc.field("cycle_at") >= since, f"since {since.isoformat()}")


def _with_lists(
    recent: Recent, files: Mapping[str, Sequence[KnownFile]], wanted: Mapping[str, Sequence[Attempt]]
) -> dict[tuple[str, str], Attempt]:
    """(cluster, attempt_id) -> the attempt with the lists of its manifest."""
    ids = {(name, attempt.attempt_id) for name, attempts in wanted.items() for attempt in attempts}
    near = [
        file
        for name, attempt_rows in wanted.items()
        for file in files[name]
        if any(
            file.first <= log_moment(attempt.cycle_at) + 2_000 and file.last >= log_moment(attempt.cycle_at) - 2_000
            for attempt in attempt_rows
        )
    ]
    rows: ByCluster = defaultdict(list)
    for row in recent.rows("cycles", [file for file in near if file.rows <= _MANY_ROWS], _MANIFEST):
        rows[row["cluster"]].append(_with_reads(row))
    for file in (near_file for near_file in near if near_file.rows > _MANY_ROWS):
        rows[file.cluster] += map(_with_reads, recent.rows("cycles", [file], _MANIFEST, *_newest_of(recent, file)))
    attempts = (attempt for attempt_rows in rows.values() for attempt in attempts_of(attempt_rows))
    return {
        (attempt.cluster, attempt.attempt_id): attempt
        for attempt in attempts
        if (attempt.cluster, attempt.attempt_id) in ids
    }


def _with_reads(row: Row) -> Row:
    """Return the row with the list that an Attempt needs beside its writes, and that the status does not use."""
    return {**row, "reads": (), "writes": row["writes"] or ()}


def _counting(recent: Recent, name: str, rows: Sequence[Row]) -> list[Attempt]:
    """Return the attempts that count. Of several attempts at a cycle, those that sent commands may decide."""
    attempts = attempts_of(rows)
    if not attempts:  # the row that was read closes an attempt with an earlier plan row
        newest = Record(recent.lake).in_force(name, LAST_MOMENT)
        return [] if newest is None else [newest]
    chosen = trusted(attempts)[-COURSE_CYCLES:]
    if are_told_apart_by_commands(attempts):
        return Record(recent.lake).cycles(name, chosen[0].cycle_at, chosen[-1].cycle_at)
    return chosen


def _last_decided(attempts: Sequence[Attempt]) -> Attempt | None:
    return next((attempt for attempt in reversed(attempts) if attempt.decided), None)


def _newest_decided(courses: Mapping[str, Sequence[Attempt]], readable: Mapping[str, Attempt]) -> dict[str, Attempt]:
    """Return for each cluster the newest cycle with decisions, of those that were read."""
    decided = {name: _last_decided(courses[name]) for name in readable}
    return {name: attempt for name, attempt in decided.items() if attempt is not None and not is_newer(attempt)}


def _reads(
    recent: Recent, readable: Mapping[str, Attempt], decided: Mapping[str, Attempt]
) -> dict[str, Callable[[], ByCluster]]:
    """Return the reads to make, by name."""
    import pyarrow.compute as pc

    each = [*decided.values()]
    waiting = [attempt for attempt in readable.values() if waits_for_approval(attempt)]
    acting = [attempt for attempt in readable.values() if attempt.mode != "dry_run"]
    rules = is_in("rule", sorted(SOLE_BUNDLE_RULES)) | is_in("strategy", [BY_DRAINING])
    broken_checks = (is_in("severity", ["quarantine"]) | is_in("rule", sorted(MISCONFIGURED))) & ~pc.field("passed")
    setting, broken = is_in("key", [AGE_KEY]), is_in("rule", [BROKEN_PROMISES_RULE])

    def written(attempts: Sequence[Attempt], table: str, columns: Sequence[str], where: Any = None) -> ByCluster:
        return written_rows(recent, attempts, table, columns, where)

    return {
        "broker_load": lambda: written(each, "broker_load", _LOAD),
        "unload_decisions": lambda: written(each, "unload_decisions", _UNLOADS, rules),
        "guard_decisions": lambda: written(each, "guard_decisions", _GUARDS),
        "planner_findings": lambda: written(each, "planner_findings", _FINDINGS, broken),
        "validation_results": lambda: written(
            [*readable.values()], "validation_results", ("rule", "severity", "passed", "detail"), broken_checks
        ),
        "broker_reports": lambda: written([*readable.values()], "broker_reports", _REPORTS, is_in("state", ["hung"])),
        "settings": lambda: written(waiting, "settings", ("key", "value"), setting),
        "approvals": lambda: _answers(recent, waiting),
        "controls": lambda: _pauses(recent, readable),
        "harm": lambda: _harm(recent, acting),
        "moves": lambda: _moves(recent, acting),
    }


def _read_all(reads: Mapping[str, Callable[[], ByCluster]], unread: dict[str, str]) -> dict[str, ByCluster]:
    """Read everything at once, as most reads wait for files; report what cannot be read, and keep the rest."""

    def read(name: str) -> ByCluster:
        try:
            return reads[name]()
        except LakeError as error:
            unread[name] = str(error)
        except FileNotFoundError as error:
            unread[name] = f"a file is gone: {error.filename or error}"
        return {}

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="status") as pool:
        return dict(zip(reads, pool.map(read, reads), strict=True))


def written_rows(
    recent: Recent, attempts: Sequence[Attempt], table: str, columns: Sequence[str], where: Any = None
) -> ByCluster:
    """The rows that the attempts wrote, from the files that their manifests list, else from those that the log knows.

    Rows that are past their retention are missing.
    """
    listed, others, owner = list[KnownFile](), list[Attempt](), dict[tuple[str, str], datetime]()
    for attempt in attempts:
        writes = [write for write in attempt.writes_of(table) if write.rows]
        owner |= {(attempt.cluster, write.write_id): attempt.cycle_at for write in writes}
        if all(write.files for write in writes):
            listed += [
                KnownFile(file.path, attempt.cluster, 0, 0, write.rows, file.size)
                for write in writes
                for file in write.files
            ]
        else:
            others.append(attempt)
    if not owner:
        return {}
    wanted = (*_STAMP, *columns)
    try:
        rows = recent.rows(table, listed, wanted, where, table)
    except FileNotFoundError:  # upkeep has put the rows into other files since
        rows, others = [], [*attempts]
    if others:
        files = recent.files(table)
        near = [
            file for attempt in others for file in files.between(attempt.cluster, attempt.cycle_at, attempt.cycle_at)
        ]
        rows += recent.rows(table, dict.fromkeys(near), wanted, where, table)
    return _by_cluster(row for row in rows if owner.get((row["cluster"], row["write_id"])) == row["cycle_at"])


def _answers(recent: Recent, waiting: Sequence[Attempt]) -> ByCluster:
    plans = {(attempt.cluster, attempt.plan_id) for attempt in waiting}
    if not plans:
        return {}
    files = recent.files("approvals")
    plan_files = [file for name in sorted({name for name, _ in plans}) for file in files.newest_first(name)]
    rows = recent.rows("approvals", plan_files, ("plan_id",))
    return _by_cluster(row for row in rows if (row["cluster"], row["plan_id"]) in plans)


def _pauses(recent: Recent, attempts: Mapping[str, Attempt]) -> ByCluster:
    """The pauses that hold: of each cluster its last pause or resumption, if that is a pause."""
    files = recent.files("controls", kinds_from=PAUSE)
    control_files = [file for name in attempts for file in files.newest_first(name)]
    is_control = is_in("kind", [PAUSE, RESUME])
    last: dict[str, Row] = {}
    for row in recent.rows("controls", control_files, ("kind", "at", "by", "reason"), is_control, "said"):
        if row["cluster"] not in last or row["at"] >= last[row["cluster"]]["at"]:
            last[row["cluster"]] = row
    return {name: [row] for name, row in last.items() if row["kind"] == PAUSE}


def _harm(recent: Recent, acting: Sequence[Attempt]) -> ByCluster:
    """Return commands that did harm: those in the manifest, and those that the newest cycle itself saw first."""
    spans = {
        attempt.cluster: (attempt.cycle_at - HARM_SPAN, attempt.cycle_at)
        for attempt in acting
        if any(act["outcome"] == HARMED for act in attempt.planned["acts"] or ())
        or any(write.rows for write in attempt.writes_of("outcomes"))
    }
    seen = _outbox(recent, "outcomes", spans, _OUTCOMES, is_in("outcome", [HARMED]), "harm")
    files = recent.files("commands") if seen else None
    seen_rows = [row for rows in seen.values() for row in rows]  # an outcome has the cycle of its command
    near = [
        file for row in seen_rows if files for file in files.between(row["cluster"], row["cycle_at"], row["cycle_at"])
    ]
    commands = _by_cluster(recent.rows("commands", dict.fromkeys(near), _COMMANDS))
    harm = {
        name: harmed({row["command_id"]: row for row in commands.get(name, ())}.values(), rows)
        for name, rows in seen.items()
    }
    return {name: rows for name, rows in harm.items() if rows}


def _moves(recent: Recent, acting: Sequence[Attempt]) -> ByCluster:
    """Return the unloads sent in the last hour, for a bounded number of clusters in which one may be a bounce."""
    spans = {
        attempt.cluster: (attempt.cycle_at - BOUNCE_SPAN, attempt.cycle_at)
        for attempt in acting
        if len({act["command_id"] for act in attempt.planned["acts"] or ()}) + int(attempt.planned["unloads"] or 0) > 1
    }
    commands = _outbox(recent, "commands", _within_room(recent, spans), _COMMANDS)
    unloads = {
        name: [row for row in cluster_rows if row["kind"] == "unload" and row["mode"] != "dry_run"]
        for name, cluster_rows in commands.items()
    }
    near = {name: spans[name] for name, cluster_rows in unloads.items() if _may_bounce(cluster_rows)}
    outcomes = _outbox(recent, "outcomes", near, ("command_id", "cycle_at", "outcome"))
    moves: ByCluster = {}
    for name in near:
        out = {row["command_id"] for row in outcomes.get(name, ()) if row["outcome"] in SENT}
        sent = {row["command_id"]: row for row in unloads[name] if row["command_id"] in out}
        moves[name] = sorted(sent.values(), key=lambda row: (row["cycle_at"], row["step"]))
    return moves


def _within_room(recent: Recent, spans: Mapping[str, Span]) -> dict[str, Span]:
    """Return the clusters that may be read now, by the number of their files; the others are counted as not read."""
    files, room, within = recent.files("commands") if spans else None, MOST_OUTBOX_FILES, dict[str, Span]()
    for name, span in spans.items():
        near_files = files.between(name, *span) if files is not None else []
        new = sum(not recent.is_kept("commands", file, _COMMANDS) for file in near_files)
        if new <= room:
            room -= new
            within[name] = span
    return within


def _may_bounce(unloads: Iterable[Row]) -> bool:
    """Return True if any bundle was to go where any unload took it from."""
    rows = [*unloads]
    return bool({(row["bundle"], row["destination"]) for row in rows} & {(r["bundle"], r["from_broker"]) for r in rows})


def _outbox(
    recent: Recent, table: str, spans: Mapping[str, Span], columns: Sequence[str], where: Any = None, name: str = ""
) -> ByCluster:
    """Cluster -> its rows of cycles in its span."""
    if not spans:
        return {}
    files = recent.files(table)
    near = [file for cluster, span in spans.items() for file in files.between(cluster, *span)]
    rows = recent.rows(table, near, columns, where, name)
    return _by_cluster(r for r in rows if spans[r["cluster"]][0] <= r["cycle_at"] <= spans[r["cluster"]][1])


def _by_cluster(rows: Iterable[Row]) -> ByCluster:
    by_cluster: ByCluster = defaultdict(list)
    for row in rows:
        by_cluster[str(row["cluster"])].append(row)
    return dict(by_cluster)
