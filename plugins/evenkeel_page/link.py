"""The link from a task instance to the report of its run's cycles, or to the result of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf
from airflow.providers.apache.spark.decorators.pyspark import _PySparkDecoratedOperator
from airflow.sdk import BaseOperatorLink

from evenkeel.airflow.dag_names import (
    APPROVAL_DAG,
    DECIDING_DAG,
    HISTORY_DAG,
    REPLAY_DAG,
    dag_id_of,
    deciding_run_id,
    kind_of_dag,
    lake_in,
)

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


def airflow_path() -> str:
    """The path that Airflow is served under, without a slash at its end: empty, or like `/airflow`."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class CycleReportLink(BaseOperatorLink):
    """`Evenkeel report`, on the tasks of the pipeline and of `replay`; other DAGs' Spark tasks get an empty link, which
    is not shown.

    The API server asks for it, so it holds before the task has run, and no XCom is needed.
    """

    operators = [_PySparkDecoratedOperator]  # noqa: RUF012 (the base class declares it so)

    @property
    def name(self) -> str:
        return "Evenkeel report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Address of the page that knows the run's cycles, below the path that Airflow itself is served under."""
        if ti_key.dag_id == REPLAY_DAG:
            return f"{airflow_path()}/evenkeel/what-if/started?{urlencode({'run_id': ti_key.run_id})}"
        kind = kind_of_dag(ti_key.dag_id)
        if kind not in (DECIDING_DAG, APPROVAL_DAG, HISTORY_DAG):
            return ""
        dag_id, run_id = ti_key.dag_id, ti_key.run_id
        if kind == APPROVAL_DAG:
            dag_id, run_id = dag_id_of(DECIDING_DAG, lake_in(dag_id)), deciding_run_id(run_id)
        return f"{airflow_path()}/evenkeel/run?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"
