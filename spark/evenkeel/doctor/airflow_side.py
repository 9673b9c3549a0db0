"""Reads Airflow's version, its DAG files and its connections, in a separate process.

The content of connections goes through the pipe to the calling process, and to no other place.
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from evenkeel.doctor.side_process import Answer, answer_aside
from evenkeel.secret import Secret

_SHOWN = 300


def answer(question: dict[str, Any]) -> Answer:
    """Return `version`, and by request `dags`, `faults`, `missing`, `tokens` and `stores`.

    `dags`: ids; `faults`: file -> why it cannot be imported; `missing`: unknown connections; `tokens` and `stores`:
    connection -> its content, None if unknown.
    """
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")  # connections are looked up in Airflow's database too
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    import airflow

    reply: Answer = {"version": airflow.__version__}
    if question.get("dags"):
        reply |= _dags()
    if "connections" in question:
        reply["missing"] = [name for name in question["connections"] if not _is_known(name)]
    if "tokens" in question:
        reply["tokens"] = {name: _token(name) for name in question["tokens"]}
    if "stores" in question:
        reply["stores"] = {name: _store(name) for name in question["stores"]}
    return reply


def _token(name: str) -> dict[str, Any] | None:
    from evenkeel.airflow.credentials import from_airflow

    known = from_airflow(name)
    if known is None:
        return None
    return {"token": None if known.token is None else known.token.reveal(), "urls": known.urls}


def _store(name: str) -> dict[str, Any] | None:
    from evenkeel.airflow.credentials import store_from_airflow

    known = store_from_airflow(name)
    if known is None:
        return None
    texts = {field.name: getattr(known, field.name) for field in fields(known)}
    return {part: text.reveal() if isinstance(text, Secret) else text for part, text in texts.items()}


def _dags() -> Answer:
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag

    folder = conf.get("core", "dags_folder")
    bag = DagBag(dag_folder=folder)
    faults = {file: str(message).strip().splitlines()[-1][:_SHOWN] for file, message in bag.import_errors.items()}
    ours = {file: message for file, message in faults.items() if _imports_ours(file, folder)}
    return {"folder": folder, "dags": sorted(bag.dags), "faults": ours}


def _imports_ours(file: str, folder: str) -> bool:
    path = Path(file) if Path(file).is_absolute() else Path(folder) / file
    try:
        return "evenkeel" in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def _is_known(name: str) -> bool:
    from airflow.models.connection import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        Connection.get_connection_from_secrets(name)
    except AirflowNotFoundException:
        return False
    return True


if __name__ == "__main__":
    answer_aside(answer)
