"""Declaration of the views: rows, columns and query of each, declared once.

The scripts, the comments in catalogs and the reference page are derived from these declarations. A query is the same in
all engines but for its `$` marks, which `scripts` fills in. A table of the lake is called `raw_` and its name there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel.lake.outbox import OPEN, SENT
from evenkeel.lake.schema import Column
from evenkeel.lake.schemas import FROM_THE_FIRST, TABLES
from evenkeel.model.past_commands import HARMED

RAW = "raw_"
"""Begins the names of the lake's tables, whose rows may belong to attempts that do not count."""
RAW_TABLES = FROM_THE_FIRST


@dataclass(frozen=True, slots=True)
class LakeView:
    """One view.

    `key` names a row; `source` is the query from FROM on, with the main rows as `r`; `expressions`: column -> SQL, of
    columns that are not simply the column of that name of `r`.
    """

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    source: str
    expressions: Mapping[str, str] = field(default_factory=dict)


def _columns(table: str, *names: str) -> tuple[Column, ...]:
    """Return columns of a table with their declared type, unit and meaning."""
    declared = {column.name: column for column in TABLES[table].columns}
    return tuple(declared[name] for name in names)


_CYCLE = _columns("cycles", "cluster", "cycle_at")
_RATES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_PLAN_ID = Column("plan_id", "string", "plan of the attempt; NULL where nothing was decided")


def _same(left: str, right: str, *columns: str) -> str:
    return " AND ".join(f"{left}.{column} = {right}.{column}" for column in ("cluster", "cycle_at", *columns))


def _texts(words: frozenset[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def _listed(table: str) -> str:
    """Return the rows of a table that the attempts that count list."""
    return f"FROM {RAW}{table} r JOIN writes w ON {_same('w', 'r', 'write_id')} AND w.table_name = '{table}'"


# As `record.attempts` reads attempts: of each kind the first row of an attempt, and of the attempts of a cycle the one
# whose plan was sent, else the newest that is not a backfill, else the newest.
CYCLES = LakeView(
    "cycles",
    "One row per cluster and cycle: the attempt that counts. That is the one whose plan was sent, else the newest that "
    "is not a backfill, else the newest.",
    ("cluster", "cycle_at"),
    (
        *_CYCLE,
        *_columns("cycles", "attempt", "attempt_id", "kind"),
        Column("status", "string", "planned, closed, skipped, failed or withheld: the last on record"),
        *_columns("cycles", "reason", "mode", "manager", "shedder", "placement", "splits", "unloads", "refusals"),
        *_columns("cycles", "held", "before_max_over_mean", "after_max_over_mean", "moved_traffic_share"),
        *_columns("cycles", "plan_id", "settings_digest", "run_id"),
        Column("planned_at", "timestamp", "when the plan was recorded, by the publisher's clock, UTC"),
        Column("closed_at", "timestamp", "when the attempt was closed, by the publisher's clock, UTC; NULL before"),
    ),
    f"""\
FROM (
  SELECT p.*, row_number() OVER (
    PARTITION BY p.cluster, p.cycle_at
    ORDER BY CASE WHEN s.plan_id IS NULL THEN 1 ELSE 0 END, CASE WHEN p.kind = 'backfill' THEN 1 ELSE 0 END,
      p.attempt DESC, p.sequence
  ) AS place
  FROM (
    SELECT m.*, row_number() OVER (PARTITION BY m.cluster, m.cycle_at, m.attempt_id ORDER BY m.sequence) AS first_row
    FROM {RAW}cycles m WHERE m.row_kind = 'planned'
  ) p
  LEFT JOIN (
    SELECT DISTINCT c.cluster, c.cycle_at, c.plan_id
    FROM {RAW}commands c JOIN {RAW}outcomes o ON {_same("o", "c", "command_id")}
    WHERE o.outcome IN ({_texts(SENT)})
  ) s ON {_same("s", "p", "plan_id")}
  WHERE p.first_row = 1
) r
LEFT JOIN (
  SELECT m.*, row_number() OVER (PARTITION BY m.cluster, m.cycle_at, m.attempt_id ORDER BY m.sequence) AS first_row
  FROM {RAW}cycles m WHERE m.row_kind = 'closed'
) e ON {_same("e", "r", "attempt_id")} AND e.first_row = 1
WHERE r.place = 1""",
    {
        "status": "coalesce(e.status, r.status)",
        "reason": "coalesce(e.reason, r.reason)",
        "planned_at": "r.recorded_at",
        "closed_at": "e.recorded_at",
    },
)

WRITES = LakeView(
    "writes",
    "One row per write that the attempt that counts lists. A row of a raw table counts if this view has its cluster, "
    "cycle_at and write_id, with the table's name.",
    ("cluster", "cycle_at", "table_name", "write_id"),
    (
        *_CYCLE,
        *_columns("cycles", "attempt_id"),
        _PLAN_ID,
        Column("table_name", "string", "table of the lake that was written"),
        Column("write_id", "string", "write id of the rows"),
    ),
    f"""\
FROM (
  SELECT DISTINCT w.cluster, w.cycle_at, w.attempt_id, w.plan_id, w.table_name, w.write_id
  FROM (
    SELECT y.cluster, y.cycle_at, y.attempt_id, y.plan_id, m.row_kind, $table AS table_name, $id AS write_id
    FROM cycles y JOIN {RAW}cycles m ON {_same("m", "y", "attempt_id")} $unnest
  ) w
  WHERE w.row_kind = 'planned' OR w.table_name IN ('commands', 'outcomes')
) r""",
)

_STAGES = {
    "split": ("split_decisions", frozenset({"destination"})),
    "unload": ("unload_decisions", frozenset({"destination"})),
    "placement": ("placement_decisions", frozenset[str]()),
    "guard": ("guard_decisions", frozenset({"strategy"})),
}
"""Stage -> its table, and the columns of `decisions` that the table lacks."""
_DECIDED = (
    *("subject_kind", "subject", "namespace", "broker", "destination", "strategy", "outcome", "rule", "setting"),
    *("measured", "threshold", "margin", "unit", "sentence", "wish_id"),
)


def _stage(stage: str, table: str, lacking: frozenset[str]) -> str:
    columns = ", ".join(f"NULL AS {name}" if name in lacking else f"r.{name}" for name in _DECIDED)
    return f"  SELECT '{stage}' AS stage, r.cluster, r.cycle_at, {columns}, w.plan_id\n  {_listed(table)}"


DECISIONS = LakeView(
    "decisions",
    "One row per subject that a stage of a cycle judged, with the rule, its figures and the reason in words.",
    ("cluster", "cycle_at", "stage", "subject_kind", "subject", "rule", "wish_id", "strategy"),
    (
        *_CYCLE,
        Column("stage", "string", "split, unload, placement or guard"),
        *_columns("placement_decisions", "subject_kind", "subject", "namespace", "broker"),
        Column("destination", "string", "broker chosen or expected; NULL of a stage that chooses none"),
        Column("strategy", "string", "Pulsar's name of the strategy, `wish` or `Planner`; NULL of a guard"),
        *_columns("placement_decisions", "outcome", "rule", "setting", "measured", "threshold", "margin", "unit"),
        *_columns("placement_decisions", "sentence", "wish_id"),
        _PLAN_ID,
    ),
    "FROM (\n" + "\n  UNION ALL\n".join(_stage(stage, *of) for stage, of in _STAGES.items()) + "\n) r",
)

MOVES = LakeView(
    "moves",
    "One row per command of a plan that counts: splits and unloads, with the last outcome that any cycle or agent saw, "
    "and what they were decided on. Those of a dry run have the outcome dry_run.",
    ("cluster", "command_id"),
    (
        *_CYCLE,
        *_columns("commands", "command_id", "plan_id", "kind", "bundle"),
        Column("namespace", "string", "namespace of the bundle"),
        *_columns("commands", "topic", "from_broker", "destination", "mode"),
        Column("outcome", "string", "last outcome, one that went out before others; NULL if none was seen yet"),
        Column("seen_at", "timestamp", "when the outcome was seen, UTC"),
        Column("detail", "string", "what was seen, in words"),
        Column("harmed", "string", "harm that was seen first after the command, in words; NULL if none was seen"),
        Column("broker_measured", "double", "of an unload: figure of the broker that was to give, in broker_unit"),
        Column("broker_threshold", "double", "of an unload: what that figure was compared with, in broker_unit"),
        Column("broker_unit", "string", "unit of broker_measured and broker_threshold"),
        Column("reason", "string", "why the bundle or topic was split or unloaded, in words"),
        Column("msg_rate", "double", "messages of the bundle, in and out, as decisions used them", "msg/s"),
        Column("byte_rate", "double", "bytes of the bundle, in and out, as decisions used them", "byte/s"),
        *_columns("cycles", "run_id"),
    ),
    f"""\
FROM (
  SELECT c.*, row_number() OVER (PARTITION BY c.cluster, c.cycle_at, c.command_id ORDER BY c.write_id) AS place
  FROM {RAW}commands c
) r
JOIN cycles y ON {_same("y", "r", "plan_id")}
LEFT JOIN (
  SELECT o.*, row_number() OVER (
    PARTITION BY o.cluster, o.cycle_at, o.command_id
    ORDER BY CASE WHEN o.outcome IN ({_texts(SENT)}) THEN 0 ELSE 1 END, o.seen_at DESC,
      CASE WHEN o.outcome IN ({_texts(OPEN)}) THEN 1 ELSE 0 END, o.outcome DESC, o.detail DESC
  ) AS place
  FROM {RAW}outcomes o WHERE o.outcome <> '{HARMED}'
) o ON {_same("o", "r", "command_id")} AND o.place = 1
LEFT JOIN (
  SELECT cluster, cycle_at, command_id, min_by(detail, seen_at) AS detail FROM {RAW}outcomes
  WHERE outcome = '{HARMED}' GROUP BY cluster, cycle_at, command_id
) h ON {_same("h", "r", "command_id")}
LEFT JOIN (
  SELECT cluster, cycle_at, subject, max(measured) AS measured, max_by(threshold, measured) AS threshold,
    max_by(unit, measured) AS unit
  FROM decisions WHERE stage = 'unload' AND subject_kind = 'broker' AND outcome = 'unload'
  GROUP BY cluster, cycle_at, subject
) d ON d.cluster = r.cluster AND d.cycle_at = r.cycle_at AND d.subject = r.from_broker AND r.kind <> 'split'
LEFT JOIN (
  SELECT cluster, cycle_at, outcome, subject, min(sentence) AS sentence
  FROM decisions WHERE stage IN ('split', 'unload') AND subject_kind <> 'broker' AND outcome IN ('split', 'unload')
  GROUP BY cluster, cycle_at, outcome, subject
) b ON b.cluster = r.cluster AND b.cycle_at = r.cycle_at AND b.subject = coalesce(r.topic, r.bundle)
  AND b.outcome = CASE WHEN r.kind = 'split' THEN 'split' ELSE 'unload' END
LEFT JOIN bundle_load l ON {_same("l", "r", "bundle")}
WHERE r.place = 1""",
    {
        "namespace": "substr(r.bundle, 1, length(r.bundle) - 22)",
        "outcome": "o.outcome",
        "seen_at": "o.seen_at",
        "detail": "o.detail",
        "harmed": "h.detail",
        "broker_measured": "d.measured",
        "broker_threshold": "d.threshold",
        "broker_unit": "d.unit",
        "reason": "b.sentence",
        "msg_rate": "l.used_msg_rate_in + l.used_msg_rate_out",
        "byte_rate": "l.used_msg_throughput_in + l.used_msg_throughput_out",
        "run_id": "y.run_id",
    },
)

BY_OPERATORS = frozenset({"wish", "draining"})
"""Strategies of unloads that operators ask for: they judge no load."""

BROKER_THRESHOLD_DAILY = LakeView(
    "broker_threshold_daily",
    "One row per UTC day, broker and setting: how often the shedder compared the broker with its threshold, and how "
    "often the broker had reached it. A refusal by a figure of another setting is in a row of that setting.",
    ("cluster", "day", "broker", "setting", "unit"),
    (
        *_columns("cycles", "cluster"),
        Column("day", "date", "UTC date of the cycles"),
        *_columns("broker_load", "broker"),
        Column("rounds_judged", "bigint", "cycles in which the broker was compared", "count"),
        Column("rounds_over", "bigint", "of these, cycles in which it was at or above the threshold", "count"),
        Column("share_over", "double", "rounds_over of rounds_judged", "fraction"),
        Column("max_measured", "double", "largest figure of the day, in `unit`"),
        Column("threshold_then", "double", "threshold of the cycle with that figure, in `unit`"),
        Column("worst_margin", "double", "largest measured - threshold of the day, in `unit`"),
        *_columns("unload_decisions", "unit", "setting"),
    ),
    f"""\
{_listed("unload_decisions")}
WHERE r.subject_kind = 'broker' AND r.margin IS NOT NULL AND r.strategy NOT IN ({_texts(BY_OPERATORS)})
GROUP BY r.cluster, r.cycle_date, r.subject, r.unit, r.setting""",
    {
        "day": "r.cycle_date",
        "broker": "r.subject",
        "rounds_judged": "count(*)",
        "rounds_over": "count(CASE WHEN r.margin >= 0 THEN 1 END)",
        "share_over": "avg(CASE WHEN r.margin >= 0 THEN 1e0 ELSE 0e0 END)",
        "max_measured": "max(r.measured)",
        "threshold_then": "max_by(r.threshold, r.measured)",
        "worst_margin": "max(r.margin)",
    },
)

BROKER_LOAD = LakeView(
    "broker_load",
    "One row per broker and cycle: usage in percent, and the sums over its bundles.",
    ("cluster", "cycle_at", "broker"),
    (
        *_CYCLE,
        *_columns("broker_load", "broker", "state", "is_leader", "cpu_percent", "memory_percent"),
        *_columns("broker_load", "direct_memory_percent", "bandwidth_in_percent", "bandwidth_out_percent"),
        *_columns("broker_load", "weighted_usage", *_RATES, "topics", "bundles"),
    ),
    _listed("broker_load"),
)

BUNDLE_LOAD = LakeView(
    "bundle_load",
    "One row per bundle and cycle: owner, the rates that decisions used, topics, sessions and backlog.",
    ("cluster", "cycle_at", "bundle"),
    (
        *_CYCLE,
        *_columns("bundle_load", "bundle", "namespace", "owner", "ownership"),
        *_columns("bundle_load", *(f"used_{rate}" for rate in _RATES), "used_reason", "topics"),
        Column("sessions", "bigint", "producers and consumers; NULL if one of them is unknown", "count"),
        Column("backlog", "bigint", "messages not yet acknowledged, over all subscriptions", "msg"),
    ),
    _listed("bundle_load"),
    {"sessions": "r.producers + r.consumers", "backlog": "r.msg_backlog"},
)

DATA_QUALITY = LakeView(
    "data_quality",
    "One row per validation rule, checked table and cycle, passed or failed.",
    ("cluster", "cycle_at", "checked_table", "rule"),
    (
        *_CYCLE,
        *_columns("validation_results", "checked_table", "rule", "severity", "passed", "checked_rows", "failed_rows"),
        *_columns("validation_results", "measured", "threshold", "unit", "detail"),
    ),
    _listed("validation_results"),
)

SETTINGS = LakeView(
    "settings",
    "One row per key of the settings in force in a cycle.",
    ("cluster", "cycle_at", "key"),
    (*_CYCLE, *_columns("settings", "key", "value", "origin", "unit")),
    _listed("settings"),
)

VIEWS: dict[str, LakeView] = {
    view.name: view
    for view in (
        *(CYCLES, WRITES, DECISIONS, BROKER_LOAD, BUNDLE_LOAD, MOVES, BROKER_THRESHOLD_DAILY, DATA_QUALITY),
        SETTINGS,
    )
}
"""The views by name; each is behind those that it reads."""
