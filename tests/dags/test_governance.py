"""What every DAG of ours must have; a failure says which file to edit."""

import ast
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evenkeel.airflow.wiring import ask_spark_first
from evenkeel.lake.schemas import TABLES

pytestmark = pytest.mark.airflow

CHECKOUT = Path(__file__).resolve().parents[2]
DAG_FILES = sorted((CHECKOUT / "dags").glob("*.py"))
STEPS = ["ingest", "validate", "aggregate", "plan_splits", "shed", "place", "publish"]
ON_APPROVAL = ["waiting", "ask"]
EXHAUSTIVE = pytest.mark.exhaustive
WISH = {"namespace": "t/n", "bundle": "0x00000000_0x40000000"}
HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "grpc", "great_expectations", "deltalake", "altair", "boto3")


def test_every_dag_file_loads_and_holds_one_dag_named_like_the_file(dag_bag: Any) -> None:
    assert dag_bag.import_errors == {}
    assert sorted(dag_bag.dags) == [file.stem for file in DAG_FILES]


def test_every_dag_says_who_owns_it_and_what_it_is_for(dag_bag: Any) -> None:
    for dag in dag_bag.dags.values():
        assert dag.description, f"dags/{dag.dag_id}.py: description is missing"
        assert "evenkeel" in dag.tags, f"dags/{dag.dag_id}.py: the tag evenkeel is missing"
        assert {task.owner for task in dag.tasks} == {"evenkeel"}, f"dags/{dag.dag_id}.py: owner"
        for topic in ("Params", "re-run", "backfill", "fails"):
            assert topic in dag.doc_md, f"dags/{dag.dag_id}.py: its docstring says nothing about {topic!r}"


def test_every_task_retries_with_growing_pauses_and_cannot_hang_for_ever(dag_bag: Any) -> None:
    for dag in dag_bag.dags.values():
        assert dag.dagrun_timeout is not None
        for task in dag.tasks:
            assert task.retries == 2, task.task_id
            assert task.retry_exponential_backoff, task.task_id
            assert timedelta(0) < task.execution_timeout < dag.dagrun_timeout, task.task_id
            assert len(task.doc_md.strip().splitlines()) >= 2, f"{task.task_id}: doc_md"


def test_no_run_is_made_up_for_the_past_and_no_two_runs_meet(rebalance: Any) -> None:
    assert rebalance.catchup is False
    assert rebalance.max_active_runs == 1


def test_the_start_date_lies_before_every_recording(rebalance: Any) -> None:
    # Airflow ends a run that is dated before it as a success without any task.
    assert rebalance.start_date == datetime(2020, 1, 1, tzinfo=UTC)


def test_a_scheduled_run_is_dated_with_the_moment_of_its_decision(rebalance: Any) -> None:
    assert type(rebalance.timetable).__name__ == "CronTriggerTimetable"
    assert rebalance.timetable.expression == "*/5 * * * *"
    assert rebalance.timetable.interval == timedelta(0)


def test_the_seven_tasks_stand_in_the_pipelines_order(rebalance: Any) -> None:
    assert [task.task_id for task in rebalance.topological_sort()] == [*STEPS, *ON_APPROVAL]
    for before, after in pairwise([*STEPS, *ON_APPROVAL]):
        assert after in rebalance.get_task(before).downstream_task_ids
    assert rebalance.get_task("publish").upstream_task_ids == set(STEPS[:-1])


def test_the_history_has_the_same_seven_tasks_and_none_that_asks(dag_bag: Any, rebalance: Any) -> None:
    history = dag_bag.dags["rebalance_history"]
    assert [task.task_id for task in history.topological_sort()] == STEPS
    for step in STEPS:
        own, live = history.get_task(step), rebalance.get_task(step)
        assert (own.conn_id, own.trigger_rule, own.outlets) == (live.conn_id, live.trigger_rule, live.outlets)


def test_the_history_decides_closed_intervals_and_only_if_asked(dag_bag: Any) -> None:
    history = dag_bag.dags["rebalance_history"]
    assert type(history.timetable).__name__ == "CronDataIntervalTimetable"
    assert history.timetable.expression == "0 0 * * *"
    assert (history.catchup, history.is_paused_upon_creation, history.max_active_runs) == (False, True, 1)
    assert history.start_date == datetime(2020, 1, 1, tzinfo=UTC)
    assert sorted(history.params) == ["clusters", "settings", "source"]
    assert "mode" not in history.params, "nothing of the past is ever sent"


def test_every_task_runs_on_the_spark_connection(rebalance: Any) -> None:
    assert {rebalance.get_task(step).conn_id for step in STEPS} == {"evenkeel_spark"}


def test_every_task_that_wants_spark_asks_its_server_before_the_operator_does(dag_bag: Any) -> None:
    tasks = [task for dag in dag_bag.dags.values() for task in dag.tasks if hasattr(task, "conn_id")]
    assert {task.task_id for task in tasks} >= {*STEPS, "send", "upkeep", "replay"}
    assert {task._pre_execute_hook for task in tasks} == {ask_spark_first}


def test_an_approval_is_asked_for_in_a_dag_of_its_own_that_holds_up_no_cycle(dag_bag: Any, rebalance: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    approval = dag_bag.dags["rebalance_approval"]
    assert [task.task_id for task in approval.topological_sort()] == ["approve", "send"]
    assert approval.max_active_runs >= 64, "one run per cluster and plan"
    assert approval.is_paused_upon_creation is False
    asking = rebalance.get_task("ask")
    assert asking.partial_kwargs["trigger_dag_id"] == "rebalance_approval"
    assert asking.partial_kwargs.get("wait_for_completion", False) is False
    # What is mapped over comes from XCom: it must name nothing but the question, which is sealed.
    assert [*asking.expand_input.value] == ["question"]
    assert asking.unmap({"question": "sealed"}).question == "sealed"
    assert asking.operator_class.__name__ == "PlanQuestion"
    assert "question" not in asking.template_fields
    for name in ("run_id", "cluster", "plan_id"):
        for value in ("", None, 7):
            with pytest.raises(ParamValidationError):
                approval.params.get_param(name).resolve(value)


def test_publish_runs_however_the_others_ended(rebalance: Any) -> None:
    assert rebalance.get_task("publish").trigger_rule == "all_done"
    assert {rebalance.get_task(step).trigger_rule for step in STEPS[:-1]} == {"all_success"}


@pytest.mark.parametrize("step", STEPS)
def test_a_tasks_assets_are_the_tables_that_it_writes(rebalance: Any, step: str) -> None:
    written = {f"evenkeel://lake/{name}" for name, table in TABLES.items() if step in table.producers}
    assert {asset.uri for asset in rebalance.get_task(step).outlets} == written
    assert written


def test_send_writes_what_publish_does(dag_bag: Any, rebalance: Any) -> None:
    assert dag_bag.dags["rebalance_approval"].get_task("send").outlets == rebalance.get_task("publish").outlets


def test_only_publish_can_reach_a_sink() -> None:
    package = CHECKOUT / "spark" / "evenkeel"
    senders = ["command_executor", "dispatcher", "pulsar_admin", "sqs", "queue"]
    reaching = {
        file.relative_to(package).parts[0]
        for step in STEPS
        for file in (package / step).rglob("*.py")
        if any(_imports(file, f"evenkeel.steering.{sender}") for sender in senders)
    }
    assert reaching == {"publish"}


@pytest.mark.parametrize(
    "conf",
    [
        {"mode": "manual"},
        {"mode": ""},
        {"clusters": "eu-1"},
        {"clusters": [""]},
        {"clusters": ["eu-1", "eu-1"]},
        {"clusters": [1]},
        {"source": "/data/monday"},
        {"source": "recording:"},
        {"settings": []},
        {"settings": {"not a key": 1}},
        {"at": "yesterday"},
        {"at": "2026-11-21"},
        {"at": 5},
        {"wishes": {"kind": "split"}},
        {"wishes": [{"kind": "merge", "namespace": "t/n", "bundle": "0x00000000_0x40000000"}]},
        {"wishes": [{"kind": "split", "namespace": "t/n"}]},
        {"wishes": [{"kind": "split", "namespace": "n", "bundle": "LARGEST"}]},
        {"wishes": [{"kind": "split", "namespace": "t/n", "bundle": "largest"}]},
        {"wishes": [{"kind": "split", "namespace": "t/n", "bundle": "HOT", "splitBoundaries": ["5"]}]},
        {"wishes": [{"kind": "split", "namespace": "t/n", "bundle": "HOT", "destinationBroker": "b1:8080"}]},
        {"wishes": [{"kind": "unload", "namespace": "t/n", "bundle": "LARGEST"}]},
        {"wishes": [{"kind": "unload", "namespace": "t/n", "bundle": "0x00000000_0x40000000", "unload": True}]},
    ],
    ids=json.dumps,
)
def test_a_bad_param_is_refused(rebalance: Any, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    (name, value), *_ = conf.items()
    with pytest.raises(ParamValidationError):
        rebalance.params.get_param(name).resolve(value)


@pytest.mark.parametrize(
    "conf",
    [
        {"clusters": ["eu-1", "eu-2"]},
        {"source": "recording:/data/monday"},
        {"settings": {"loadBalancerBrokerThresholdShedderPercentage": 15}},
        {"at": "2026-11-21T08:27:23.596000+00:00"},
        {"at": "2026-11-21T08:27Z"},
        {"at": None},
        {"wishes": [{"kind": "split", "namespace": "t/n", "bundle": "LARGEST", "unload": True, "by": "ann"}]},
        {"wishes": [{**WISH, "kind": "split", "splitAlgorithmName": "x", "splitBoundaries": [855638016]}]},
        {"wishes": [{**WISH, "kind": "unload"}]},
    ],
    ids=json.dumps,
)
def test_a_good_param_is_taken(rebalance: Any, conf: dict[str, Any]) -> None:
    (name, value), *_ = conf.items()
    assert rebalance.params.get_param(name).resolve(value) == value


@pytest.mark.parametrize("dag_id", ["rebalance", "rebalance_history"])
def test_the_example_in_the_manual_is_a_valid_trigger_with_a_known_setting(dag_bag: Any, dag_id: str) -> None:
    from evenkeel.settings import resolve

    dag = dag_bag.dags[dag_id]
    example = json.loads(re.findall(r"```json\n(.*?)```", dag.doc_md, re.DOTALL)[0])
    for name, value in example.items():
        assert dag.params.get_param(name).resolve(value) == value
    assert resolve(observed=None, overrides=example["settings"])


@pytest.mark.parametrize("dag_id", ["rebalance", "rebalance_history", "replay"])
def test_every_param_is_described_in_its_form_and_in_the_manual(dag_bag: Any, dag_id: str) -> None:
    dag = dag_bag.dags[dag_id]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", dag.doc_md, re.MULTILINE)))
    for name in dag.params:
        assert dag.params.get_param(name).description.endswith(".")
        assert name in named


def test_a_replay_takes_what_its_manual_shows_and_has_the_defaults_of_the_package(dag_bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    from evenkeel.replay.run_params import KINDS, NUMBERS

    params = dag_bag.dags["replay"].params
    examples = re.findall(r"```json\n(.*?)```", dag_bag.dags["replay"].doc_md, re.DOTALL)
    assert len(examples) == 2
    for name, value in (item for text in examples for item in json.loads(text).items()):
        assert params.get_param(name).resolve(value) == value
    assert params.get_param("kind").schema["enum"] == [*KINDS]
    assert {name: params.get_param(name).resolve() for name in NUMBERS} == NUMBERS
    for name, value in (("kind", "guess"), ("limit", 0), ("cycles", 0), ("every", 0), ("seed", "x"), ("brokers", 1)):
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(value)


def test_parsing_loads_nothing_heavy(airflow_library: None) -> None:
    script = f"""
import runpy, sys
import airflow.sdk
before = set(sys.modules)
for file in {[*map(str, DAG_FILES)]!r}:
    runpy.run_path(file)
    loaded, before = set(sys.modules) - before, set(sys.modules)
    print([file.rpartition("/")[2], sorted(loaded)])
"""
    environment = {**_environment(), "PYTHONPATH": str(CHECKOUT / "spark")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    loaded = dict(ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert loaded.keys() == {file.name for file in DAG_FILES}
    assert [(file, name) for file, own in loaded.items() for name in own if name.split(".")[0] in HEAVY] == []
    assert "evenkeel.lake.schemas" in {name for own in loaded.values() for name in own}


def test_a_task_between_the_first_and_the_last_loads_nothing_that_only_they_need(airflow_library: None) -> None:
    script = """
import sys
import evenkeel.airflow.steps
print(sorted({"evenkeel.ingest.open_run", "evenkeel.airflow.credentials", "jwt", "boto3"} & set(sys.modules)))
"""
    environment = {**_environment(), "PYTHONPATH": str(CHECKOUT / "spark")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_the_schedule_is_the_environments(airflow_library: None) -> None:
    files = [str(CHECKOUT / "dags" / f"{dag_id}.py") for dag_id in ("rebalance", "rebalance_history")]
    script = f"""
import runpy
for file in {files!r}:
    schedule = runpy.run_path(file)["declare"]("main").schedule
    print(getattr(schedule, "expression", schedule))
"""
    given = {"EVENKEEL_SCHEDULE": "none", "EVENKEEL_HISTORY_SCHEDULE": "0 */6 * * *"}
    environment = {**_environment(), "PYTHONPATH": str(CHECKOUT / "spark"), **given}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip().splitlines()[-2:] == ["None", "0 */6 * * *"]


@pytest.mark.parametrize(
    ("dag_id", "variable", "given", "words"),
    [
        ("rebalance", "SCHEDULE", "5 min", "is not a cron expression in UTC"),
        pytest.param("rebalance_history", "HISTORY_SCHEDULE", "none", "the DAG needs intervals", marks=EXHAUSTIVE),
        pytest.param("upkeep", "UPKEEP_SCHEDULE", "daily", "or none for manual runs only", marks=EXHAUSTIVE),
        pytest.param("heat", "HEAT_SCHEDULE", "often", "or none for manual runs only", marks=EXHAUSTIVE),
    ],
)
def test_a_schedule_that_cannot_be_is_an_import_error_that_names_its_variable(
    airflow_library: None, dag_id: str, variable: str, given: str, words: str
) -> None:
    command = [sys.executable, str(CHECKOUT / "dags" / f"{dag_id}.py")]
    environment = {**_environment(), "PYTHONPATH": str(CHECKOUT / "spark"), f"EVENKEEL_{variable}": given}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"evenkeel.errors.SettingsError: EVENKEEL_{variable} is ")
    assert words in last


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if not name.startswith("EVENKEEL_SCHEDULE")}


def _imports(file: Path, package: str) -> bool:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return any(name == package or name.startswith(f"{package}.") for name in found)
