"""*What if*: replays and simulations side by side, and the form that starts one.

The code that checks a run also checks the form. The browser starts the run: it posts the checked configuration to
Airflow's own API with the user's login (`what_if.js`). So there is no second way to start runs: Airflow's right to
trigger `replay`, its check of the params, its audit log and its limit of one run at a time all hold. Without a script
the same configuration is shown, to be pasted into *Trigger*.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from evenkeel.airflow.dag_names import REPLAY_DAG, REPLAYING
from evenkeel.errors import BadInput, EvenkeelError, LakeError, NoLake, NoSuchCycle, NoSuchReplay, SettingsError
from evenkeel.explain.settings_in_force import settings_changes
from evenkeel.lake.record import Record
from evenkeel.replay.closed_loop import MEANINGS
from evenkeel.replay.history import HistorySpan, read_span
from evenkeel.replay.results import Courses, ReplayOnRecord, find_replays, lines_of, list_replays, read_courses
from evenkeel.replay.run_params import NUMBERS, SIMULATE, CheckedParams, check_params
from evenkeel.replay.variants import PLANNER, RECORDED
from evenkeel.settings.compatibility import PLACEMENTS_OF
from evenkeel.settings.keys.balancing import SHEDDERS_OF
from evenkeel_page import look
from evenkeel_page.lake_choice import lake_words
from evenkeel_page.reader import Answer
from evenkeel_page.rendering import renderer, short
from evenkeel_page.subject_links import page_link
from evenkeel_page.what_if_chart import MOST_LINES, Chart, chart
from evenkeel_page.what_if_form import FIELDS, params_of

MOST_LISTED = 200
MOST_COMPARED = 6
_API = f"../../api/v2/dags/{REPLAY_DAG}/dagRuns"
_AIRFLOW = f"../../dags/{REPLAY_DAG}"
_LETTERS = "ABCDEF"
_PLACEMENTS = tuple(name for name in PLACEMENTS_OF["modular"] if name not in SHEDDERS_OF["modular"])
"""AvgShedder is a placement strategy and a shedder; it is listed among the shedders."""


def list_page(
    lake: str, cluster: str | None, under_way: Sequence[Mapping[str, Any]], may_start: bool = False
) -> Answer:
    """Return the page of recorded replays, the newest first, and of the runs under way."""
    replays = list_replays(lake, cluster)
    if cluster is not None and not replays:
        raise NoSuchReplay(f"no replay of cluster {cluster[:80]!r} is on record in {lake}")
    crumbs = () if cluster is None else (("What if", "what-if"), (short(cluster), ""))
    return Answer(
        200,
        renderer("what-if", crumbs)(
            "what_if.html.j2", may_start=may_start, replays=replays[:MOST_LISTED],
            older=max(0, len(replays) - MOST_LISTED), cluster=cluster,
            clusters=sorted({replay.cluster for replay in replays}), under_way=under_way, most=MOST_COMPARED,
            started=_started,
            new=page_link("what-if/new", lake_words() if cluster is None else {"cluster": cluster}),
        ),
    )  # fmt: skip


def _below(name: str) -> Callable[..., str]:
    """Return the renderer of a page below the list."""
    return renderer("what-if", [("What if", "../what-if"), (name, "")], "../")


def _started(run_id: str) -> str:
    return "what-if/started?" + urlencode({"run_id": run_id})


@dataclass(frozen=True)
class VariantLine:
    """A variant in the table.

    `mark`: the letter of its replay, empty if there is only one; `number`: of its line in the pictures, 0 if it is not
    drawn; `course`: over the moments of the pictures, None without one.
    """

    mark: str
    replay: ReplayOnRecord
    variant: str
    words: str
    cells: tuple[str, ...]
    number: int
    course: Any

    @property
    def name(self) -> str:
        """Return the name that is unique on the page."""
        return f"{self.mark} {self.variant}" if self.mark else self.variant


def comparison_page(lake: str, ids: Sequence[str], may_start: bool = False) -> Answer:
    """The variants of replays of one cluster: figures, course, and settings to copy."""
    if not ids:
        raise BadInput("no replay is named: choose one or more from the list")
    if len(set(ids)) > MOST_COMPARED:
        raise BadInput(f"{len(set(ids))} replays are too many for one picture: compare {MOST_COMPARED} at most")
    replays = find_replays(lake, ids)
    courses = read_courses(lake, replays)
    lines = _variant_lines(replays, courses)
    drawn = [line for line in lines if line.number]
    settings = [(_mark(replays, replay), line) for replay in replays for line in lines_of(lake, replay)]
    return Answer(
        200,
        _below("Comparison")(
            "what_if_run.html.j2", may_start=may_start, replays=[(_mark(replays, shown), shown) for shown in replays],
            lines=lines, drawn=drawn,
            tables=_tables(lines), courses=courses, settings=settings,
            charts=_charts(courses, drawn, _changes(lake, replays, courses)),
            cluster=replays[0].cluster, most_lines=MOST_LINES,
            is_cut=any(line.course is not None and not line.number for line in lines),
        ),
    )  # fmt: skip


def _tables(lines: Sequence[VariantLine]) -> list[tuple[str, list[str], list[VariantLine]]]:
    """Title, headings and lines: replays and simulations have other figures, and hence tables of their own."""
    tables = []
    for kind, title in ((False, "Replays"), (True, "Simulations")):
        table_lines = [line for line in lines if line.replay.is_simulation == kind]
        if table_lines:
            tables.append((title, [*table_lines[0].replay.columns().values()][1:], table_lines))
    return tables


def _mark(replays: Sequence[ReplayOnRecord], replay: ReplayOnRecord) -> str:
    return _LETTERS[replays.index(replay)] if len(replays) > 1 else ""


def _variant_lines(replays: Sequence[ReplayOnRecord], courses: Courses) -> list[VariantLine]:
    """Return the variants in the order of the replays; as many are drawn as can be told apart."""
    lines: list[VariantLine] = []
    number = 0
    for replay in replays:
        for row, cells in zip(replay.summary, replay.cells(), strict=True):
            variant = str(row["variant"])
            course = courses.of(replay.replay_id, variant)
            is_drawn = course is not None and number < MOST_LINES
            number += is_drawn
            words = str(row["settings"])
            shown = "" if variant == RECORDED else words
            lines.append(
                VariantLine(
                    _mark(replays, replay), replay, variant, shown, tuple(cells[1:]), number if is_drawn else 0, course
                )
            )
    return lines


def _changes(lake: str, replays: Sequence[ReplayOnRecord], courses: Courses) -> list[tuple[datetime, str]]:
    """Return when settings of the recorded cluster changed, and which; none of a model or a record that is gone."""
    if not courses.moments or all(replay.is_generated for replay in replays):
        return []
    try:
        return settings_changes(Record(lake), replays[0].cluster, courses.moments[0], courses.moments[-1])
    except LakeError:
        return []


def _charts(
    courses: Courses, drawn: Sequence[VariantLine], changes: Sequence[tuple[datetime, str]]
) -> list[tuple[str, Chart, Chart]]:
    """Title, and the picture for a wide and for a narrow page."""
    charts = []
    for title, name, floor in (("Busiest broker over the mean", "over_mean", None), ("Moves so far", "moves", 0.0)):
        series = [(line.number, line.name, getattr(line.course, name)) for line in drawn]
        if any(value is not None for _, _, values in series for value in values):
            pair = [chart(courses.moments, series, title, width, floor, changes) for width in (1030, 356)]
            charts.append((title, *pair))
    return charts  # type: ignore[return-value]


@dataclass(frozen=True)
class ReadyRun:
    """A configuration that was found right. `run_id`: of the run, so that two clicks or tabs start one run."""

    conf: str
    run_id: str
    checked: CheckedParams

    def body(self) -> str:
        """Return the body of the request to Airflow."""
        return json.dumps({"dag_run_id": self.run_id, "logical_date": None, "conf": json.loads(self.conf)})


def form_page(lake: str, fields: Mapping[str, Sequence[str]]) -> Answer:
    """Return the form; with `check` in its fields, their faults, or the run that they request."""
    record = Record(lake)
    clusters = record.clusters()
    if not clusters:
        raise NoLake(f"no cycle is on record in {lake}")
    given = {name: [*values] for name, values in fields.items() if name in FIELDS}
    named = (given.get("cluster") or [""])[0]
    chosen, span, problem = _first_with_span(lake, [named] if named else clusters)
    manager, ready = "" if span is None else span.manager, None
    if "check" in fields:
        problem = ""  # of the form's cluster, which need not be the requested one
        try:
            params = params_of(given)
            ready = _ready(params, check_params(lake, params))
        except (BadInput, SettingsError, NoSuchCycle, LakeError) as error:
            problem = str(error)
    body = _below("Start one")(
        "what_if_new.html.j2", may_start=True, clusters=clusters, chosen=chosen, given=given,
        problem=look.sentence(problem),
        ready=ready, manager=manager, span=span, shedders=SHEDDERS_OF, placements=_PLACEMENTS, planner=PLANNER,
        scenarios=MEANINGS, numbers=NUMBERS, simulate=SIMULATE, api=_API, airflow=_AIRFLOW,
    )  # fmt: skip
    return Answer(400 if problem and "check" in fields else 200, body)


def _first_with_span(lake: str, clusters: Sequence[str]) -> tuple[str, HistorySpan | None, str]:
    """Return the first cluster with a decided cycle and its range to replay; else the first of all, and why not."""
    problems = []
    for name in clusters:
        try:
            return name, read_span(lake, name, None, None), ""
        except (EvenkeelError, ValueError) as error:
            problems.append(str(error) if isinstance(error, NoSuchCycle) else "")
    return clusters[0], None, problems[0]


def _ready(params: Mapping[str, Any], checked: CheckedParams) -> ReadyRun:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    conf = json.dumps(params, indent=1, ensure_ascii=False)
    return ReadyRun(conf, f"what-if__{stamp}__{secrets.token_hex(3)}", checked)


_STATES = {
    "queued": "It waits: Airflow runs one replay at a time, and starts it as soon as the one before has ended.",
    "running": "It runs. Its task's log says how far it has come.",
    "failed": "It failed.",
    "success": "It has ended without a result: its task was cleared, or its XCom is gone.",
}


def started_page(lake: str, run_id: str, run: Mapping[str, Any] | None, may_start: bool = False) -> Answer:
    """Return the state of a run; after its end, the browser is redirected to the result."""
    if run is None:
        raise NoSuchReplay(f"Airflow has no run {run_id[:200]!r} of the DAG {REPLAY_DAG}.")
    if run["state"] == "success" and run["replay_id"]:
        return Answer(303, location="run?" + urlencode({"id": run["replay_id"]}))
    address = quote(run_id, safe="")
    state = _STATES.get(run["state"], f"Airflow says that it is {run['state']}.")
    if run["state"] == "queued" and run["is_paused"]:
        state = f"It waits: the DAG {REPLAY_DAG} is paused in Airflow. Unpause it there, and the run starts."
    return Answer(
        200,
        _below("Run")(
            "what_if_started.html.j2", may_start=may_start, run=run, said=state, api=f"{_API}/{address}",
            link=f"{_AIRFLOW}/runs/{address}", log=f"{_AIRFLOW}/runs/{address}/tasks/{REPLAYING}", airflow=_AIRFLOW,
            is_over=run["state"] in ("failed", "success"),
        ),
    )  # fmt: skip
