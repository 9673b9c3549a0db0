"""Reads the rows of a report from the lake, and no others: one cycle in full, its course in outline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from operator import or_
from pathlib import Path

from evenkeel.cycle.fold import LOAD_AVERAGE, shedder_state
from evenkeel.errors import LakeError
from evenkeel.lake.outbox import harmed
from evenkeel.lake.record import Attempt, Record, Row, find_cycles, read_commands, read_rows, read_rows_of
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.tables import is_in
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.model.past_commands import HARMED
from evenkeel.report.compare import Cycle, LoggedMove, LoggedRound, ShedderComparison, compare, read_rounds
from evenkeel.report.plan_cost import traffic_of
from evenkeel.shed.strategies.threshold_shedder import USAGE_AVERAGE
from evenkeel.transparency.overview import UNSIGNED, signed_words
from evenkeel.verify.prove import manifest_row

# The course is a picture: more points than this could not be distinguished.
COURSE_CYCLES = 60
_AFTER_THE_SHOWN = 10
_NEAR_A_ROUND = timedelta(minutes=2)
_HARM_IS_SHOWN = timedelta(days=1)

THRESHOLD_KEY = "loadBalancerBrokerThresholdShedderPercentage"

_DECIDED = ("split_decisions", "unload_decisions", "placement_decisions")
_FULL = (
    *("cluster_policies", "broker_reports", "broker_load", "bundle_load", "validation_results", "rejected", "settings"),
    *(*_DECIDED, "guard_decisions", *PLANNER_TABLES),
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
_AVERAGES = {"name": [USAGE_AVERAGE, LOAD_AVERAGE]}


@dataclass(frozen=True)
class CourseRows:
    """Cycles in time order; `rows` are, per attempt_id, their broker loads, remembered averages and acts.

    `earlier` and `later` count the recorded cycles that the course leaves out.
    """

    attempts: Sequence[Attempt]
    broker_load: Mapping[str, Sequence[Row]]
    state: Mapping[str, Sequence[Row]]
    acts: Mapping[str, Mapping[str, Sequence[Row]]]
    earlier: int = 0
    later: int = 0


@dataclass(frozen=True)
class ClusterRows:
    """The rows of one cluster's report.

    `newest` is its newest cycle, which need not be the one shown; `commands` are those of the plan with their outcomes,
    if they were not a dry run's. `harm`: harm by commands of this cycle and of the previous day, as far as any cycle
    has seen it. `missing`: for each table that could not be read, the reason. `signed`: the lake's transparency log on
    the cycle, in words.
    """

    attempt: Attempt
    newest: Attempt
    tables: Mapping[str, Sequence[Row]]
    course: CourseRows
    comparison: ShedderComparison | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[Row] = ()
    harm: Sequence[Row] = ()
    signed: str = UNSIGNED


def gather(
    lake: str | Path, *, cluster: str | None = None, cycle: str | None = None, recording: str | Path | None = None
) -> list[ClusterRows]:
    """Read the rows of these cycles' reports; see `report.build_report` for the arguments."""
    record = Record(lake)
    clusters = []
    for cycles in find_cycles(lake, cluster=cluster, cycle=cycle):
        attempt = (_newest_with_decisions(record, cycles.cluster) or cycles) if cycle is None else cycles
        clusters.append(_cluster_rows(record, attempt, recording))
    return clusters


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
            # Topic-sized and older tables expire before the manifest does; the rest of the report is still valid.
            tables[table], missing[table] = [], str(error)
    comparison = _comparison(record, attempt, recording)
    course = _course(record, attempt)
    newest = record.in_force(attempt.cluster, LAST_MOMENT) or attempt
    commands: Sequence[Row] = []
    harm: Sequence[Row] = []
    try:
        commands = read_commands(lake, attempt)
        harm = _harm(record, attempt)
    except LakeError as error:
        missing["commands"] = str(error)
    signed = signed_words(str(lake), lambda: manifest_row(str(lake), attempt).version)
    return ClusterRows(attempt, newest, tables, course, comparison, missing, commands, harm, signed)


def _harm(record: Record, attempt: Attempt) -> list[Row]:
    """Return recorded commands that did harm, with the time it was seen and its kind."""
    span = attempt.cluster, attempt.cycle_at - _HARM_IS_SHOWN, attempt.cycle_at
    seen = record.outbox("outcomes", *span, where=is_in("outcome", [HARMED]))
    if not seen:
        return []
    ids = is_in("command_id", sorted({row["command_id"] for row in seen}))
    asked = {row["command_id"]: row for row in record.outbox("commands", *span, where=ids)}
    return harmed([asked[command_id] for command_id in sorted(asked)], seen)


def _course(record: Record, attempt: Attempt) -> CourseRows:
    import pyarrow as pa
    import pyarrow.compute as pc

    lake, moments = record.lake, record.moments(attempt.cluster)
    at = int(pc.index(moments, pa.scalar(attempt.cycle_at, moments.type)).as_py())
    end = min(len(moments), max(at + 1 + _AFTER_THE_SHOWN, COURSE_CYCLES))
    start = max(0, end - COURSE_CYCLES)
    window = record.cycles(attempt.cluster, moments[start].as_py(), moments[end - 1].as_py())
    return CourseRows(
        attempts=window,
        broker_load=_or_nothing(lake, window, "broker_load", _COURSE_LOAD),
        state=_or_nothing(lake, window, "strategy_state", ["strategy", "subject", "name", "value"], _AVERAGES),
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


def _comparison(record: Record, attempt: Attempt, recording: str | Path | None) -> ShedderComparison | None:
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


def comparable(lake: str | Path, attempts: Sequence[Attempt], rounds: Sequence[LoggedRound]) -> list[Cycle]:
    """Return the cycles for the comparison, in time order."""
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
    traffic = traffic_of(rows["bundle_load"])
    goal = {row["subject"]: row["destination"] for row in rows["placement_decisions"]}
    unloads = rows["unload_decisions"]
    # Manual requests are not the shedder's work.
    strategy_rows = [row for row in unloads if row["strategy"] not in (BY_REQUEST, BY_DRAINING)]
    brokers = [row for row in strategy_rows if row["subject_kind"] == "broker"]
    shed = [row for row in strategy_rows if row["subject_kind"] == "bundle"]
    whole = next((row for row in unloads if row["subject_kind"] == "cluster"), None)
    # A shedder that ran has looked at a broker; one that was not due or is off has only the cluster's row.
    ran = whole is None or whole["outcome"] != "skipped"
    return Cycle(
        at=attempt.cycle_at,
        moves=tuple(
            LoggedMove(row["subject"], row["broker"], goal.get(row["subject"]))
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
    """Return how far over the mean a broker is shed from, as a fraction."""
    value = next((row["value"] for row in settings if row["key"] == THRESHOLD_KEY), None)
    return None if value is None else float(value) / 100.0


# The course over the cycles: usage per broker, the band in which the shedder does nothing, and the decisions.

_KINDS = {"split_decisions": "split", "unload_decisions": "unload", "placement_decisions": "placement"}


@dataclass(frozen=True, slots=True)
class Point:
    """One cycle of the course; usages (or shares, see `CourseModel`) are fractions per broker, empty if left out.

    `compared` are the shedder's figures (its remembered average if it keeps one, else the usage itself). `acts` are
    rows of the decided tables, with their kind.
    """

    attempt: Attempt
    is_shown: bool
    usage: Mapping[str, float]
    compared: Mapping[str, float]
    mean: float | None
    limit: float | None
    acts: tuple[Row, ...]

    @property
    def max_over_mean(self) -> float | None:
        """Largest usage as observed over the mean of all."""
        values = list(self.usage.values())
        mean = sum(values) / len(values) if values else 0.0
        return max(values) / mean if mean > 0 else None


@dataclass(frozen=True)
class CourseModel:
    """The course of one cluster, oldest first. `threshold` is how far over the mean a broker is shed from.

    `is_share`: usages are 0 throughout, as where all resource weights are 0; the points hold each broker's share of the
    traffic instead, and no threshold.
    """

    points: tuple[Point, ...]
    brokers: tuple[str, ...]
    threshold: float | None
    is_remembered: bool
    is_share: bool
    earlier: int
    later: int

    @property
    def acting(self) -> tuple[Point, ...]:
        """The points of cycles that decided commands."""
        return tuple(point for point in self.points if point.acts)


def course_model(course: CourseRows, settings: Sequence[Row], shown: Attempt) -> CourseModel:
    """The course, busiest broker first."""
    values = {row["key"]: row["value"] for row in settings}
    named = (attempt.planned["shedder"] for attempt in (shown, *reversed(course.attempts)))
    shedder = next((name for name in named if name), "")
    threshold = json.loads(values[THRESHOLD_KEY]) / 100.0 if THRESHOLD_KEY in values else None
    if shedder != "ThresholdShedder":
        threshold = None
    remembered = any(_usage_averages(rows, shedder) for rows in course.state.values())
    points = tuple(_point(course, attempt, shown, shedder, threshold) for attempt in course.attempts)
    shares = tuple(
        _with_shares(point, course.broker_load[one.attempt_id])
        for point, one in zip(points, course.attempts, strict=True)
    )
    is_share = any(point.usage for point in shares) and not any(
        usage for point in points for usage in (*point.usage.values(), *point.compared.values())
    )
    if is_share:
        points, threshold, remembered = shares, None, False
    peaks: dict[str, float] = {}
    for point in points:
        for broker, usage in point.compared.items():
            peaks[broker] = max(usage, peaks.get(broker, 0.0))
    brokers = tuple(sorted(peaks, key=lambda broker: (-peaks[broker], broker)))
    return CourseModel(points, brokers, threshold, remembered, is_share, course.earlier, course.later)


def _point(course: CourseRows, attempt: Attempt, shown: Attempt, shedder: str, threshold: float | None) -> Point:
    name = attempt.attempt_id
    loads = course.broker_load[name] if attempt.decided else []
    usage = {load["broker"]: float(load["weighted_usage"]) for load in loads if load["weighted_usage"] is not None}
    remembered = {b: value for b, value in _usage_averages(course.state[name], shedder).items() if b in usage}
    compared = remembered or usage
    mean = sum(compared.values()) / len(compared) if compared else None
    return Point(
        attempt=attempt,
        is_shown=attempt.cycle_at == shown.cycle_at,
        usage=usage,
        compared=compared,
        mean=mean,
        limit=None if mean is None or threshold is None else mean + threshold,
        acts=tuple({**row, "kind": kind} for table, kind in _KINDS.items() for row in course.acts[table][name]),
    )


def _with_shares(point: Point, loads: Sequence[Row]) -> Point:
    """Return the point with shares of the traffic (fractions) in place of usages; empty without traffic."""
    known = [load for load in loads if load["broker"] in point.usage]
    flow = {row["broker"]: float((row["msg_throughput_in"] or 0) + (row["msg_throughput_out"] or 0)) for row in known}
    total = sum(flow.values())
    shares = {broker: value / total for broker, value in flow.items()} if total > 0 else {}
    return replace(point, usage=shares, compared=shares, mean=1 / len(shares) if shares else None, limit=None)


def _usage_averages(rows: Iterable[Row], shedder: str) -> dict[str, float]:
    """Broker to its moving average of usage, a fraction; empty if the shedder keeps none.

    TransferShedder's are those that brokers publish, or would have published (see `cycle.loads`).
    """
    remembered = shedder_state(rows, shedder)
    return remembered.get(USAGE_AVERAGE) or remembered.get(LOAD_AVERAGE, {})
