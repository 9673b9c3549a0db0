"""The value of Airflow's connection `evenkeel_spark`, for those who have a classic master instead of Spark Connect.

A Connect endpoint needs no more than `spark-connect://host:port`. A classic master starts its driver inside the task,
so the connection has to bring what the Connect server has already: Delta's jars and the settings of the tables.
"""

from __future__ import annotations

import json

from evenkeel.engine.code import source_root
from evenkeel.engine.command import SQL_SETTINGS
from evenkeel.engine.jars import delta_jars


def classic_connection(master: str) -> str:
    """The connection, as JSON for `AIRFLOW_CONN_EVENKEEL_SPARK`, to `local[*]`, `spark://…`, `yarn` or `k8s://…`.

    Tasks then need a full JDK (JAVA_HOME) on the machine that they run on, and PYSPARK_PYTHON in their environment: the
    Python that workers run, with the packages of `requirements.txt`.
    """
    extra = {
        **SQL_SETTINGS,
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.executorEnv.PYTHONPATH": str(source_root()),
    }
    return json.dumps({"conn_type": "spark", "host": master, "extra": extra})
