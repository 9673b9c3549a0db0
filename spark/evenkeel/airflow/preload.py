"""Imports that every task needs, done once in the scheduler before it forks its workers.

Airflow imports this file (as `airflow_local_settings`) in each of its processes; only the scheduler gains by it. Third
parties only: a preloaded copy of our own package would go on deciding after the code has changed. Imports only, too: no
channel, session or thread may exist before a fork.
"""

import importlib
import os
import sys

MODULES = (
    "airflow.dag_processing.dagbag",
    "airflow.providers.apache.spark.decorators.pyspark",
    "airflow.providers.apache.spark.hooks.spark_connect",
    "airflow.providers.common.io.assets.file",
    "airflow.providers.standard.decorators.python",
    "airflow.providers.standard.operators.empty",
    "airflow.providers.standard.operators.hitl",
    "airflow.providers.standard.operators.trigger_dagrun",
    "airflow.sdk.bases.sensor",
    "airflow.sdk.definitions.asset.metadata",
    "airflow.sdk.definitions.decorators.task_group",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "great_expectations",
    "grpc",
    "jwt",
    "pandas",
    "psutil",
    "pyarrow",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.sql.connect.client",
    "pyspark.sql.connect.dataframe",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.readwriter",
    "pyspark.sql.connect.session",
    "pyspark.sql.functions",
    "xml.sax.saxutils",
)

if any(argument.endswith("scheduler") for argument in sys.argv):
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when great_expectations is imported
    for module in MODULES:
        importlib.import_module(module)
