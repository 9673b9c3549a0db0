"""Inputs and results of a replay in the lake: recorded cycles with the settings in force, and the result tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, LakeError, NoSuchCycle, SettingsError
from evenkeel.explain.settings_in_force import decided_moments, newest_decided
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, Write
from evenkeel.lake.manifest import write_rows
from evenkeel.lake.record import Attempt, Record, clusters_of
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, arrow_schema
from evenkeel.model.amounts import plural
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.fold import CYCLES, DECISIONS, Made
from evenkeel.settings import EffectiveSettings
from evenkeel.spark.code import code_digest, code_version
from evenkeel.times import FROM_TO, bounds_given, utc_text
from evenkeel.verify.recorded_cycle import Background, background_of, restore_cycle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class History:
    """The decided cycles of one cluster in a range, oldest first; `left_out` are those that decided nothing."""

    lake: str
    cluster: str
    cycles: tuple[Attempt, ...]
    left_out: int
    settings: Mapping[str, EffectiveSettings]
    background: Background

    def known(self, attempt: Attempt) -> dict[str, Any]:
        """Return the values of a cycle's row beside its settings, as text and lists: see `rounds.reading.cycle_row`."""
        planned = attempt.planned
        known = {"mode": attempt.mode, "snapshot_at": utc_text(planned.get("snapshot_at") or attempt.cycle_at)}
        if not (planned["wishes"] or planned.get("acts") or planned.get("pauses")):
            return known
        try:
            cycle = restore_cycle(attempt, self.background).cycle
        except LookupError as error:
            where = f"{attempt.cluster} at {attempt.cycle_at.isoformat()}"
            raise LakeError(f"the cycle of {where} cannot be decided again: {error.args[0]}") from None
        # Harm of a past command is looked for from the second cycle after it on.
        before = [cycle.predecessor.cycle_at, cycle.predecessor.status]
        given = {"wishes": cycle.wishes, "acts": cycle.acts, "pauses": cycle.pauses}
        return {**known, **given, "predecessor": before}


def read_history(
    lake: str, cluster: str | None, since: str | None, until: str | None, *, options: tuple[str, str] = FROM_TO
) -> History:
    """Return the cycles from `since` to `until`, both included; a date means its whole day, None means no bound.

    `options` are the names of these two as the user gave them. Raises NoSuchCycle with the nearest cycles if the range
    has none, LakeError if settings are past their retention, BadInput for text that is not a time.
    """
    first, last = bounds_given(since, until, options=options)
    record = Record(lake)
    name = _cluster(record, cluster)
    inside = record.cycles(name, first or FIRST_MOMENT, last or LAST_MOMENT)
    decided = [attempt for attempt in inside if attempt.decided and attempt.plan_id is not None]
    if not decided:
        raise NoSuchCycle(_none(record, name, inside, first, last))
    background = background_of(Lake(lake), decided)
    return History(
        lake=lake,
        cluster=name,
        cycles=tuple(decided),
        left_out=len(inside) - len(decided),
        settings=_settings(background, decided),
        background=background,
    )


@dataclass(frozen=True, slots=True)
class HistorySpan:
    """Figures of a range's decided cycles that are quick to read. `settings` and `manager`: those of the last one."""

    cluster: str
    cycles: int
    first: datetime
    last: datetime
    settings: EffectiveSettings
    manager: str


def read_span(
    lake: str, cluster: str | None, since: str | None, until: str | None, *, options: tuple[str, str] = FROM_TO
) -> HistorySpan:
    """Return the range that `read_history` would read, from its moments and its last cycle alone; errors as there."""
    first, last = bounds_given(since, until, options=options)
    record = Record(lake)
    name = _cluster(record, cluster)
    begin, end = first or FIRST_MOMENT, last or LAST_MOMENT
    moments = [at for at in decided_moments(record, name).to_pylist() if begin <= at <= end]
    newest = newest_decided(record, name, moments)
    if newest is None:
        raise NoSuchCycle(_none(record, name, record.cycles(name, begin, end), first, last))
    settings = _settings(background_of(Lake(lake), [newest]), [newest])
    newest_settings = settings[str(newest.planned["settings_digest"])]
    return HistorySpan(name, len(moments), moments[0], moments[-1], newest_settings, str(newest.planned["manager"]))


def _cluster(record: Record, cluster: str | None) -> str:
    known = clusters_of(record, cluster)
    if len(known) > 1:
        raise BadInput(
            f"{len(known)} clusters are on record in {record.lake}: name one by --cluster ({', '.join(known[:20])})"
        )
    return known[0]


def _none(
    record: Record, cluster: str, inside: Sequence[Attempt], first: datetime | None, last: datetime | None
) -> str:
    asked = f"from {first.isoformat() if first else 'the beginning'} to {last.isoformat() if last else 'now'}"
    if inside:
        reasons = sorted({attempt.reason or attempt.status for attempt in inside})
        return f"none of {plural(len(inside), 'cycle')} of {cluster} {asked} was decided: {'; '.join(reasons[:3])}"
    before = None if first is None else record.in_force(cluster, first)
    after = None if last is None else record.following(cluster, last)
    near = [f"the last one before is at {before.cycle_at.isoformat()}"] if before else []
    near += [f"the first one after is at {after.cycle_at.isoformat()}"] if after else []
    moments = record.moments(cluster)
    span = f"{moments[0].as_py().isoformat()} to {moments[-1].as_py().isoformat()}"
    return f"no cycle of {cluster} is on record in {record.lake} {asked}: {', '.join(near)} (on record: {span})"


def _settings(background: Background, cycles: Iterable[Attempt]) -> dict[str, EffectiveSettings]:
    """Return settings digest -> the settings; the first cycle with missing or unknown ones is named in the error."""
    settings: dict[str, EffectiveSettings] = {}
    for attempt in cycles:
        digest = str(attempt.planned["settings_digest"])
        if digest not in settings:
            settings[digest] = _settings_of(background, digest, attempt)
    return settings


def _settings_of(background: Background, digest: str, attempt: Attempt) -> EffectiveSettings:
    where = f"{attempt.cluster} at {attempt.cycle_at.isoformat()}"
    text = background.settings.get(digest)
    if text is None:
        raise LakeError(f"the settings of {where} are not on record: without them it cannot be decided again")
    try:
        return EffectiveSettings.from_json(text)
    except SettingsError as error:
        version = attempt.planned["code_version"]
        raise LakeError(
            f"the settings of {where}, recorded by Evenkeel {version}, are not those of this version: {error}. "
            "Replay them with the version that recorded them, or choose a later --from"
        ) from None


# Results of a replay in the lake: its rows, and last the line in `replay_runs`, without which no reader counts them. An
# open loop appends its rows chunk by chunk, by Spark (`open_loop`). A closed loop runs in this process: its rows are
# packed variant by variant and appended at its end.

RUNS = "replay_runs"
TABLES_OF_REPLAYS = (CYCLES, DECISIONS, RUNS)
OPEN_LOOP, CLOSED_LOOP = "open_loop", "closed_loop"
"""Kinds of replays: deciding recorded observations, or steering a model."""


@dataclass
class Played:
    """The rows of a closed loop, packed: table -> one part per variant."""

    replay_id: str
    parts: dict[str, list[pa.Table]] = field(default_factory=lambda: {CYCLES: [], DECISIONS: []})

    def add(self, rows: Iterable[Made]) -> None:
        """The rows of a variant that was played to its end."""
        import pyarrow as pa

        rows_of: dict[str, list[dict[str, Any]]] = {table: [] for table in self.parts}
        for table, row in rows:
            rows_of[table].append({**row, "replay_id": self.replay_id})
        for table, table_rows in rows_of.items():
            # Made without Spark, which is started only when all is played.
            self.parts[table].append(
                pa.Table.from_pylist(table_rows, schema=arrow_schema(TABLES[table].body_columns()))
            )

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Table -> all of its rows; left out is a table that has none."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        whole = {table: pa.concat_tables(parts) for table, parts in self.parts.items() if parts}
        return {
            table: spark.createDataFrame(rows, from_arrow_schema(rows.schema))
            for table, rows in whole.items()
            if rows.num_rows
        }


def append(
    spark: SparkSession,
    lake: Lake,
    task: str,
    comparison: VariantComparison,
    first: datetime,
    frames: Mapping[str, DataFrame],
) -> tuple[Write, ...]:
    """Append rows of a replay, of cycles from `first` on; `task` is the command that they come from."""
    at = utc_text(first)
    cycle = ClusterCycle(comparison.cluster, at, Snapshot("", at), {})
    handover = Handover(lake.root, Run(task, comparison.replay_id, kind="replay"), (cycle,))
    return lake.append(spark, frames, handover=handover, task=task)


def put_on_record(
    spark: SparkSession,
    lake: Lake,
    kind: str,
    comparison: VariantComparison,
    moments: Sequence[datetime],
    writes: Sequence[Write],
    scenario: Mapping[str, Any] | None = None,
) -> None:
    """Append a row of `replay_runs`: from now on readers know of the replay."""
    row = {
        "cluster": comparison.cluster,
        "replay_id": comparison.replay_id,
        "kind": kind,
        "since": moments[0],
        "until": moments[-1],
        "cycles": len(moments),
        "variants": json.dumps(comparison.variants, ensure_ascii=False),
        "limit": comparison.limit,
        "scenario": None if scenario is None else json.dumps(scenario, ensure_ascii=False),
        "summary": json.dumps(comparison.rows(), ensure_ascii=False),
        "writes": write_rows(writes),
        "code_version": code_version(),
        "code_digest": code_digest(),
        "made_at": datetime.now(UTC),
    }
    table = TABLES[RUNS]
    values = tuple(row[column.name] for column in table.columns)
    frame = spark.createDataFrame([values], table.struct_type())
    frame.coalesce(1).write.format("delta").mode("append").save(lake.path(table.name))
