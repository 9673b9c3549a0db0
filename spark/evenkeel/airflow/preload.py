"""Imports that every task needs, done once in the scheduler before it forks its workers.

Airflow imports this file (as `airflow_local_settings`) in each of its processes; only the scheduler gains by it. It has
imports only: no channel, session or thread may exist before a fork. The scheduler's copy of this package would continue
to decide after the code has changed. So a forked process checks if it has, and then imports it again.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

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

OWN = tuple(
    f"evenkeel.{name}"
    for name in (
        *("airflow.approval", "airflow.credentials", "airflow.history", "airflow.steps", "airflow.wiring"),
        *(f"{room}.task" for room in ("ingest", "validate", "aggregate", "plan_splits", "shed", "place", "publish")),
        *("place.round", "plan_splits.round", "heat"),
    )
)
OF_LOG = ("evenkeel.transparency.publishing",)
"""Modules that *publish* also needs if the lake's transparency log has a key."""
_PACKAGE = "evenkeel"


def _load(modules: tuple[str, ...], package: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(module)
    before = _files()  # for files that change during the import the older figures count
    for module in package:
        importlib.import_module(module)

    def look() -> None:
        if _files() != before:
            for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
                del sys.modules[name]

    os.register_at_fork(after_in_child=look)


def _files() -> dict[str, tuple[int, int]]:
    """The sources of the package with their time of change (ns) and size."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    stamps = {}
    for file in (file for folder in folders for file in Path(folder).rglob("*.py")):
        stat = file.stat()
        stamps[str(file)] = stat.st_mtime_ns, stat.st_size
    return stamps


if any(argument.endswith("scheduler") for argument in sys.argv):
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when great_expectations is imported
    has_log_key = any(os.environ.get(name) for name in ("EVENKEEL_LOG_KEY", "EVENKEEL_LOG_KEY_FILE"))
    _load(MODULES, (*OWN, *OF_LOG) if has_log_key else OWN)
