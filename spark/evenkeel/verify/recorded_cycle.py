"""Restore the cycle that tasks were given from its manifest: settings, predecessor, requests, commands and pauses.

Manifests name settings, requests and commands by id; these are read from their tables without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from evenkeel.cycle.frames import cycle_row_of
from evenkeel.handover import ClusterCycle, Predecessor, Run, Snapshot
from evenkeel.lake.outbox import LOOKBACK, as_text
from evenkeel.lake.record import Attempt, read_rows_of, read_table
from evenkeel.lake.store import Lake
from evenkeel.lake.wishes import WISHES
from evenkeel.plan_splits.planner_wishes import looks_at_topics
from evenkeel.plan_splits.round import cuts_by_topics
from evenkeel.settings import EffectiveSettings, settings_in
from evenkeel.spark.code import code_digest
from evenkeel.times import utc_text

Row = Mapping[str, Any]
PLANNED = (
    *("plan_id", "shedder", "placement", "splits", "unloads", "placements", "refusals", "held"),
    *("before_max_over_mean", "after_max_over_mean", "moved_traffic_share"),
)


@dataclass(frozen=True, slots=True)
class Background:
    """Rows that manifests name by id.

    `settings`: digest -> JSON text. `wishes`: id -> request. `commands`: id -> command.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    wishes: Mapping[str, Row] = field(default_factory=dict)
    commands: Mapping[str, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """An attempt that is to be decided again: its manifest, and its cycle as the tasks were given it."""

    attempt: Attempt
    cycle: ClusterCycle

    @property
    def run(self) -> Run:
        """Return the run that the manifest names."""
        planned = self.attempt.planned
        return Run(planned["dag_id"], planned["run_id"], planned["kind"], planned["mode"])

    @property
    def needs_topics(self) -> bool:
        """Return True if its splits look at the topics of bundles."""
        return cuts_by_topics(settings_in(self.cycle.settings), self.cycle.wishes)

    @property
    def planner_looks_at_topics(self) -> bool:
        """Return True if splits that Evenkeel's own planner wants look at the topics of bundles."""
        return looks_at_topics(settings_in(self.cycle.settings))

    @property
    def to_the_word(self) -> bool:
        """Return True if its sentences have to be the same too, since this code wrote them."""
        return bool(self.attempt.planned["code_digest"] == code_digest())

    @property
    def cycle_row(self) -> Row:
        """Return the row that describes the cycle to the rounds."""
        return cycle_row_of(self.cycle, self.run)


def restore_cycle(attempt: Attempt, background: Background) -> RecordedCycle:
    """Return the recorded cycle of an attempt.

    Raises LookupError if a row is missing in the background, SettingsError for settings of another version.
    """
    row = attempt.planned
    text = background.settings.get(row["settings_digest"])
    if text is None:
        raise LookupError(f"its settings (digest {row['settings_digest']}) are not on record any more")
    _demand_known(text)
    cycle = ClusterCycle(
        cluster=attempt.cluster,
        cycle_at=utc_text(attempt.cycle_at),
        snapshot=Snapshot(row["snapshot"] or "", utc_text(row.get("snapshot_at") or attempt.cycle_at)),
        overrides={},
        settings=text,
        settings_digest=row["settings_digest"],
        manager=row["manager"],
        predecessor=Predecessor(
            row["predecessor_status"],
            utc_text(row["predecessor_cycle_at"]) if row["predecessor_cycle_at"] else None,
            row["predecessor_attempt_id"],
            utc_text(row["predecessor_expected_at"]) if row["predecessor_expected_at"] else None,
            attempt.reads,
        ),
        wishes=tuple(_wish(background, wish_id) for wish_id in row["wishes"] or ()),
        acts=tuple(_act(background, act) for act in row.get("acts") or ()),
        pauses=tuple(dict(pause) for pause in row.get("pauses") or ()),
        source=row["source"],
    )
    return RecordedCycle(attempt, cycle)


@lru_cache(maxsize=16)
def _demand_known(text: str) -> None:
    """Raise SettingsError if these settings are of another version; the check runs once for cycles that share them."""
    EffectiveSettings.from_json(text)


def other_plan(planned: Row, plan: Row) -> str:
    """Return the differences of a plan's figures from those in the manifest, in words; "" without any."""
    names = [name for name in PLANNED if planned[name] != plan.get(name)]
    return ", ".join(f"{name} {planned[name]} became {plan.get(name)}" for name in names)


def settings_text(rows: Iterable[Row]) -> str:
    """Return the JSON text of the settings in these rows of the table `settings`."""
    values, origins = {}, {}
    for row in rows:
        values[row["key"]], origins[row["key"]] = json.loads(row["value"]), row["origin"]
    return json.dumps({"settings": values, "origins": origins, "problems": []}, sort_keys=True)


def _wish(background: Background, wish_id: str) -> dict[str, Any]:
    if wish_id not in background.wishes:
        raise LookupError(f"wish {wish_id} is not on record any more")
    wish = background.wishes[wish_id]
    return {name: utc_text(v) if isinstance(v := wish.get(name), datetime) else v for name in WISHES.column_names()}


def _act(background: Background, act: Row) -> dict[str, Any]:
    """Return a command with the outcome that the manifest names; the command itself never changes."""
    if act["command_id"] not in background.commands:
        raise LookupError(f"command {act['command_id']} is not on record any more")
    known = {"outcome": act["outcome"], "seen_at": None, "detail": None}
    return {**as_text({**background.commands[act["command_id"]], **known}), "seen_at": act["seen_at"]}


def background_of(lake: Lake, attempts: Sequence[Attempt]) -> Background:
    """Return the settings, requests and commands that these attempts used, as far as they are on record."""
    return Background(_settings(lake, attempts), _wishes(lake, attempts), _commands(lake, attempts))


def _settings(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, str]:
    """Return the settings by digest, each read from one attempt."""
    by_digest = {attempt.planned["settings_digest"]: attempt for attempt in attempts if attempt.writes_of("settings")}
    rows = read_rows_of(lake.root, list(by_digest.values()), "settings")
    return {
        digest: settings_text(settings)
        for digest, attempt in by_digest.items()
        if digest is not None and (settings := rows[attempt.attempt_id])
    }


def _wishes(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, dict[str, object]]:
    ids = {wish_id for attempt in attempts for wish_id in attempt.planned["wishes"] or ()}
    if not ids:
        return {}
    return {row["wish_id"]: row for row in read_table(lake.root, "wishes", {"wish_id": sorted(ids)})}


def _commands(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, dict[str, object]]:
    ids = {act["command_id"] for attempt in attempts for act in attempt.planned.get("acts") or ()}
    if not ids:
        return {}
    days = sorted({day.date() for a in attempts for day in (a.cycle_at - LOOKBACK, a.cycle_at)})
    clusters = sorted({a.cluster for a in attempts})
    where: dict[str, Sequence[object]] = {"cluster": clusters, "cycle_date": days, "command_id": sorted(ids)}
    return {row["command_id"]: row for row in read_table(lake.root, "commands", where)}
