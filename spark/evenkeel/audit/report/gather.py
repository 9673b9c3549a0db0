"""Reads from the lake what a report shows, and nothing more: one cycle in full, its course in outline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import or_
from pathlib import Path

from evenkeel.audit.compare import Comparison, Cycle, Move, Round, compare, read_rounds
from evenkeel.audit.read import Attempt, Record, Row, find_cycles, read_commands, read_rows, read_rows_of
from evenkeel.audit.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.errors import LakeError
from evenkeel.rounds import wishes

# The course is a picture: more points than this would not be told apart.
COURSE_CYCLES = 60
_AFTER_THE_SHOWN = 10
_NEAR_A_ROUND = timedelta(minutes=2)

THRESHOLD_KEY = "loadBalancerBrokerThresholdShedderPercentage"

_FULL = (
    "cluster_policies",
    "broker_reports",
    "broker_load",
    "bundle_load",
    "validation_results",
    "rejected",
    "settings",
    "split_decisions",
    "unload_decisions",
    "placement_decisions",
    "guard_decisions",
)
_BROKER_REPORTS = ["broker", "state", "state_reason", "report_at"]
_BUNDLE_LOAD = [
    "bundle", "owner", "ownership", "last_owner", "topics", "listed_topics", "is_system", "used_reason",
    "used_msg_throughput_in", "used_msg_throughput_out", "used_msg_rate_in", "used_msg_rate_out",
]  # fmt: skip
_COLUMNS = {"broker_reports": _BROKER_REPORTS, "bundle_load": _BUNDLE_LOAD}
_COURSE_LOAD = ["broker", "state", "weighted_usage", "msg_throughput_in", "msg_throughput_out"]
_ACTING = ("splits", "unloads", "placements", "refusals")
_ACTS = {"outcome": ["split", "unload", "placed", "refused"]}
_ACT_COLUMNS = ["subject", "subject_kind", "broker", "outcome", "rule", "sentence"]
_DECIDED = ("split_decisions", "unload_decisions", "placement_decisions")


@dataclass(frozen=True)
class Course:
    """Cycles in time order; `rows` are, per attempt_id, their broker loads, remembered averages and acts.

    `earlier` and `later` count the cycles on record that the course leaves out.
    """

    attempts: Sequence[Attempt]
    broker_load: Mapping[str, Sequence[Row]]
    state: Mapping[str, Sequence[Row]]
    acts: Mapping[str, Mapping[str, Sequence[Row]]]
    earlier: int = 0
    later: int = 0


@dataclass(frozen=True)
class ClusterRows:
    """What the report of one cluster rests on. `newest` is its newest cycle, which need not be the one shown, and
    `commands` are those of the plan with their outcomes, where they were not a dry run's.

    `missing` says of each table that could not be read why.
    """

    attempt: Attempt
    newest: Attempt
    tables: Mapping[str, Sequence[Row]]
    course: Course
    comparison: Comparison | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[Row] = ()


@dataclass(frozen=True)
class Gathered:
    """Everything that a report shows, as rows."""

    lake: str
    clusters: tuple[ClusterRows, ...]


def gather(
    lake: str | Path, *, cluster: str | None = None, cycle: str | None = None, recording: str | Path | None = None
) -> Gathered:
    """Reads what the report of these cycles shows; see `report.build_report` for the arguments."""
    record = Record(lake)
    clusters = []
    for found in find_cycles(lake, cluster=cluster, cycle=cycle):
        attempt = (_newest_with_decisions(record, found.cluster) or found) if cycle is None else found
        clusters.append(_cluster_rows(record, attempt, recording))
    return Gathered(str(lake), tuple(clusters))


def _newest_with_decisions(record: Record, cluster: str) -> Attempt | None:
    """The newest cycle that would change something."""
    import pyarrow.compute as pc

    some = [pc.field(name) > 0 for name in _ACTING]
    for at in reversed(record.moments(cluster, reduce(or_, some)).to_pylist()):
        for attempt in record.cycles(cluster, at, at):
            if any(attempt.planned[name] for name in _ACTING):
                return attempt
    return None


def _cluster_rows(record: Record, attempt: Attempt, recording: str | Path | None) -> ClusterRows:
    lake = record.lake
    tables: dict[str, Sequence[Row]] = {}
    missing: dict[str, str] = {}
    for table in _FULL:
        try:
            tables[table] = read_rows(lake, attempt, table, columns=_COLUMNS.get(table))
        except LakeError as error:
            # Topic-sized and older tables expire before the manifest does; the rest of the report still stands.
            tables[table], missing[table] = [], str(error)
    comparison = _comparison(record, attempt, recording)
    course = _course(record, attempt)
    newest = record.in_force(attempt.cluster, LAST_MOMENT) or attempt
    commands: Sequence[Row] = []
    try:
        commands = read_commands(lake, attempt)
    except LakeError as error:
        missing["commands"] = str(error)
    return ClusterRows(attempt, newest, tables, course, comparison, missing, commands)


def _course(record: Record, attempt: Attempt) -> Course:
    import pyarrow as pa
    import pyarrow.compute as pc

    lake, moments = record.lake, record.moments(attempt.cluster)
    at = int(pc.index(moments, pa.scalar(attempt.cycle_at, moments.type)).as_py())
    end = min(len(moments), max(at + 1 + _AFTER_THE_SHOWN, COURSE_CYCLES))
    start = max(0, end - COURSE_CYCLES)
    window = record.cycles(attempt.cluster, moments[start].as_py(), moments[end - 1].as_py())
    return Course(
        attempts=window,
        broker_load=_or_nothing(lake, window, "broker_load", _COURSE_LOAD),
        state=_or_nothing(lake, window, "strategy_state", ["strategy", "subject", "name", "value"]),
        acts={table: _or_nothing(lake, window, table, _ACT_COLUMNS, _ACTS) for table in _DECIDED},
        earlier=start,
        later=len(moments) - end,
    )


def _or_nothing(
    lake: str | Path,
    attempts: Sequence[Attempt],
    table: str,
    columns: list[str],
    where: Mapping[str, Sequence[str]] | None = None,
) -> Mapping[str, Sequence[Row]]:
    try:
        return read_rows_of(lake, attempts, table, columns=columns, where=where)
    except LakeError:
        return {attempt.attempt_id: [] for attempt in attempts}


def _comparison(record: Record, attempt: Attempt, recording: str | Path | None) -> Comparison | None:
    """Pulsar's own shedding beside these cycles, where their snapshots come from a recording that has such logs."""
    folder = Path(recording) if recording is not None else _recording_of(attempt)
    rounds = read_rounds(folder) if folder is not None else None
    if folder is None or not rounds:
        return None
    cycles = record.cycles(attempt.cluster, FIRST_MOMENT, LAST_MOMENT)
    near = [c for c in cycles if c.decided and any(abs(c.cycle_at - round.at) <= _NEAR_A_ROUND for round in rounds)]
    acting = [c for c in cycles if c.decided and c.planned["unloads"] and c not in near]
    return compare(folder.name, rounds, comparable(record.lake, [*near, *acting], rounds))


def _recording_of(attempt: Attempt) -> Path | None:
    snapshot = attempt.planned["snapshot"]
    folder = Path(snapshot).parent if snapshot and "://" not in snapshot else None
    return folder if folder is not None and folder.is_dir() else None


def comparable(lake: str | Path, attempts: Sequence[Attempt], rounds: Sequence[Round]) -> list[Cycle]:
    """The cycles as the comparison wants them, in time order."""
    attempts = sorted(attempts, key=lambda a: a.cycle_at)
    bundles = {move.bundle for round in rounds for move in round.moves}
    unloads = read_rows_of(lake, attempts, "unload_decisions")
    bundles |= {row["subject"] for rows in unloads.values() for row in rows if row["outcome"] == "unload"}
    tables = {
        "unload_decisions": unloads,
        "placement_decisions": read_rows_of(lake, attempts, "placement_decisions", columns=["subject", "destination"]),
        "broker_load": read_rows_of(lake, attempts, "broker_load", columns=["broker", "weighted_usage"]),
        "bundle_load": read_rows_of(
            lake, attempts, "bundle_load", columns=_BUNDLE_LOAD, where={"bundle": sorted(bundles)}
        ),
    }
    settings = read_rows_of(lake, attempts, "settings", columns=["key", "value"], where={"key": [THRESHOLD_KEY]})
    return [
        _comparable(
            a, {table: rows[a.attempt_id] for table, rows in tables.items()}, _threshold(settings[a.attempt_id])
        )
        for a in attempts
    ]


def _comparable(attempt: Attempt, rows: Mapping[str, Sequence[Row]], limit: float | None) -> Cycle:
    traffic = {row["bundle"]: _throughput(row) for row in rows["bundle_load"]}
    goal = {row["subject"]: row["destination"] for row in rows["placement_decisions"]}
    unloads = rows["unload_decisions"]
    brokers = [row for row in unloads if row["subject_kind"] == "broker"]
    # What an operator wished for is no work of the shedder.
    shed = [row for row in unloads if row["subject_kind"] == "bundle" and row["strategy"] != wishes.STRATEGY]
    whole = next((row for row in unloads if row["subject_kind"] == "cluster"), None)
    # A shedder that ran has looked at a broker; one that was not due or is off has only the cluster's row.
    ran = whole is None or whole["outcome"] != "skipped"
    return Cycle(
        at=attempt.cycle_at,
        moves=tuple(
            Move(row["subject"], row["broker"], goal.get(row["subject"]), traffic.get(row["subject"]))
            for row in shed
            if row["outcome"] == "unload"
        ),
        usage={
            row["broker"]: row["weighted_usage"] for row in rows["broker_load"] if row["weighted_usage"] is not None
        },
        compared={row["subject"]: figures for row in brokers if (figures := _compared(row)) is not None},
        threshold=limit,
        bundle_bytes_per_s=traffic,
        refusals={row["subject"]: row["sentence"] for row in brokers if row["outcome"] == "refused"},
        due=ran,
        why_not_due="" if ran or whole is None else str(whole["sentence"]),
    )


def _compared(row: Row) -> tuple[float, float] | None:
    """A broker's usage as the shedder remembers it, and the mean that it is compared with."""
    numbers = row["numbers"]
    usage = numbers.get("usage", row["measured"] if row["unit"] == "fraction" else None)
    mean = numbers.get("mean_usage")
    return None if usage is None or mean is None else (float(usage), float(mean))


def _threshold(settings: Sequence[Row]) -> float | None:
    """How far over the mean a broker is shed from, as a fraction."""
    value = next((row["value"] for row in settings if row["key"] == THRESHOLD_KEY), None)
    return None if value is None else float(value) / 100.0


def _throughput(bundle: Row) -> float:
    return float((bundle["used_msg_throughput_in"] or 0.0) + (bundle["used_msg_throughput_out"] or 0.0))
