"""XCom in memory: what tasks leave, and what somebody who may edit XComs puts in its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Entry = tuple[str, str, str, str]
"""DAG, run, task and key."""


@dataclass
class XCom:
    """All that was left, by whom."""

    left: dict[Entry, Any] = field(default_factory=dict)

    def of(self, dag_id: str, run_id: str, task_id: str) -> RunningTask:
        """The task instance as Airflow gives it to a task."""
        return RunningTask(self, dag_id, run_id, task_id)


@dataclass
class RunningTask:
    """What is used of Airflow's task instance."""

    xcom: XCom
    dag_id: str
    run_id: str
    task_id: str
    states: dict[str, str] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcom.left[self.dag_id, self.run_id, self.task_id, key] = value

    def xcom_pull(
        self,
        task_ids: str,
        key: str = "return_value",
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
        map_indexes: Any = None,
    ) -> Any:
        return self.xcom.left.get((dag_id or self.dag_id, run_id or self.run_id, task_ids, key))

    def get_previous_dagrun(self, state: str | None = None) -> Any:
        return None

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return dict.fromkeys(run_ids, self.states)
