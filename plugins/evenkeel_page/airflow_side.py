"""Values that the page reads from Airflow: the lake, the cycles of a run, and the state of `replay` runs."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.airflow.dag_names import (
    DECIDING_DAG,
    HISTORY_DAG,
    REPLAY_DAG,
    REPLAYING,
    dag_id_of,
    deciding_lakes,
)
from evenkeel.airflow.seal import without_seal
from evenkeel.errors import EvenkeelError, NoLake
from evenkeel.json_text import parse_json
from evenkeel.lake.handover_files import taken
from evenkeel.object_store import CONNECTION_VARIABLE, is_object_store
from evenkeel.settings.lakes import ConfiguredLake, LakeMap, configured_lakes
from evenkeel.settings.names import MAIN
from evenkeel_page.reader import Job

log = logging.getLogger(__name__)

VARIABLE = "evenkeel_lake"
MOST_SIGNS, MOST_XCOMS, MOST_FILE_BYTES = 200_000, 500, 16 << 20
"""Bounds of what is read for a page: of an XCom, which many users may edit, of their number, and of a hand-over."""


def lakes() -> LakeMap:
    """Return the configured lakes, else the one in the Airflow Variable `evenkeel_lake`; NoLake without any."""
    configured = configured_lakes()
    if configured.lakes:
        return configured
    named = _variable()
    if not named:
        raise NoLake("Airflow does not know yet where the lake is.")
    return LakeMap((ConfiguredLake(MAIN, named),))


def job_for(page: str, arguments: dict[str, Any] | None = None, named: str = "") -> Job:
    """Return the reader's job: a page of the lake, or of several. Raises NoLake, and errors of `store`."""
    configured = lakes()
    first = configured.lakes[0].path
    kept = next((words for lake in configured.lakes if (words := store(lake.path)) is not None), None)
    if not configured.is_several:
        return Job(page, first, arguments or {}, kept)
    return Job(page, first, arguments or {}, kept, configured, named)


def store(lake: str) -> dict[str, str | None] | None:
    """Return the content of the connection in EVENKEEL_LAKE_CONNECTION, for the reader, which has no Airflow.

    None if the lake is a folder, or the variable is not set. Raises SettingsError for a connection that cannot be used.
    """
    name = os.environ.get(CONNECTION_VARIABLE)
    if not name or not is_object_store(lake):
        return None
    from evenkeel.airflow.credentials import store_words

    return store_words(name)


def _variable() -> str | None:
    from airflow.models.variable import Variable

    value: str | None = Variable.get(VARIABLE, default_var=None)
    return value


def cycles_of_run(dag_id: str, run_id: str) -> frozenset[tuple[str, datetime]]:
    """Return (cluster, cycle_at) of the hand-overs that a run's tasks left in XCom; empty without any yet."""
    values = [value for _, value in _left(dag_id=dag_id, run_id=run_id, key="return_value")]
    return frozenset(cycle for value in values for cycle in _cycles(value))


def _left(**where: str) -> list[tuple[str, Any]]:
    """Return key and value of the XComs with these columns; a value of more than `MOST_SIGNS` stays in the database."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import String, cast, func, select

    text = cast(XComModel.value, String)  # the database's own reader of JSON fails on deep nesting
    conditions = [getattr(XComModel, column) == value for column, value in where.items()]
    query = select(XComModel.key, text).where(*conditions, func.length(text) <= MOST_SIGNS).limit(MOST_XCOMS)
    with create_session() as session:
        return [(key, _unpacked(value)) for key, value in session.execute(query)]


def _cycles(value: Any) -> list[tuple[str, datetime]]:
    """Return the cycles of an XCom value: the hand-over's text, sealed or not, or its JSON.

    Any other value is ignored. The seal is not checked: the page shows recorded rows, and nothing acts on it.
    """
    try:
        text = without_seal(value) if isinstance(value, str) else json.dumps(value)
        cycles = taken(text, lakes(), MOST_FILE_BYTES).cycles
        return [(str(cycle.cluster), cycle.at.astimezone(UTC)) for cycle in cycles]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, EvenkeelError):
        return []


def has_decided() -> bool:
    """Return True if a run that records cycles has ended well; False if Airflow's database does not answer."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    ids = [dag_id_of(dag_id, lake) for dag_id in (DECIDING_DAG, HISTORY_DAG) for lake in deciding_lakes()]
    query = select(DagRun.id).where(DagRun.dag_id.in_(ids), DagRun.state == "success").limit(1)
    try:
        with create_session() as session:
            return session.scalar(query) is not None
    except SQLAlchemyError as error:
        log.warning("the runs of %s are not known: %s", DECIDING_DAG, type(error).__name__)
        return False


# Runs of `replay`. Their results are found by the XCom of their task. The page reads it, not the browser, so that no
# user needs a right on XCom for it.

MOST_UNDER_WAY = 20


@dataclass(frozen=True)
class ReplayRun:
    """The state of a run: `state` is Airflow's word, `is_paused` is that of the DAG.

    `replay_id` and `reason` (why it failed) are as its task left them, else empty.
    """

    run_id: str
    state: str
    is_paused: bool
    replay_id: str = ""
    reason: str = ""


def replay_run(run_id: str) -> ReplayRun | None:
    """Return the run of that id, None without one."""
    runs = _replay_runs(run_id=run_id)
    if not runs:
        return None
    left = dict(_left(dag_id=REPLAY_DAG, run_id=run_id, task_id=REPLAYING))
    result, reason = left.get("return_value"), left.get("reason")
    replay_id = result.get("replay_id", "") if isinstance(result, dict) else ""
    run: ReplayRun = runs[0]
    return ReplayRun(run.run_id, run.state, run.is_paused, str(replay_id), "" if reason is None else str(reason))


def replays_under_way() -> list[ReplayRun]:
    """Return the waiting and running runs, newest first; none if Airflow's database does not answer."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return _replay_runs(states=("queued", "running"))
    except SQLAlchemyError as error:
        log.warning("the runs of %s under way are not known: %s", REPLAY_DAG, type(error).__name__)
        return []


def _replay_runs(*, run_id: str | None = None, states: tuple[str, ...] = ()) -> list[ReplayRun]:
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(DagRun.run_id, DagRun.state, DagModel.is_paused).join(DagModel, DagModel.dag_id == DagRun.dag_id)
    query = query.where(DagRun.dag_id == REPLAY_DAG).order_by(DagRun.id.desc()).limit(MOST_UNDER_WAY)
    if run_id is not None:
        query = query.where(DagRun.run_id == run_id)
    if states:
        query = query.where(DagRun.state.in_(states))
    with create_session() as session:
        return [ReplayRun(name, str(state), bool(paused)) for name, state, paused in session.execute(query)]


def _unpacked(value: Any) -> Any:
    """A value of XCom: JSON, possibly within JSON; a text that is none stays as it is."""
    for _ in range(3):
        if not isinstance(value, str):
            break
        try:
            value = parse_json(value)
        except ValueError:
            break
    return value
