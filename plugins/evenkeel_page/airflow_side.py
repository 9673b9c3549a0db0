"""What the page asks Airflow: where the lake is, and which cycles a run worked on."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from evenkeel.airflow.seal import without_seal
from evenkeel.errors import EvenkeelError, NoLake
from evenkeel.lake.handover_files import taken
from evenkeel.object_store import CONNECTION_VARIABLE, S3Connection, is_object_store
from evenkeel.secret import Secret

log = logging.getLogger(__name__)

VARIABLE = "evenkeel_lake"
_SECRETS = ("secret_key", "session_token")


def lake() -> str:
    """The lake's address: `EVENKEEL_LAKE`, else the Airflow Variable `evenkeel_lake`; NoLake where neither is set."""
    found = os.environ.get("EVENKEEL_LAKE") or _variable()
    if not found:
        raise NoLake("Airflow does not know yet where the lake is.")
    return found


def store(lake: str) -> dict[str, str | None] | None:
    """What the connection that EVENKEEL_LAKE_CONNECTION names holds, for the reader, which has no Airflow; None where
    the lake is a folder, or the variable is not set. Raises SettingsError for a connection that cannot be used."""
    name = os.environ.get(CONNECTION_VARIABLE)
    if not name or not is_object_store(lake):
        return None
    from evenkeel.airflow.credentials import store_from_airflow

    found = store_from_airflow(name)
    if found is None:
        return None
    texts = {one.name: getattr(found, one.name) for one in fields(found)}
    return {name: text.reveal() if isinstance(text, Secret) else text for name, text in texts.items()}


def as_connection(words: Mapping[str, str | None]) -> S3Connection:
    """The connection that `store` put into words."""
    secrets = {name: None if words[name] is None else Secret(words[name] or "") for name in _SECRETS}
    return S3Connection(**{**words, **secrets})  # type: ignore[arg-type]


def _variable() -> str | None:
    from airflow.models.variable import Variable

    value: str | None = Variable.get(VARIABLE, default_var=None)
    return value


def cycles_of_run(dag_id: str, run_id: str) -> frozenset[tuple[str, datetime]]:
    """(cluster, cycle_at) of the hand-overs that a run's tasks left in XCom; empty where there is none yet."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    query = XComModel.get_many(key="return_value", run_id=run_id, dag_ids=dag_id)
    with create_session() as session:
        values = list(session.scalars(query.with_only_columns(XComModel.value)))
    return frozenset(cycle for value in values for cycle in _cycles(value))


def _cycles(value: Any) -> list[tuple[str, datetime]]:
    """XCom holds the hand-over's text, sealed and as JSON, possibly within JSON; anything else is none of ours.

    Nobody asks whose seal it is: the page shows what is on record, and nothing acts on it.
    """
    try:
        text = json.loads(without_seal(value)) if isinstance(value, str) else value
        handover = taken(without_seal(text) if isinstance(text, str) else json.dumps(text))
    except (ValueError, KeyError, TypeError, EvenkeelError):
        return []
    return [(cycle.cluster, cycle.at) for cycle in handover.cycles]
