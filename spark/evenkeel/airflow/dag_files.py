"""Declarations of DAG files: params, limits of a run, tries and assets.

DAG files are read often, so this module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from evenkeel.errors import SettingsError
from evenkeel.handover import Write, try_of
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.manual_requests.wish_schema import SCHEMAS
from evenkeel.settings.entries import MODES
from evenkeel.settings.keys.own import DECIDING_KEYS, GuardKeys, OwnKeys
from evenkeel.settings.operation import ENVIRONMENT

if TYPE_CHECKING:
    from airflow.sdk import Asset, CronTriggerTimetable


def rebalance_params() -> dict[str, Param]:
    """Return each param with its default and its JSON Schema, with which Airflow checks a run's params."""
    return {
        "clusters": Param(
            [],
            type="array",
            items={"type": "string", "minLength": 1},
            uniqueItems=True,
            description="Names of configured clusters. Empty: all of them.",
        ),
        "source": Param(
            "",
            type="string",
            pattern=r"^(recording:.+)?$",
            description="Where snapshots come from, e.g. recording:/data/recordings/monday. Empty: as configured.",
        ),
        "mode": Param(
            default_mode(),
            type="string",
            enum=allowed_modes(),
            description="dry_run sends nothing, approve asks a person before it sends, auto sends. EVENKEEL_MODE_LIMIT "
            "says which of them a run may have.",
        ),
        "settings": Param(
            {},
            type="object",
            propertyNames={"pattern": "^[A-Za-z][A-Za-z0-9]*$"},
            description="Overrides under Pulsar's own keys, for this run only; checked when the run starts.",
        ),
        "at": Param(
            None,
            type=["null", "string"],
            format="date-time",
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$",  # the format is not checked
            description="Decide the newest snapshot up to this moment. Empty: the run's logical date, else now.",
        ),
        "wishes": Param(
            [],
            type="array",
            items={"oneOf": list(SCHEMAS.values())},
            description="Splits, unloads and drains to carry out beside what the strategies decide. Not in a backfill.",
        ),
    }


def history_params() -> dict[str, Param]:
    """The params of `rebalance` that a window of past cycles has as well."""
    params = rebalance_params()
    return {name: params[name] for name in ("clusters", "source", "settings")}


# Limits of a run. A user who may trigger a DAG may pass any params, so the operator's environment or the configuration
# file sets the limit.

MODE_VARIABLE, LIMIT_VARIABLE = "EVENKEEL_MODE", "EVENKEEL_MODE_LIMIT"
_GUARDED = frozenset(field.name for keys in (GuardKeys, OwnKeys) for field in fields(keys)) - DECIDING_KEYS
"""Keys that a run's params do not change where commands may go out."""


def default_mode() -> str:
    """The mode of the schedule's runs, and of others that name none."""
    return _mode(MODE_VARIABLE, "dry_run")


def allowed_modes() -> list[str]:
    """The modes that a run may have: up to EVENKEEL_MODE_LIMIT, by default up to EVENKEEL_MODE."""
    mode = default_mode()
    limit = _mode(LIMIT_VARIABLE, mode)
    if MODES.index(mode) > MODES.index(limit):
        raise SettingsError(
            f"{MODE_VARIABLE} is {mode}, and {LIMIT_VARIABLE} allows {limit} at most: change one of them"
        )
    return list(MODES[: MODES.index(limit) + 1])


_SHAPES: Mapping[str, tuple[type, type | None, str]] = {
    "clusters": (list, str, "a list of names"),
    "source": (str, None, "a text"),
    "mode": (str, None, "a text"),
    "settings": (dict, None, "an object of keys and values"),
    "at": (str, None, "a time"),
    "wishes": (list, dict, "a list of requests"),
}


def check_shapes(params: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for a param of another type than in `rebalance_params`.

    Airflow checks params when a run is triggered, but not params that were stored before or come another way.
    """
    for name, (kind, inner, words) in _SHAPES.items():
        value = params.get(name) or kind()
        items = value if isinstance(value, list) and inner is not None else ()
        if not isinstance(value, kind) or not all(isinstance(item, inner or object) for item in items):
            raise SettingsError(f"the param `{name}` is not {words}")


def check_ceiling(params: Mapping[str, Any]) -> None:
    """Raise SettingsError if a run's params ask for a mode above the limit, or change guards in a mode that sends."""
    mode, allowed = params.get("mode") or default_mode(), allowed_modes()
    if mode not in MODES:
        raise SettingsError(f"the param `mode` is not one of {', '.join(MODES)}")
    if mode not in allowed:
        raise SettingsError(
            f"the param `mode` is {mode}, and runs of this Airflow may have {' or '.join(allowed)}: the operator of "
            "Airflow sets "
            f"{LIMIT_VARIABLE}"
        )
    guards = sorted(_GUARDED & set(params.get("settings") or ()))
    if mode != MODES[0] and guards:
        raise SettingsError(
            f"the param `settings` changes {', '.join(guards)}: where commands may go out, guards are as the "
            "configuration has them, and so is what is trusted for how long. Change that there, or run with mode "
            "dry_run"
        )


SHORTEN_VARIABLE = "EVENKEEL_UPKEEP_SHORTEN"


def check_shortening(params: Mapping[str, Any]) -> None:
    """Raise `SettingsError` if a run of `upkeep` shortens a period and the environment forbids it: dropped rows do not
    return."""
    if params.get("shorten") and not is_on(SHORTEN_VARIABLE):
        raise SettingsError(
            "the param `shorten` is set, and no run may keep data for a shorter time than the lake's periods: "
            f"whoever runs Airflow sets {SHORTEN_VARIABLE}=true, or runs `evenkeel upkeep --shorten`"
        )


_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def is_on(variable: str, environment: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Return True if the variable means yes; `SettingsError` for a value that means neither yes nor no."""
    text = environment.get(variable, "").strip().lower()
    if text not in (*_YES, *_NO):
        raise SettingsError(f"{variable} is neither true nor false")
    return text in _YES


def _mode(variable: str, default: str) -> str:
    mode = ENVIRONMENT.get(variable) or default
    if mode not in MODES:
        raise SettingsError(f"{variable} is not one of {', '.join(MODES)}")
    return mode


# The schedules of the DAGs. An invalid cron expression would be an import error in croniter's words, which name no
# variable. An expression without any date passes Airflow's own check.

MANUAL = "none"
START_DATE = datetime(2020, 1, 1, tzinfo=UTC)
"""Before all recordings: Airflow runs no task for logical dates before it."""


def timetable_in(variable: str, default: str) -> CronTriggerTimetable | None:
    """The timetable of a DAG by the cron expression in a variable; None for manual runs only."""
    from airflow.sdk import CronTriggerTimetable

    cron = schedule_in(variable, default)
    return None if cron is None else CronTriggerTimetable(cron, timezone="UTC")


def schedule_in(variable: str, default: str) -> str | None:
    """Return the cron expression in a variable, or in its entry of the configuration file.

    None if it is `none`, for manual runs only. `SettingsError` for anything else.
    """
    given = ENVIRONMENT.get(variable) or default
    return None if given == MANUAL else _cron(variable, given, default, f", or {MANUAL} for manual runs only")


def intervals_in(variable: str, default: str) -> str:
    """The cron expression in a variable that cuts the time into data intervals; `SettingsError` for anything else."""
    given = ENVIRONMENT.get(variable) or default
    if given == MANUAL:
        raise SettingsError(
            f"{variable} is {MANUAL}, and the DAG needs intervals: each run of a backfill decides one of them. It is "
            "paused by default, and does nothing until it is unpaused. Remove the variable, or give a cron "
            f"expression, as in {default!r}"
        )
    return _cron(variable, given, default, "")


def _cron(variable: str, given: str, default: str, more: str) -> str:
    from airflow.sdk import CronDataIntervalTimetable
    from airflow.sdk.exceptions import AirflowTimetableInvalid
    from croniter import CroniterBadDateError, croniter

    timetable = CronDataIntervalTimetable(given, timezone="UTC")
    try:
        timetable.validate()
        croniter(timetable.expression, datetime.now(UTC)).get_next()
    except AirflowTimetableInvalid:
        raise SettingsError(f"{variable} is not a cron expression in UTC, as in {default!r}{more}") from None
    except CroniterBadDateError:
        raise SettingsError(
            f"{variable} names a moment that never comes: give one of a date that exists, as in {default!r}"
        ) from None
    return given


# How the tasks of all DAGs are tried again: every one of them may be killed anywhere and run once more.


def tried_again(
    *,
    ends_after: timedelta,
    first_wait: timedelta = timedelta(seconds=5),
    longest_wait: timedelta = timedelta(minutes=2),
) -> dict[str, Any]:
    """Return `default_args` of a DAG: two retries, with growing delays; a try is ended after `ends_after`."""
    return {
        "owner": "evenkeel",
        "retries": 2,
        "retry_delay": first_wait,
        "retry_exponential_backoff": True,
        "max_retry_delay": longest_wait,
        "execution_timeout": ends_after,
    }


# Lineage in Airflow's own terms: each table is an asset, and each of its events names the writes of a task.
#
# Airflow stores the run and task of each event. The event has the table's version and the write id. So one finds the
# written rows of a run, and, by `cycles.writes` or a commit's `userMetadata`, the run of written rows.


def asset(table: str) -> Asset:
    """Return the asset of a table of the lake."""
    from airflow.sdk import Asset

    return Asset(name=f"evenkeel/{table}", uri=f"evenkeel://lake/{table}")


def outlets(task_id: str) -> list[Asset]:
    """The assets of the tables that a task writes."""
    return [asset(table.name) for table in EVERY_TABLE.values() if task_id in table.producers]


def emit_asset_events(events: Mapping[Any, Any] | None, lake: str, writes: Iterable[Write]) -> None:
    """Put these writes into the task's asset events; `events` are Airflow's `outlet_events`, None where none are."""
    if events is None:
        return
    for table, body in by_table(lake, writes).items():
        events[asset(table)].extra.update(body)


def by_table(lake: str, writes: Iterable[Write]) -> dict[str, dict[str, Any]]:
    """Return table -> content of its event: the lake, and for each write its id, version, clusters and rows.

    The writes of a window, hundreds in one append, are one entry: its `write_id` is the common beginning of their ids,
    and `cycles` their number.
    """
    tries: dict[tuple[str, str], list[Write]] = {}
    for write in writes:
        tries.setdefault((write.table, try_of(write.write_id)), []).append(write)
    writes_of: dict[str, list[dict[str, Any]]] = {}
    for (table, beginning), table_writes in sorted(tries.items(), key=lambda item: item[0]):
        ids = {write.write_id for write in table_writes}
        writes_of.setdefault(table, []).append(
            {
                "write_id": beginning if len(ids) > 1 else table_writes[0].write_id,
                "version": table_writes[0].version,
                "clusters": sorted({write.cluster for write in table_writes}),
                "rows": sum(write.rows for write in table_writes),
                **(
                    {"cycles": len({(write.cluster, write.write_id) for write in table_writes})} if len(ids) > 1 else {}
                ),
            }
        )
    return {table: {"lake": lake, "writes": events} for table, events in writes_of.items()}
