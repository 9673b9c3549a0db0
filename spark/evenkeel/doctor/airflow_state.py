"""Checks of Airflow on this machine: its version, whether our DAGs can be imported, and the connections they need.

Airflow is asked in a separate process, which runs this module. The content of connections goes through the pipe to the
calling process, and to no other place.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from evenkeel.airflow.dag_names import CONNECTION, expected_dags
from evenkeel.doctor.checks import (
    Answer,
    AsideFailed,
    CheckFinding,
    Site,
    answer_aside,
    asked_aside,
    fail,
    ok,
    skipped,
    warn,
)
from evenkeel.object_store import CONNECTION_VARIABLE, S3Connection
from evenkeel.pulsar.admin.connection import Credentials, from_environment
from evenkeel.spark.jars import installed_version
from evenkeel.steering.queue.signing import keys_from_environment
from evenkeel.transparency import LOG_CONNECTION

SECONDS = 120.0
_SIDE = "evenkeel.doctor.airflow_state"
_NOT_HERE = "no Airflow runs on this machine: AIRFLOW_HOME (else ~/airflow) is not the home of one"


def check_airflow(site: Site, _: str) -> CheckFinding:
    """Airflow itself: its version, and that it can be imported with its configuration."""
    installed = installed_version("apache-airflow")
    if installed is None:
        return skipped("Airflow is not installed on this machine")
    if site.airflow_home is None:
        return skipped(_NOT_HERE)
    try:
        answer = asked_aside(_SIDE, {}, SECONDS - 5)
    except AsideFailed as error:
        return fail(f"Airflow {installed} cannot be imported: {error}", "look at its configuration (airflow.cfg)")
    return ok(f"Airflow {answer['version']}, home {site.airflow_home}")


def check_dags(site: Site, _: str) -> CheckFinding:
    """Check that Evenkeel's DAG files are in Airflow's folder, and imported without an error."""
    if site.airflow_home is None:
        return skipped(_NOT_HERE)
    answer = asked_aside(_SIDE, {"dags": True}, SECONDS - 5)
    if answer["faults"]:
        file, message = sorted(answer["faults"].items())[0]
        more = f" ({len(answer['faults'])} files in all)" if len(answer["faults"]) > 1 else ""
        return fail(
            f"{file} cannot be imported: {message}{more}", "mend what it says; `evenkeel config check` may say more"
        )
    expected = expected_dags()
    missing = sorted(expected - set(answer["dags"]))
    if missing:
        return warn(
            f"{', '.join(missing)} missing in {answer['folder']}",
            "set AIRFLOW__CORE__DAGS_FOLDER to what `evenkeel paths dags` prints; another bundle may hold them",
        )
    return ok(f"{len(expected)} DAGs in {answer['folder']} can be imported")


def check_connections(site: Site, _: str) -> CheckFinding:
    """Check the connections that the DAGs and the configured clusters name and that no variable replaces."""
    if site.airflow_home is None:
        return skipped(_NOT_HERE)
    wanted = connections_of(site)
    missing = asked_aside(_SIDE, {"connections": sorted(wanted)}, SECONDS - 5)["missing"]
    if missing:
        named = "; ".join(f"{name} ({wanted[name]})" for name in missing)
        return fail(f"Airflow does not know {named}", "make them (`airflow connections add`, AIRFLOW_CONN_…)")
    return ok(f"Airflow knows {', '.join(sorted(wanted))}")


class AirflowTokens:
    """Finds the content of a connection: in the environment, else in Airflow, which is asked once for all of them."""

    def __init__(self, site: Site) -> None:
        self._site, self._lock = site, threading.Lock()
        self._known: dict[str, Credentials | None] | None = None

    def __call__(self, connection: str) -> Credentials | None:
        credentials = from_environment(connection, self._site.environment)
        if credentials is not None or self._site.airflow_home is None:
            return credentials
        with self._lock:
            if self._known is None:
                names = [
                    s.live.connection for s in self._site.sources or () if s.live is not None and s.live.connection
                ]
                tokens = asked_aside(_SIDE, {"tokens": names}, SECONDS)["tokens"]
                self._known = {
                    name: None if token is None else Credentials.of_words(token, f"connection {name}")
                    for name, token in tokens.items()
                }
        return self._known.get(connection)


def store_in_airflow(name: str) -> S3Connection | None:
    """Return the store settings in Airflow's connection of that name; None if Airflow does not know it."""
    reply = asked_aside(_SIDE, {"stores": [name]}, SECONDS)["stores"][name]
    return None if reply is None else S3Connection.of_words(reply)


def connections_of(site: Site) -> dict[str, str]:
    """Return connection -> its purpose."""
    use_of = {CONNECTION: "where Spark is"}
    for variable, use in ((CONNECTION_VARIABLE, "keys of the lake's store"), (LOG_CONNECTION, "the log's key")):
        name = site.environment.get(variable)
        if name:
            use_of[name] = use
    for source in site.sources or ():
        live, zone, queues = source.live, source.zone, source.queues
        if live is not None and live.connection and from_environment(live.connection, site.environment) is None:
            use_of[live.connection] = f"the token of {source.cluster}"
        if zone is not None and zone.connection:
            use_of[zone.connection] = f"the landing zone of {source.cluster}"
        if queues is not None and keys_from_environment(queues.keys, site.environment) is None:
            use_of[queues.keys] = f"the keys of the queues of {source.cluster}"
    return use_of


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
        from airflow.configuration import conf
        from airflow.dag_processing.dagbag import DagBag

        folder = conf.get("core", "dags_folder")
        bag = DagBag(dag_folder=folder)
        faults = {file: str(message).strip().splitlines()[-1][:_SHOWN] for file, message in bag.import_errors.items()}
        ours = {file: message for file, message in faults.items() if _imports_ours(file, folder)}
        reply |= {"folder": folder, "dags": sorted(bag.dags), "faults": ours}
    if "connections" in question:
        reply["missing"] = [name for name in question["connections"] if not _is_known(name)]
    if "tokens" in question:
        from evenkeel.airflow.credentials import cluster_words

        reply["tokens"] = {name: cluster_words(name) for name in question["tokens"]}
    if "stores" in question:
        from evenkeel.airflow.credentials import store_words

        reply["stores"] = {name: store_words(name) for name in question["stores"]}
    return reply


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
