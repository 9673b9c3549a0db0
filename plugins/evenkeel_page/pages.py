"""The desk's pages, as the reader makes them: from tables to HTML. This module does not use Airflow.

Errors of Evenkeel become a page that states what to do. An unforeseen error is logged, and the page states only that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from urllib.parse import quote, urlencode

from evenkeel.airflow.dag_names import APPROVAL_DAG, APPROVING, approval_run_id, dag_id_of, lake_in
from evenkeel.errors import BadInput, BadNote, EvenkeelError, LogError, NoLake, NoSuchCycle, NoSuchReplay
from evenkeel.explain.settings_in_force import KeyInForce, read_settings_in_force
from evenkeel.explain.wording import time
from evenkeel.lake.record import Attempt, Record, Row, clusters_of, find_cycles, newest_cycles, read_rows
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.record.tables import OpenTables, all_of, text
from evenkeel.object_store import S3Connection, resolve_connections_by
from evenkeel.report import build_model, gather
from evenkeel.report.page import LISTED, MOST_LISTED, render_listing, report_link
from evenkeel.report.plan_cost import PlanCost, read_plan_cost
from evenkeel.settings.lakes import LakeMap
from evenkeel.status import LakeStatus, read_status
from evenkeel.status.attention import AGE_KEY, answer_by, waits_for_approval
from evenkeel.status.lakes import LakesStatus, SideBySideReader, read_lakes_status
from evenkeel.status.line import ClusterStatus, stretches
from evenkeel.times import time_given
from evenkeel.transparency.overview import read_overview
from evenkeel.verify.prove import prove_cycle
from evenkeel.verify.runs import read_runs
from evenkeel_page import heat_pages, look, subject_pages, what_if_pages
from evenkeel_page.cycle_progress import CycleProgress, cycle_progress, runs_of
from evenkeel_page.lake_choice import choosing, first_steps, from_lakes, lake_words
from evenkeel_page.reader import Answer, Job
from evenkeel_page.reader_process import limit_threads
from evenkeel_page.rendering import above, cycles_of, environment, notice, renderer, short
from evenkeel_page.subject_links import LinkedCycle, linking

log = logging.getLogger(__name__)

SPARK_WIDTH, SPARK_HEIGHT = 96, 24
MOST_AT_HAND = 8
"""Number of lakes whose reads stay in memory."""
LAKE_S = 15.0
"""Time after which the first page leaves a lake out: half of a page's time limit."""
_LATEST_RUNS, _MOST_HEADS = 10, 50
_OF_RUNS = ["cluster", *LISTED, "dag_id", "run_id"]
_UP = {"heat_why": "../", "what_if_run": "../", "what_if_new": "../", "what_if_started": "../"}
"""Page -> the way up to the desk's own addresses, for pages below them."""

_OVER_A_LAKE = {name: name for name in ("heat", "cycles", "settings", "proof")} | {"what_if": "what-if"}
"""Pages that are over one of several lakes, where none is named: page -> its address."""

limit_threads()
_tables = OpenTables()


def answer(job: Job) -> Answer:
    """Return the page that a job requests, or one with the reason why there is none."""
    with choosing(job):
        return _answer(job)


def _answer(job: Job) -> Answer:
    empty = partial(notice, up=_UP.get(job.page, ""), over=_OVER_A_LAKE.get(job.page, ""))
    try:
        if job.store is not None:
            connection = S3Connection.of_words(job.store)
            resolve_connections_by(lambda name: connection)
        make = partial(_PAGES[job.page], **job.arguments)
        with _tables.look():
            if job.lakes is None:
                return make(job.lake)
            return clusters_of_lakes(job.lakes) if job.page == "clusters" else from_lakes(job, job.lakes, make)
    except NoLake as error:
        return Answer(200, empty("No cycles yet", str(error), first_steps()), missing=str(error))
    except NoSuchCycle as error:
        return Answer(404, empty("No such cycle", str(error)))
    except NoSuchReplay as error:
        return Answer(404, empty("No such replay", str(error), ("The list of those on record is under *What if*.",)))
    except BadInput as error:
        return Answer(400, empty("That cannot be read", str(error)))
    except EvenkeelError as error:
        return Answer(500, empty("The lake cannot be read", str(error)))
    except Exception:
        log.exception("Evenkeel's desk: the page %s failed", job.page)
        return Answer(500, empty("Something went wrong", "This page could not be made.", look.AGAIN))


def clusters(lake: str) -> Answer:
    """A line per cluster, the most urgent first."""
    try:
        status = read_status(_recent(lake), datetime.now(UTC))
    except NoSuchCycle as error:
        raise NoLake(str(error)) from None
    return _clusters_page(status, [("", line) for line in status.clusters])


def clusters_of_lakes(lakes: LakeMap) -> Answer:
    """A line per cluster of all lakes, the most urgent first, and a line per lake that cannot be read."""
    status = read_lakes_status(lakes, datetime.now(UTC), _lakes_reader())
    if not status.lines and not status.faulty:
        raise NoLake(f"no cycle is on record in the lakes {', '.join(lake.name for lake in lakes.lakes)}")
    return _clusters_page(status, status.lines)


def _clusters_page(status: LakeStatus | LakesStatus, lines: Sequence[tuple[str, ClusterStatus]]) -> Answer:
    shown = [
        (line, report_link(line.cluster, line.cycle_at), cycles_of(line.cluster), _course_words(line), lake)
        for lake, line in lines
    ]
    several = status if isinstance(status, LakesStatus) else None
    return Answer(
        200,
        renderer("clusters")(
            "clusters.html.j2", status=status, lines=shown, moods=_moods(status.clusters), width=SPARK_WIDTH,
            height=SPARK_HEIGHT, stretches=lambda course: stretches(course, SPARK_WIDTH, SPARK_HEIGHT), several=several,
        ),
    )  # fmt: skip


@lru_cache(maxsize=MOST_AT_HAND)
def _at_hand(lake: str) -> Recent:
    """Return the reads of a lake, which stay in memory for the next look."""
    return Recent(lake)


@lru_cache(maxsize=1)
def _lakes_reader() -> SideBySideReader:
    return SideBySideReader(_at_hand, LAKE_S)


def _recent(lake: str) -> Recent:
    """Return the reads of a lake; nothing while an abandoned thread still reads with them."""
    return Recent(lake) if _lakes_reader().is_under_way(lake) else _at_hand(lake)


def _moods(lines: Sequence[ClusterStatus]) -> dict[str, int]:
    return {mood: sum(line.mood == mood for line in lines) for mood in ("bad", "warn", "note", "calm")}


def _course_words(line: ClusterStatus) -> str:
    """Return the content of the small picture in words, for users who cannot see it."""
    known = [value for value in line.course if value is not None]
    if not known:
        return "no balance on record"
    return f"the last {len(line.course)} cycles: from {min(known):.2f} to {max(known):.2f}, now {known[-1]:.2f}"


def cycles(lake: str, cluster: str | None = None, before: str | None = None) -> Answer:
    """Return the newest recorded cycles, or the newest `before` a moment; each page links to older cycles."""
    until = None if before is None else time_given(before, "before").first
    crumbs = [("Clusters", "./"), *([] if cluster is None else [(short(cluster), "")])]
    try:
        listed = newest_cycles(_recent(lake), MOST_LISTED, before=until, columns=LISTED, cluster=cluster)
    except NoSuchCycle as error:
        if cluster is not None:
            raise
        raise NoLake(str(error)) from None
    title = "Cycles" if cluster is None else f"Cycles of {cluster}"
    return Answer(
        200,
        render_listing(
            listed.cycles, lake=lake, title=title, has_older=listed.has_older, continued=until is not None,
            cluster=cluster, renderer=renderer("cycles", crumbs if cluster else ()), more=lake_words(cluster),
        ),
    )  # fmt: skip


def cycle(lake: str, cluster: str, at: str, answers_as: str = "") -> Answer:
    """Return the report of one cluster's cycle, with the question about its plan if that waits for an answer.

    `answers_as`: id of the user, if they may answer.
    """
    (shown,) = find_cycles(lake, cluster=cluster, cycle=at, option="the cycle")
    if shown.mode != "dry_run":  # outcomes of its commands continue to arrive
        return Answer(200, _report_page(lake, shown, _question(lake, shown, answers_as)))
    newest = find_cycles(lake, cluster=cluster)[0]
    return Answer(200, _dry_report(lake, cluster, shown.cycle_at.isoformat(), shown.attempt_id, newest.attempt_id))


def cycle_commands(lake: str, cluster: str, at: str) -> Answer:
    """Return the commands of one cluster's cycle with their outcomes, for the open page of the cycle."""
    (shown,) = find_cycles(lake, cluster=cluster, cycle=at, option="the cycle")
    crumbs = [*above(cluster), (time(shown.cycle_at), report_link(cluster, shown.cycle_at)), ("Commands", "")]
    progress = cycle_progress(lake, shown, datetime.now(UTC))
    render = renderer("cycles", crumbs)
    with linking(LinkedCycle(cluster, shown.cycle_at, progress.brokers)):
        return Answer(200, render("cycle_commands.html.j2", cluster=cluster, at=shown.cycle_at, progress=progress))


@dataclass(frozen=True, slots=True)
class Question:
    """A plan that waits for an answer in Airflow.

    `address`: of the question in Airflow's API, from any page of the desk; `airflow`: its page in Airflow; `until`:
    when it is too old; `planned`: the cycle's row; `answers_as`: id of the user, "" if they may not answer.
    """

    plan_id: str
    address: str
    airflow: str
    cost: PlanCost
    until: datetime | None
    planned: Row
    answers_as: str


def _question(lake: str, attempt: Attempt, answers_as: str) -> Question | None:
    run_id = str(attempt.planned["run_id"] or "")
    if not waits_for_approval(attempt) or attempt.plan_id is None or not run_id:
        return None
    asking = quote(approval_run_id(run_id, attempt.plan_id), safe="")
    dag_id = dag_id_of(APPROVAL_DAG, lake_in(str(attempt.planned["dag_id"] or "")))
    ages = [row for row in read_rows(lake, attempt, "settings", columns=["key", "value"]) if row["key"] == AGE_KEY]
    return Question(
        attempt.plan_id,
        f"../api/v2/dags/{dag_id}/dagRuns/{asking}/taskInstances/{APPROVING}/-1/hitlDetails",
        f"../dags/{dag_id}/runs/{asking}/tasks/{APPROVING}/required_actions",
        read_plan_cost(lake, attempt),
        answer_by(attempt, ages),
        attempt.planned,
        answers_as,
    )


@lru_cache(maxsize=16)
def _dry_report(lake: str, cluster: str, at: str, attempt_id: str, newest_attempt_id: str) -> str:
    """A report that was drawn once is kept as long as neither its cycle nor the newest one has a new attempt."""
    (shown,) = find_cycles(lake, cluster=cluster, cycle=at)
    return _report_page(lake, shown, None)


def _report_page(lake: str, attempt: Attempt, question: Question | None) -> str:
    cluster, at = attempt.cluster, attempt.cycle_at
    crumbs = [*above(cluster), (time(at), "")]
    progress: CycleProgress = cycle_progress(lake, attempt, datetime.now(UTC))
    model = build_model(lake, gather(lake, cluster=cluster, cycle=at.isoformat()))
    render = renderer("cycles", crumbs)
    brokers = progress.brokers.union(line.broker for chapter in model.chapters for line in chapter.brokers)
    with linking(LinkedCycle(cluster, at, brokers)):
        return render(
            "cycle.html.j2", model=model, question=question, progress=progress, runs=runs_of(attempt), cluster=cluster
        )  # fmt: skip


def run(lake: str, dag_id: str, run_id: str, handed_on: Collection[tuple[str, datetime]]) -> Answer:
    """Return the cycles of an Airflow run: the report of a single one, else their list."""
    attempts = _cycles_of_run(Record(lake), dag_id, run_id, handed_on)
    if not attempts:
        sentence = f"The run {run_id} of {dag_id} has put no cycle on record yet."
        advice = ("`publish` does so, as its last act, also for a cycle that was skipped or failed.",)
        return Answer(404, notice("Nothing on record yet", sentence, advice))
    if len(attempts) == 1:
        return Answer(303, location=report_link(attempts[0].cluster, attempts[0].cycle_at))
    crumbs = [("Clusters", "./"), (short(f"Run {run_id}"), "")]
    return Answer(
        200, render_listing(attempts, lake=lake, title=f"Cycles of run {run_id}", renderer=renderer("cycles", crumbs))
    )


def _cycles_of_run(
    record: Record, dag_id: str, run_id: str, handed_on: Collection[tuple[str, datetime]]
) -> list[Attempt]:
    """Return the cycles in the hand-overs of a run's tasks: a run whose plan is on record adds no attempt."""
    if handed_on:
        return record.cycles_at(handed_on, _OF_RUNS)
    its_own = all_of(text("dag_id") == dag_id, text("run_id") == run_id)
    moments = {(name, at) for name in record.clusters() for at in record.moments(name, its_own).to_pylist()}
    near = record.cycles_at(moments, _OF_RUNS)
    return [attempt for attempt in near if (attempt.planned["dag_id"], attempt.planned["run_id"]) == (dag_id, run_id)]


def settings(lake: str, cluster: str | None = None, show: str = "changed") -> Answer:
    """The settings that clusters were last decided with, each value once with the clusters that have it."""
    if show not in SHOWN_SETTINGS:
        raise BadInput(f"show={show[:60]}: there are {', '.join(SHOWN_SETTINGS)}")
    in_force = read_settings_in_force(lake, cluster)
    chosen = [setting for setting in in_force.settings if SHOWN_SETTINGS[show][1](setting)]
    views = [
        (
            name,
            word,
            "settings?" + urlencode({"show": name, **(lake_words() if cluster is None else {"cluster": cluster})}),
        )
        for name, (word, _) in SHOWN_SETTINGS.items()
    ]
    crumbs = () if cluster is None else (("Settings", "settings"), (short(cluster), ""))
    render = renderer("settings", crumbs)
    return Answer(
        200, render("settings.html.j2", found=in_force, chosen=chosen, views=views, show=show, cluster=cluster)
    )


SHOWN_SETTINGS: dict[str, tuple[str, Callable[[KeyInForce], bool]]] = {
    "changed": ("Not at their default", lambda key: key.is_changed),
    "differing": ("Differ between clusters", lambda key: key.differs),
    "all": ("All", lambda key: True),
}
"""Contents of the page of settings, by the word in its address: its name, and the keys that it shows."""


def proof(lake: str) -> Answer:
    """Heads, the transparency log as it is now, the last `verify`, and a form that asks for a proof."""
    record = Record(lake)
    names, runs = clusters_of(record, None), read_runs(lake, _LATEST_RUNS)
    heads = {name: _head(record, name) for name in names[:_MOST_HEADS]}
    try:
        overview, missing = read_overview(lake), ""
    except (LogError, BadNote) as error:
        overview, missing = None, str(error)
    return Answer(
        200,
        renderer("proof")(
            "proof.html.j2", log=overview, missing=look.sentence(missing), clusters=names, heads=heads, runs=runs,
            lake=lake, now=datetime.now(UTC),
        ),
    )  # fmt: skip


def _head(record: Record, cluster: str) -> tuple[int, str]:
    """The number of manifests in a cluster's chain, and the digest of the last one."""
    links = record.links(cluster)
    return links.num_rows, str(links.column("manifest_digest")[-1].as_py()) if links.num_rows else ""


def proof_file(lake: str, cluster: str, at: str, decision: str | None = None, table: str | None = None) -> Answer:
    """A proof that a cycle, or a decision of it, is in the log."""
    try:
        proved = prove_cycle(lake, cluster, at, subject=decision, table=table)
    except LogError as error:
        return Answer(404, notice("No proof", str(error), ("`evenkeel log begin` starts a log of a lake.",)))
    moment = proved.manifest["cycle_at"].strftime("%Y-%m-%dT%H-%M-%S")
    name = _NOT_IN_A_FILE_NAME.sub("_", f"{cluster[:80]}-{moment}")
    return Answer(200, proved.proof.data.decode(), file=f"{name}.tlog-proof")


def ahead(lake: str) -> Answer:
    """The newest cycle's page, made for no one: with it, and with all templates, whatever is loaded once is loaded."""
    jinja = environment()
    for name in jinja.list_templates(extensions=("j2",)):
        jinja.get_template(name)
    newest = newest_cycles(_recent(lake), 1, columns=LISTED).cycles
    if not newest:
        raise NoLake("no cycle is on record")
    return cycle(lake, newest[0].cluster, newest[0].cycle_at.isoformat())


_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")

_PAGES: dict[str, Callable[..., Answer]] = {
    "clusters": clusters,
    "cycles": cycles,
    "cycle": cycle,
    "cycle_commands": cycle_commands,
    "run": run,
    "heat": heat_pages.heat_page,
    "heat_picture": heat_pages.heat_picture,
    "heat_why": heat_pages.heat_why,
    "bundle": subject_pages.bundle,
    "broker": subject_pages.broker,
    "what_if": what_if_pages.list_page,
    "what_if_run": what_if_pages.comparison_page,
    "what_if_new": what_if_pages.form_page,
    "what_if_started": what_if_pages.started_page,
    "settings": settings,
    "proof": proof,
    "proof_file": proof_file,
    "ahead": ahead,
}
