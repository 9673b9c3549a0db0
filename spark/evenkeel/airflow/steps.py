"""The frame of a DAG task: a request from its params, the hand-over in and out, and errors with an action to take.

A task seals its hand-over (`seal`), and a later one takes no unsealed one. A failing task leaves its reason beside its
hand-over (XCom `reason`), so that *publish* can record it. The reason is text only, and no decision depends on it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from evenkeel import pipeline
from evenkeel.airflow.connections import reach
from evenkeel.airflow.dag_files import (
    LIMIT_VARIABLE,
    allowed_modes,
    check_ceiling,
    check_shapes,
    check_shortening,
    emit_asset_events,
)
from evenkeel.airflow.dag_names import ASK, CONNECTION, PUBLISH, REPLAY_DAG, WAITING, approval_run_id, lake_in
from evenkeel.airflow.lake_guard import LakeGuard, without_moved
from evenkeel.airflow.liveness import server_watched
from evenkeel.airflow.one_code import OtherCode, read_handover, refuse_other_code, stamped, with_version
from evenkeel.airflow.order import await_turn, kind_of
from evenkeel.airflow.seal import NotSealed, Origin, opened, sealed
from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoLake, NoSuchCycle, SettingsError, StaleCode
from evenkeel.handover import FAILED, Handover
from evenkeel.lake.handover_files import handed_on
from evenkeel.lake.one_writer import refusal_in
from evenkeel.lake.table_log import damage_behind
from evenkeel.object_store import explained
from evenkeel.settings.lakes import configured_lakes
from evenkeel.settings.names import MAIN
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.spark.cluster_faults import cluster_fault
from evenkeel.times import moment_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.ingest.open_run import CycleRequest
    from evenkeel.publish.dispatch import Sending

log = logging.getLogger(__name__)

CONNECT_TYPE = "spark_connect"
DEFAULT_PORT = 15002
REASON = "reason"
PAUSE_VARIABLE = "evenkeel_pause"
ENDED_BADLY = frozenset({"failed", "upstream_failed"})
_DECIDING = [task.__name__ for task in pipeline.DECIDING]
# A further try does not help against these.
HOPELESS = (BadInput, NoSuchCycle, SettingsError)
# Airflow's `outlet_events`: asset -> event.
Events = Mapping[Any, Any] | None
_Made = TypeVar("_Made")


class SealedHandover(NamedTuple):
    """The hand-over of a task: the sealed text for XCom, and its content."""

    text: str
    handover: Handover


class TaskInstance(Protocol):
    """The used part of Airflow's task instance."""

    dag_id: str
    run_id: str
    task_id: str

    def xcom_push(self, key: str, value: Any) -> None:
        """Leave a value under a key for the run's later tasks."""

    def xcom_pull(self, task_ids: str, key: str = ..., *, map_indexes: Any = ...) -> Any:
        """Return the value that a task of this run left under a key; None without one."""

    def get_previous_dagrun(self, state: str | None = ...) -> Any:
        """Return the previous run of the DAG, in that state or in any; None without one."""

    def get_dr_count(self, dag_id: str, *, states: list[str]) -> int:
        """Return how many runs of a DAG are in one of these states."""

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        """Run id -> task id -> state."""


def begin(spark: SparkSession, params: Mapping[str, Any], dag_run: Any, ti: TaskInstance, events: Events = None) -> str:
    """Open the run's cycles and ingest their snapshots."""

    def ingest() -> Handover:
        before = await_turn(dag_run, ti)
        request = replace(request_from(params, dag_run), after=None if before is None else before.isoformat())
        return pipeline.ingest(spark, _opened(spark, request))

    return carried_out(ingest, ti, events).text


def carry_on(task: pipeline.Task, spark: SparkSession, handover: str, ti: TaskInstance, events: Events = None) -> str:
    """Run a task on the hand-over of the one before it."""
    before = _DECIDING[_DECIDING.index(task.__name__) - 1]
    with _explained_errors(ti):
        given = handed_over(handover, ti, before)
        refuse_other_code(given, _origin(ti, before))
        given = without_moved(given)
    return carried_out(lambda: task(spark, given), ti, events, given).text


def close(spark: SparkSession, params: Mapping[str, Any], dag_run: Any, ti: TaskInstance, events: Events = None) -> str:
    """Publish what there is, and fail if an earlier task failed: data first, failure second.

    If no plan waits for an approval, the tasks that ask for one are skipped.
    """

    def reopened() -> Handover:
        return _opened(spark, request_from(params, dag_run), may_observe=False)

    published, handover = put_on_record(spark, reopened, dag_run, ti, events, sending)
    if not handover.awaiting:
        from airflow.sdk.exceptions import DownstreamTasksSkipped

        # If started with nothing to do, the first of them would take a second of every cycle.
        ti.xcom_push("return_value", published)
        raise DownstreamTasksSkipped(tasks=[WAITING, ASK])
    return published


def _opened(spark: SparkSession, request: CycleRequest, *, may_observe: bool = True) -> Handover:
    # Imported late, as credentials below: the code that opens cycles takes as long to import as the rest of the task.
    from evenkeel.airflow.credentials import from_airflow, store_from_airflow
    from evenkeel.ingest.open_run import open_cycles

    return open_cycles(spark, request, from_airflow, store_from_airflow, may_observe=may_observe)


def put_on_record(
    spark: SparkSession,
    reopened: Callable[[], Handover],
    dag_run: Any,
    ti: TaskInstance,
    events: Events,
    steer: Callable[[str, str], Sending] | None,
) -> SealedHandover:
    """Publish the newest hand-over of the run, or without one, the result of `reopened`.

    `steer` returns the steering of a lake's clusters for a run's mode; without it nothing is sent. Raises
    AirflowFailException if an earlier task failed, once that is recorded.
    """
    failure, handover = _progress(ti, dag_run)

    def publish() -> Handover:
        opened = without_moved(handover or reopened())
        if failure:
            opened = opened.leave_out({cycle.key: failure for cycle in opened.open_cycles()}, status=FAILED)
        return pipeline.publish(spark, opened, steer(opened.run.mode, opened.lake) if steer is not None else None)

    published = carried_out(publish, ti, events, handover)
    if steer is not None:
        _emit(published.handover)
    if failure:
        from airflow.sdk.exceptions import AirflowFailException

        raise AirflowFailException(f"The cycle is on record as failed. {failure}")
    return published


def questions(published: object, ti: TaskInstance) -> list[str]:
    """Return the conf of each run of `rebalance_approval`, sealed: one per waiting plan."""
    with _explained_errors(ti):
        waiting = handed_over(published, ti, PUBLISH).awaiting
    asked = [
        {
            "trigger_run_id": approval_run_id(ti.run_id, plan["plan_id"]),
            "conf": {"run_id": ti.run_id, "cluster": cluster, "plan_id": plan["plan_id"]},
        }
        for cluster, plan in sorted(waiting.items())
    ]
    return [sealed(json.dumps(conf, sort_keys=True), _origin(ti, ti.task_id)) for conf in asked]


def carry_out(
    spark: SparkSession, params: Mapping[str, Any], answered: object, ti: TaskInstance, events: Events = None
) -> str:
    """Record an operator's answer, and carry the plan out if it was yes."""
    from evenkeel.airflow.approval import answer_in, answer_to, waiting_plan

    with _explained_errors(ti):
        handover, plan = waiting_plan(ti, params)
        answer = answer_in(answered, ti, plan["plan_id"])

    def publish() -> Handover:
        from evenkeel.lake.controls import answers
        from evenkeel.lake.store import Lake, append_row

        lake, row = Lake(handover.lake), answer_to(handover, plan["plan_id"], answer)
        if row not in answers(lake, [plan["plan_id"]]):  # a killed try has recorded it
            append_row(lake, "approvals", row)
        return pipeline.publish(spark, handover, sending(handover.run.mode, handover.lake))

    published = carried_out(publish, ti, events, handover)
    _emit(published.handover)
    return published.text


def _emit(handover: Handover) -> None:
    # Imported late: reading figures imports as much as the rest of the task.
    from evenkeel.airflow.emitted_figures import emit_figures

    emit_figures(handover.lake, {cycle.cluster for cycle in handover.cycles})


def keep(spark: SparkSession, params: Mapping[str, Any], dag_run: Any, ti: TaskInstance) -> str:
    """Run an upkeep of the lake; return, as JSON, the changes of each table.

    A user who triggers it may lengthen periods. Shortening needs a variable in the environment; without it periods
    cannot be below the defaults either, while no upkeep has recorded periods yet.
    """
    from evenkeel.maintenance.expiry import NAMES, Periods
    from evenkeel.maintenance.upkeep import Request, upkeep_as_json, upkeep_as_text
    from evenkeel.maintenance.upkeep import keep as keep_lake

    def kept() -> str:
        check_shortening(params)
        given = {name: params.get(name) for name in NAMES}
        shorten, promised = bool(params.get("shorten")), Periods().as_dict()
        request = Request(lake_root(dag_run.dag_id), str(dag_run.run_id), given, shorten, promised=promised)
        done = keep_lake(spark, request, lambda line: log.info("%s", line))
        for line in upkeep_as_text(done):
            log.info("%s", line)
        return json.dumps(list(upkeep_as_json(done)))

    return watched(kept, ti, needs_lake=False)


def sending(mode: str, lake: str) -> Sending:
    """Return the steering of a lake's clusters in this mode: tokens from Airflow's connections, and external stops."""
    from evenkeel.airflow.credentials import from_airflow, keys_from_airflow
    from evenkeel.publish.dispatch import Sending, reach_with, sign_with

    stopped = LakeGuard(lake, partial(halted, mode))
    return Sending(reach_with(from_airflow), halted=stopped, signature=sign_with(keys_from_airflow))


def halted(mode: str, cluster: str) -> str | None:
    """Return why nothing may be sent to the cluster.

    The variable `evenkeel_pause` names it (names separated by blanks or commas, or * for all), or the run's mode is
    above the limit. The mode was checked against the limit when the run began; the limit may have changed since.
    """
    from airflow.sdk import Variable

    allowed = allowed_modes()
    if mode not in allowed:
        return f"the run's mode is {mode}, and {LIMIT_VARIABLE} allows {allowed[-1]} at most"
    text = str(Variable.get(PAUSE_VARIABLE, default="") or "")
    # A name may have blanks in it: between commas it is one, too.
    named = {*text.replace(",", " ").split(), *(name.strip() for name in text.split(","))}
    if cluster not in named and "*" not in named:
        return None
    return f"{cluster} is paused by the Airflow variable {PAUSE_VARIABLE}; take its name out of it to end that"


def request_from(params: Mapping[str, Any], dag_run: Any) -> CycleRequest:
    """Return the request of a run's params and date. Raises SettingsError if they ask for more than a run may."""
    from evenkeel.ingest.open_run import CycleRequest

    check_shapes(params)
    check_ceiling(params)
    asked = params.get("at")
    moment = moment_given(asked, "the param `at`") if asked else dag_run.logical_date or dag_run.run_after
    return CycleRequest(
        lake=lake_root(dag_run.dag_id),
        source=params.get("source") or "",
        configuration=os.environ.get("EVENKEEL_CONFIG"),
        clusters=tuple(params.get("clusters") or ()),
        at=moment.isoformat(),
        mode=params.get("mode") or "dry_run",
        overrides=dict(params.get("settings") or {}),
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        wishes=tuple(params.get("wishes") or ()),
        kind=kind_of(dag_run),
        triggered_by=getattr(dag_run, "triggering_user_name", None),
    )


def lake_root(dag_id: str) -> str:
    """Return the root of a DAG's lake."""
    name = lake_in(dag_id)
    if name != MAIN:
        return configured_lakes().named(name).path
    root = ENVIRONMENT.get("EVENKEEL_LAKE")
    if not root:
        raise SettingsError(
            "EVENKEEL_LAKE is not set, so the tables have no place: set it to a folder or an s3a:// URL in the "
            "environment of Airflow's scheduler and restart it, or write `lake` into the configuration file."
        )
    return root


def lake_root_of(cluster: str) -> str:
    """Return the root of a cluster's lake, for a DAG of all lakes."""
    lakes = configured_lakes()
    if not lakes.is_several:
        return lakes.lakes[0].path if lakes.lakes else lake_root(REPLAY_DAG)
    if not cluster:
        raise BadInput("there are several lakes: the param `cluster` says which of them, by a cluster of it")
    home = lakes.lake_of(cluster)
    if home is None:
        named = ", ".join(lake.name for lake in lakes.lakes)
        raise BadInput(f"the cluster {cluster!r} belongs to none of the lakes {named}")
    return home.path


def _progress(ti: TaskInstance, dag_run: Any) -> tuple[str | None, Handover | None]:
    """Return which task failed and why (None: none did), and the newest hand-over of the earlier ones.

    A task that was ended from outside in its last moment may have left a hand-over, so its state is checked as well.
    """
    known = ti.get_task_states(dag_run.dag_id, task_ids=_DECIDING, run_ids=[dag_run.run_id])
    states = known.get(dag_run.run_id, {})
    failure: str | None = None
    texts: list[tuple[str, object]] = []
    for name in _DECIDING:
        text = ti.xcom_pull(name, map_indexes=None)
        if text is None or states.get(name) in ENDED_BADLY:
            reason = ti.xcom_pull(name, key=REASON, map_indexes=None)
            failure = f"{name} failed: {str(reason or 'it was ended from outside (killed, or out of time)')[:2_000]}"
            break
        texts.append((name, text))
    for name, text in reversed(texts):
        try:
            handover = handed_over(text, ti, name)
        except (LakeError, NotSealed, OtherCode) as error:
            failure = f"{name} failed: {error}"
            continue
        return failure or _why_not_published(handover, _origin(ti, name)), handover
    return failure, None


def _why_not_published(handover: Handover, origin: Origin) -> str | None:
    """Return why *publish* records a cycle as failed though no earlier task failed; None without a reason."""
    try:
        refuse_other_code(handover, origin)
    except OtherCode as error:
        return f"{PUBLISH} failed: {error}"
    return None


def handed_over(value: object, ti: TaskInstance, task_id: str) -> Handover:
    """Return the hand-over that a task of this run has sealed; raise `NotSealed`, and the errors of `read_handover`."""
    origin = _origin(ti, task_id)
    return read_handover(opened(value, origin), origin)


def _origin(ti: TaskInstance, task_id: str) -> Origin:
    return Origin(ti.dag_id, ti.run_id, task_id)


def watched(work: Callable[[], _Made], ti: TaskInstance, *, needs_lake: bool = True) -> _Made:
    """Return the result of `work`; its errors are shown to operators, and it does not wait for a server that dies
    meanwhile.

    `needs_lake`: see `told`.
    """
    with _explained_errors(ti, needs_lake=needs_lake), _spark_watched(ti):
        return work()


def told(work: Callable[[], _Made], ti: TaskInstance, *, needs_lake: bool = True) -> _Made:
    """Return the result of `work`, which needs no Spark; its errors are shown to operators.

    `needs_lake`: without a lake the task is skipped, until a cycle has made it.
    """
    with _explained_errors(ti, needs_lake=needs_lake):
        return work()


def carried_out(
    work: Callable[[], Handover], ti: TaskInstance, events: Events = None, given: Handover | None = None
) -> SealedHandover:
    """Return the result of `work`, for the next task; add its writes to the task's asset events."""

    def progress() -> SealedHandover:
        result = work()
        known = given.writes if given is not None else ()
        emit_asset_events(events, result.lake, [write for write in result.writes if write not in known])
        return SealedHandover(sealed(handed_on(stamped(result)), _origin(ti, ti.task_id)), result)

    return watched(progress, ti)


def _spark_watched(ti: TaskInstance) -> AbstractContextManager[None]:
    """The watch over a Spark Connect server; a classic master lives in the task itself."""
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(CONNECTION)
    if connection.conn_type != CONNECT_TYPE or not connection.host:
        return nullcontext()
    host = str(connection.host).rpartition("://")[2]
    return server_watched(host, connection.port or DEFAULT_PORT, lambda reason: ti.xcom_push(REASON, reason))


def _as_ours(error: Exception, dag_id: str) -> EvenkeelError | None:
    """Return the error, or the error in a message of Spark or an object store, as an EvenkeelError; None for others."""
    if isinstance(error, StaleCode):
        return with_version(error)
    if isinstance(error, EvenkeelError):
        return error
    try:
        root = lake_root(dag_id)
    except EvenkeelError:  # of a DAG that is over all lakes, where none is `main`
        root = None
    return refusal_in(error) or explained(error, root) or damage_behind(error, root) or cluster_fault(str(error))


@contextmanager
def _explained_errors(ti: TaskInstance, *, needs_lake: bool = True) -> Iterator[None]:
    """End errors of Evenkeel in one clear line instead of a stack trace, and hand on the reason of every error.

    An unknown error keeps its stack: the task's log may be the only place that has it. `needs_lake`: see `told`.
    """
    try:
        reach()
        yield
    except Exception as error:
        known_error = _as_ours(error, ti.dag_id)
        if known_error is not None:
            from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

            ti.xcom_push(REASON, str(known_error))
            if isinstance(known_error, NoLake) and not needs_lake:
                raise AirflowSkipException(f"{ti.task_id} has nothing to do: {known_error}") from None
            log.error("%s failed: %s", ti.task_id, known_error)
            raise (AirflowFailException if isinstance(known_error, HOPELESS) else AirflowException)(
                str(known_error)
            ) from None
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
        ti.xcom_push(REASON, f"{type(error).__name__}: {first_line}")
        raise
