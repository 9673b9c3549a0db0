"""The progress of a cycle: its answer, its commands with their outcomes, and the Airflow runs that worked on it.

It is read again and again while a page of the cycle is open, so only the shown values are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from evenkeel.airflow.dag_names import (
    APPROVAL_DAG,
    DECIDING_DAG,
    HISTORY_DAG,
    approval_run_id,
    dag_id_of,
    kind_of_dag,
    lake_in,
)
from evenkeel.explain.wording import ended, time
from evenkeel.lake.controls import APPROVED, NOBODY, REJECTED, WITHOUT_SPLITS
from evenkeel.lake.outbox import is_open
from evenkeel.lake.record import Attempt, Record, Row, read_commands, read_table
from evenkeel.lake.record.tables import is_in, is_table
from evenkeel.model.amounts import plural
from evenkeel.model.past_commands import HARMED
from evenkeel.report.headline import Result, results, tally
from evenkeel.status.attention import planned_commands, waits_for_approval

LONGEST = timedelta(days=1)
"""Time after which no cycle checks the outcome of a command any more."""
_SAID = {APPROVED: "Approved", WITHOUT_SPLITS: "Approved without splits", REJECTED: "Rejected"}


@dataclass(frozen=True, slots=True)
class CycleProgress:
    """The progress of a cycle.

    `said`: sentences, empty without any; `is_over`: nothing is to come; `address`: of the page that shows this alone,
    below the desk's own; `is_answered`: a user has answered to its plan, on the desk or in a shell; `superseded`: the
    cycle that made a plan void that waited for an answer.
    """

    said: tuple[str, ...]
    results: tuple[Result, ...]
    is_over: bool
    address: str
    is_answered: bool = False
    superseded: datetime | None = None

    @property
    def brokers(self) -> frozenset[str]:
        """The brokers that the commands name."""
        named = (name for result in self.results for name in (result.from_broker, result.destination))
        return frozenset(name for name in named if name)


def cycle_progress(lake: str, attempt: Attempt, now: datetime) -> CycleProgress:
    """Return the progress of an attempt at a cycle, as far as it is recorded."""
    where = {"cluster": attempt.cluster, "at": attempt.cycle_at.isoformat()}
    address = f"cycle-commands?{urlencode(where)}"
    if attempt.mode == "dry_run" or not attempt.decided:
        return CycleProgress((), (), True, address)
    commands = read_commands(lake, attempt)
    harm = {row["command_id"]: row["detail"] for row in _harm(lake, attempt)} if commands else {}
    outcomes = results(commands, harm)
    left = [row for row in commands if is_open(row)]
    is_over = (attempt.closed is not None and not left) or now - attempt.cycle_at > LONGEST
    answers = _answers(lake, attempt)
    sentences = (*answers, *_state(attempt, outcomes, len(left)))
    superseded = None
    if waits_for_approval(attempt) and not commands:
        superseded = Record(lake).superseding(attempt.cluster, attempt.cycle_at, attempt.planned["source"])
    return CycleProgress(sentences, outcomes, is_over, address, bool(answers), superseded)


def _harm(lake: str, attempt: Attempt) -> list[Row]:
    at = attempt.cycle_at
    return Record(lake).outbox("outcomes", attempt.cluster, at, at, where=is_in("outcome", [HARMED]))


def _answers(lake: str, attempt: Attempt) -> list[str]:
    """Return the operators' answers to the plan, the last one last: it holds."""
    if attempt.mode != "approve" or attempt.plan_id is None or not is_table(lake, "approvals"):
        return []
    rows = read_table(lake, "approvals", {"cluster": [attempt.cluster], "plan_id": [attempt.plan_id]})
    return [_answer(row) for row in sorted(rows, key=lambda row: (row["at"], row["answer"]))]


def _answer(row: Row) -> str:
    note = f": {row['note']}" if row["note"] else ""
    if row["by"] == NOBODY:
        return ended(f"The question was closed at {time(row['at'])}{note}")
    return ended(f"{_SAID.get(row['answer'], row['answer'])} by {row['by']} at {time(row['at'])}{note}")


def _state(attempt: Attempt, outcomes: Sequence[Result], left: int) -> list[str]:
    if not outcomes:
        return [f"Nothing was sent: {ended(attempt.reason)}"] if attempt.status == "withheld" and attempt.reason else []
    known = f"{len(outcomes) - left:,} of {plural(len(outcomes), 'command')}" if left else _all(len(outcomes))
    verb = "has" if len(outcomes) - left == 1 else "have"
    if len(outcomes) > left:
        seen = [outcome for outcome in outcomes if outcome.outcome != "open"]
        sentences = [f"{known} {verb} an outcome: {tally(seen)}."]
    else:
        sentences = [f"No outcome is on record yet of {plural(len(outcomes), 'command')}."]
    if left and attempt.closed is not None:
        sentences.append("The next cycle looks what became of the rest.")
    if attempt.reason:
        sentences.append(ended(attempt.reason[:1].upper() + attempt.reason[1:]))
    return sentences


def _all(number: int) -> str:
    return "The one command" if number == 1 else f"All {number:,} commands"


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run, with addresses from any page of the desk: its `page` in Airflow, and its `tasks` in Airflow's API."""

    dag_id: str
    run_id: str
    words: str
    page: str
    tasks: str


def runs_of(attempt: Attempt) -> tuple[AirflowRun, ...]:
    """The run that decided the cycle, and the one that asks about its plan; none where a shell made the cycle."""
    dag_id, run_id = (str(attempt.planned[name] or "") for name in ("dag_id", "run_id"))
    if kind_of_dag(dag_id) not in (DECIDING_DAG, HISTORY_DAG) or not run_id:
        return ()
    runs = [_run(dag_id, run_id, "decides the cycle")]
    if attempt.mode == "approve" and attempt.plan_id and planned_commands(attempt) > 0:
        approving = dag_id_of(APPROVAL_DAG, lake_in(dag_id))
        runs.append(_run(approving, approval_run_id(run_id, attempt.plan_id), "asks, and carries the plan out"))
    return tuple(runs)


def _run(dag_id: str, run_id: str, words: str) -> AirflowRun:
    dag, run = quote(dag_id, safe=""), quote(run_id, safe="")
    tasks = f"api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100"
    return AirflowRun(dag_id, run_id, words, f"dags/{dag}/runs/{run}", tasks)
