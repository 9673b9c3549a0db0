"""Routes: the list of cycles, the report of one, and the cycles of a run. All of them only read.

Every route asks Airflow's auth manager whether the user may read the DAG `rebalance`; without a login it answers 401.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from evenkeel.airflow.dag_files import DECIDING_DAG
from evenkeel.errors import BadInput, EvenkeelError, NoLake, NoSuchCycle
from evenkeel.record.read import Attempt, Record, find_cycles, newest_cycles
from evenkeel.record.read.tables import all_of, text
from evenkeel.record.report import build_model, gather, render
from evenkeel.record.report.page import LISTED, MOST_LISTED, content_policy, render_listing, render_notice, report_link
from evenkeel.times import time_given
from evenkeel_page import airflow_side

_HOME = "./"


def make_app(*, guarded: bool = True) -> FastAPI:
    """The page as a FastAPI app; `guarded=False` leaves Airflow's login away, for tests without an Airflow."""
    guards = [Depends(requires_access_dag("GET", param_dag_id=DECIDING_DAG))] if guarded else []
    app = FastAPI(title="Evenkeel", dependencies=guards, docs_url=None, redoc_url=None, openapi_url=None)
    for path, route in (("/", show_list), ("/cycle", show_cycle), ("/run", show_run)):
        app.add_api_route(path, route, methods=["GET"], response_class=HTMLResponse, response_model=None)
    return app


def _as_page(route: Callable[..., str | Response]) -> Callable[..., Response]:
    """Our own errors become a page that says what to do, and every page gets its content policy."""

    @wraps(route)
    def answer(*args: Any, **kwargs: Any) -> Response:
        try:
            found = route(*args, **kwargs)
        except NoLake as error:
            return _page(render_notice("No cycles yet", str(error), _FIRST_STEPS))
        except NoSuchCycle as error:
            return _page(render_notice("No such cycle", str(error), back=_HOME), 404)
        except BadInput as error:
            return _page(render_notice("That cannot be read", str(error), back=_HOME), 400)
        except EvenkeelError as error:
            return _page(render_notice("The lake cannot be read", str(error), back=_HOME), 500)
        return found if isinstance(found, Response) else _page(found)

    return answer


_FIRST_STEPS = (
    "Set `EVENKEEL_LAKE` in the environment of Airflow's API server, or the Airflow Variable `evenkeel_lake`, to the "
    "folder or object-store address of the lake.",
    "Trigger the DAG `rebalance`, or wait for its next run: the first cycle creates the tables.",
)


@_as_page
def show_list(before: str | None = None) -> str | Response:
    """The newest cycles on record, or the newest `before` a moment; each page links to the one of older cycles."""
    lake = airflow_side.lake()
    until = None if before is None else time_given(before, "before").first
    try:
        found = newest_cycles(lake, MOST_LISTED, before=until, columns=LISTED)
    except NoSuchCycle as error:
        raise NoLake(str(error)) from None
    return render_listing(found.cycles, lake=lake, older=found.older, continued=until is not None)


@_as_page
def show_cycle(cluster: str, at: str) -> str | Response:
    """The report of one cluster's cycle."""
    lake = airflow_side.lake()
    (found,) = find_cycles(lake, cluster=cluster, cycle=at, option="the cycle")
    newest = find_cycles(lake, cluster=cluster)[0]
    return _report(lake, cluster, found.cycle_at.isoformat(), found.attempt_id, newest.attempt_id)


@lru_cache(maxsize=64)
def _report(lake: str, cluster: str, at: str, attempt_id: str, newest_attempt_id: str) -> str:
    """A report that was drawn once is kept as long as neither its cycle nor the newest one has a new attempt."""
    return render(build_model(gather(lake, cluster=cluster, cycle=at)), back=_HOME)


@_as_page
def show_run(dag_id: str, run_id: str) -> str | Response:
    """The cycles of an Airflow run: the report where it is one, else their list."""
    lake = airflow_side.lake()
    found = _cycles_of_run(Record(lake), dag_id, run_id)
    if not found:
        text = f"The run {run_id} of {dag_id} has put no cycle on record yet."
        advice = ("`publish` does so, as its last act, also for a cycle that was skipped or failed.",)
        return _page(render_notice("Nothing on record yet", text, advice, back=_HOME), 404)
    if len(found) == 1:
        return RedirectResponse(report_link(found[0]), status_code=303)
    return render_listing(found, lake=lake, title=f"Cycles of run {run_id}")


def _cycles_of_run(record: Record, dag_id: str, run_id: str) -> list[Attempt]:
    """By what the run's tasks handed on, since a run that came to the plan on record adds no attempt of its own."""
    handed_on = airflow_side.cycles_of_run(dag_id, run_id)
    if handed_on:
        return _counted(record, handed_on)
    its_own = all_of(text("dag_id") == dag_id, text("run_id") == run_id)
    moments = {(name, at) for name in record.clusters() for at in record.moments(name, its_own).to_pylist()}
    near = _counted(record, moments)
    return [one for one in near if (one.planned["dag_id"], one.planned["run_id"]) == (dag_id, run_id)]


def _counted(record: Record, cycles: Collection[tuple[str, datetime]]) -> list[Attempt]:
    """The attempts that count for these cycles, by cluster and moment; each cluster's range is read once."""
    columns = [*LISTED, "dag_id", "run_id"]
    found: list[Attempt] = []
    for name in sorted({name for name, _ in cycles} & {*record.clusters()}):
        moments = {at for cluster, at in cycles if cluster == name}
        found += [one for one in record.cycles(name, min(moments), max(moments), columns) if one.cycle_at in moments]
    return found


def _page(text: str, status: int = 200) -> HTMLResponse:
    headers = {
        "Content-Security-Policy": f"{content_policy()}; frame-ancestors 'self'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(text, status_code=status, headers=headers)
