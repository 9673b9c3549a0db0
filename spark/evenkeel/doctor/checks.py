"""Checks of an installation: their definition, input and results, and how they run.

They run side by side and are reported in order: one that hangs or breaks off stops no other. Questions about Spark and
Airflow are answered by a separate process: it can be ended, and it loads the heavy modules. The question comes on
standard input and the answer on standard output, both as JSON; no secret is on a command line. Libraries that print
write to standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from evenkeel.errors import EvenkeelError, without_right
from evenkeel.pulsar.admin.connection import Resolver, from_environment
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.sources.configuration import ClusterSource
from evenkeel.spark.code import source_root


class CheckOutcome(StrEnum):
    """The result of a check. `warn`: it works, and there is something to do; `skipped`: there is nothing to check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of a check in words, and the action to take ("" if there is nothing to do)."""

    outcome: CheckOutcome
    words: str
    advice: str = ""


def ok(words: str) -> CheckFinding:
    """Return a finding without a fault."""
    return CheckFinding(CheckOutcome.OK, words)


def warn(words: str, advice: str) -> CheckFinding:
    """Return a finding on a part that works but needs a change."""
    return CheckFinding(CheckOutcome.WARN, words, advice)


def fail(words: str, advice: str) -> CheckFinding:
    """Return the finding of a part that does not work, or with which nothing may be sent."""
    return CheckFinding(CheckOutcome.FAIL, words, advice)


def skipped(reason: str) -> CheckFinding:
    """Return a finding on a part that was not checked."""
    return CheckFinding(CheckOutcome.SKIPPED, reason)


_NAMED = 5


def some(names: Iterable[str]) -> str:
    """Return the first of these names, and how many more there are."""
    listed = [*names]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Site:
    """The installation to check.

    `configuration`: its file; `sources`: its clusters, None if it cannot be read or has faults. `lake`: root of the
    tables; `lakes`: name -> root, if there are several. `home`: the folder whose `.evenkeel` contains the local
    server's state. `probe`: checks may write; `wrote`: the files that they wrote and removed again. `resolve`: finds
    the token of a connection.
    """

    configuration: Path | None = None
    sources: tuple[ClusterSource, ...] | None = ()
    lake: str | None = None
    home: Path = Path()
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)
    probe: bool = False
    resolve: Resolver = from_environment
    wrote: list[str] = field(default_factory=list)
    lakes: Mapping[str, str] = field(default_factory=dict)

    def source(self, cluster: str) -> ClusterSource:
        """The cluster's entry of the configuration."""
        return next(known_source for known_source in self.sources or () if known_source.cluster == cluster)

    @property
    def airflow_home(self) -> Path | None:
        """Return Airflow's home, None if this machine has none."""
        named = self.environment.get("AIRFLOW_HOME")
        home = Path(named or "~/airflow").expanduser()
        is_used = named or any((home / name).is_file() for name in ("airflow.cfg", "airflow.db"))
        return home if home.is_dir() and is_used else None


FAULTY = "the configuration cannot be used: see the check `configuration`"

Subjects = Callable[[Site], Sequence[str]]
"""Subjects of a check: names of clusters, or of lakes; "" for the installation as a whole."""


def clusters_with(part: str) -> Subjects:
    """Return the function for the clusters whose configuration has this part: `live`, `zone` or `queues`."""
    return lambda site: [str(source.cluster) for source in site.sources or () if getattr(source, part) is not None]


def _whole(_: Site) -> Sequence[str]:
    return ("",)


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """A check by its name.

    `about`: its subjects; `run`: the check, given the site and a subject; `seconds`: its time limit. `without`: the
    reason why there is no subject, if so.
    """

    name: str
    about: str
    run: Callable[[Site, str], CheckFinding]
    seconds: float = 10.0
    subjects: Subjects = _whole
    without: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The finding of a check of a subject. `looked`: the check ended by itself; `seconds`: its duration."""

    check: str
    subject: str
    finding: CheckFinding
    seconds: float
    looked: bool = True


AT_ONCE = 6
THREAD = "evenkeel check "
"""Begins the names of the threads that checks run in; `cli.__main__` leaves behind those that hang."""
_TICK_SECONDS = 0.05
_SHOWN = 300


@dataclass(slots=True)
class _Work:
    """A check of one subject (None without one): its start (`time.monotonic`), and its result once available."""

    check: SiteCheck
    subject: str | None
    begun: float | None = None
    result: CheckResult | None = None
    ended: threading.Event = field(default_factory=threading.Event)


def run_checks(
    checks: Sequence[SiteCheck],
    site: Site,
    waiting: Callable[[str, float], None] = lambda name, seconds: None,
    at_once: int = AT_ONCE,
) -> Iterator[CheckResult]:
    """Yield the results, in the order of the checks and of their subjects, as soon as each may be reported.

    At most `at_once` run side by side. `waiting` is called, again and again, with the awaited check and the seconds
    since it began. A check that has not ended in its time is given up: its thread continues, and ends with the process.
    """
    works = [_Work(check, subject) for check in checks for subject in check.subjects(site) or (None,)]
    for place, work in enumerate(works):
        while work.result is None:
            _begin(works[place:], site, at_once)
            _give_up(works[place:])
            if work.begun is not None:
                waiting(work.check.name, time.monotonic() - work.begun)
            if work.result is None:
                work.ended.wait(_TICK_SECONDS)
        yield work.result


def _begin(works: Sequence[_Work], site: Site, at_once: int) -> None:
    """Start further checks, up to the limit."""
    running = sum(work.begun is not None and work.result is None for work in works)
    for work in [work for work in works if work.begun is None][: max(at_once - running, 0)]:
        work.begun = time.monotonic()
        threading.Thread(target=_look, args=(work, site), name=f"{THREAD}{work.check.name}", daemon=True).start()


def _look(work: _Work, site: Site) -> None:
    begun, looked = time.monotonic(), True
    try:
        if work.subject is None:
            finding = skipped(FAULTY if site.sources is None else work.check.without)
        else:
            finding = work.check.run(site, work.subject)
    except EvenkeelError as error:
        finding = fail(str(error), "")  # the message contains the fault and the action to take
    except PermissionError as error:
        finding = fail(without_right(error), "")
    except Exception as error:
        words = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:_SHOWN]
        finding, looked = fail(f"could not look: {words}", "this is an unforeseen error; report it"), False
    if work.result is None:  # it was not given up
        work.result = CheckResult(work.check.name, work.subject or "", finding, time.monotonic() - begun, looked)
    work.ended.set()


def _give_up(works: Sequence[_Work]) -> None:
    now = time.monotonic()
    for work in works:
        if work.begun is not None and work.result is None and now - work.begun > work.check.seconds:
            finding = fail(
                f"could not look: no end after {work.check.seconds:.0f} s",
                "look at what it asks; `--skip` leaves it out",
            )
            work.result = CheckResult(work.check.name, work.subject or "", finding, now - work.begun, looked=False)


def exit_code(results: Sequence[CheckResult]) -> int:
    """Return 2 if a check could not look, else 1 if there is something to do, else 0."""
    if not all(result.looked for result in results):
        return 2
    return int(any(result.finding.outcome in (CheckOutcome.WARN, CheckOutcome.FAIL) for result in results))


Answer = dict[str, Any]
ERROR = "error"
_ERROR_SHOWN = 400


class AsideFailed(EvenkeelError):
    """A process that was to look at something ended without an answer, or with an error."""


def asked_aside(module: str, question: Mapping[str, Any], seconds: float) -> Answer:
    """Return `python -m MODULE`'s answer to a question; raise AsideFailed with its message if none comes in time."""
    path = os.pathsep.join(part for part in (str(source_root()), os.environ.get("PYTHONPATH", "")) if part)
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AsideFailed(f"no answer within {seconds:.0f} s") from None
    try:
        answer: Answer = json.loads(done.stdout)
    except ValueError:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it printed nothing"]
        raise AsideFailed(f"it ended with code {done.returncode}: {lines[-1][:_ERROR_SHOWN]}") from None
    if ERROR in answer:
        raise AsideFailed(str(answer[ERROR]))
    return answer


def answer_aside(answer: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer the question on standard input; an error ends in its words."""
    question = json.load(sys.stdin)
    try:
        with redirect_stdout(sys.stderr):
            reply = answer(question)
    except EvenkeelError as error:
        reply = {ERROR: str(error)}
    except Exception as error:
        reply = {ERROR: f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:_ERROR_SHOWN]}"}
    sys.stdout.write(json.dumps(reply))
    sys.stdout.flush()
