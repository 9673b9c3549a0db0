"""A run of `rebalance` whose tasks have left sealed hand-overs, and a plan of it that waits for an approval."""

from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.airflow.seal import Origin, sealed
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from tests.airflow.xcom import RunningTask, XCom

AT = datetime.now(UTC)
RUN, PLAN = "manual__1", "a" * 64
PARAMS = {"run_id": RUN, "cluster": "east", "plan_id": PLAN}


def handover(mode: str = "approve") -> Handover:
    cycle = ClusterCycle("east", AT.isoformat(), Snapshot("s", AT.isoformat()), {})
    waits = {"plan_id": PLAN, "summary": "2 commands.", "expires_at": (AT + timedelta(minutes=10)).isoformat()}
    return Handover("/lake", Run("rebalance", RUN, mode=mode, triggered_by="olga"), (cycle,), awaiting={"east": waits})


def left(task_id: str, given: Handover, run_id: str = RUN) -> str:
    return sealed(given.to_json(), Origin("rebalance", run_id, task_id))


class Editable(RunningTask):
    """A task instance of whose run any XCom can be edited."""

    def xcom_push_for(self, task_id: str, value: Any) -> None:
        self.xcom.left[self.dag_id, self.run_id, task_id, "return_value"] = value


def running(task_id: str, **xcoms: Any) -> Editable:
    ti = Editable(XCom(), "rebalance", RUN, task_id)
    for name, value in xcoms.items():
        ti.xcom_push_for(name, value)
    return ti
