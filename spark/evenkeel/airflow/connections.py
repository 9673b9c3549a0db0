"""Connections of this process to object stores and to the transparency log's key, as Airflow has them."""

from __future__ import annotations

import os

from evenkeel.object_store import CONNECTION_VARIABLE, hand_over, is_object_store, resolve_connections_by
from evenkeel.settings.lakes import configured_lakes
from evenkeel.spark.home import Home
from evenkeel.transparency import LOG_CONNECTION
from evenkeel.transparency.publishing import resolve_keys_by


def reach() -> None:
    """Give this process the connections of an object store and of the transparency log's key, and refresh stores' keys.

    A Spark server of EVENKEEL_HOME gets the current keys of the stores.
    """
    if os.environ.get(CONNECTION_VARIABLE) or os.environ.get(LOG_CONNECTION):
        from evenkeel.airflow.credentials import log_key_from_airflow, store_from_airflow

        resolve_connections_by(store_from_airflow)
        resolve_keys_by(log_key_from_airflow)
    home = os.environ.get("EVENKEEL_HOME")
    for lake in configured_lakes().lakes if home else ():
        if home and is_object_store(lake.path):
            hand_over(Home.of(home).folder, lake.path)
