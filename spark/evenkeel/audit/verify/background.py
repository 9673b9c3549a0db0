"""What manifests name by id only, fetched from the small tables without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.audit.read import Attempt, read_rows_of, read_where
from evenkeel.audit.verify.recorded import Background, settings_text
from evenkeel.lake.store import Lake
from evenkeel.tasks.remembering import LOOKBACK


def background_of(lake: Lake, attempts: Sequence[Attempt]) -> Background:
    """Settings, wishes and commands that these attempts rest on, as far as they are on record."""
    return Background(_settings(lake, attempts), _wishes(lake, attempts), _commands(lake, attempts))


def _settings(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, str]:
    """By digest; one attempt of each will do."""
    one_each = {attempt.planned["settings_digest"]: attempt for attempt in attempts if attempt.writes_of("settings")}
    rows = read_rows_of(lake.root, list(one_each.values()), "settings")
    return {
        digest: settings_text(found)
        for digest, attempt in one_each.items()
        if digest is not None and (found := rows[attempt.attempt_id])
    }


def _wishes(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, dict[str, object]]:
    asked = {wish_id for attempt in attempts for wish_id in attempt.planned["wishes"] or ()}
    if not asked:
        return {}
    return {row["wish_id"]: row for row in read_where(lake.root, "wishes", {"wish_id": sorted(asked)})}


def _commands(lake: Lake, attempts: Sequence[Attempt]) -> dict[str, dict[str, object]]:
    asked = {act["command_id"] for attempt in attempts for act in attempt.planned.get("acts") or ()}
    if not asked:
        return {}
    days = sorted({day.date() for a in attempts for day in (a.cycle_at - LOOKBACK, a.cycle_at)})
    clusters = sorted({a.cluster for a in attempts})
    where: dict[str, Sequence[object]] = {"cluster": clusters, "cycle_date": days, "command_id": sorted(asked)}
    return {row["command_id"]: row for row in read_where(lake.root, "commands", where)}
