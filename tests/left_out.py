"""What a run leaves out, said in its last lines: exhaustive tests, and tests for which this machine lacks something.

The functions named `pytest_…` are hooks; `tests/conftest.py` imports them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

# What a test may ask of a machine, and how to have it.
CHROMIUM, FULL_JDK, NGINX, VERSITYGW = "Chromium", "full JDK", "nginx", "versitygw"
POSTGRESQL, REDIS, CELERY = "PostgreSQL", "Redis", "Celery provider of Airflow"
DEBOOTSTRAP = "debootstrap"
TO_HAVE = {
    CHROMIUM: "apt-get install -y --no-install-recommends chromium fonts-dejavu-core, or EVENKEEL_CHROMIUM=/path/to/it",
    FULL_JDK: "apt-get install -y openjdk-17-jdk-headless, or EVENKEEL_JAVA=/path/to/java",
    NGINX: "apt-get install -y --no-install-recommends nginx-light",
    POSTGRESQL: "apt-get install -y --no-install-recommends postgresql",
    REDIS: "apt-get install -y --no-install-recommends redis-server",
    CELERY: "make setup-dev",
    DEBOOTSTRAP: "apt-get install -y --no-install-recommends debootstrap",
    VERSITYGW: "a Go (it is built once), or EVENKEEL_VERSITYGW=/path/to/versitygw",
}
MARKER = "exhaustive"
ORDINARY = f"not {MARKER}"

_deselected: set[str] = set()


def leaves_exhaustive_out(markers: str) -> bool:
    """Whether `-m MARKERS` is that of `make test` or of `make check`."""
    return re.search(rf"\bnot\b.*\b{MARKER}\b", markers) is not None


def leaves_all_out(source: str, markers: str) -> bool:
    """Whether `-m MARKERS`, in the form `not (a or b)`, leaves out all tests of a file by its line `pytestmark = …`."""
    names = re.fullmatch(r"not \((\w+(?: or \w+)*)\)", markers)
    marks = re.search(r"^pytestmark = .*$", source, re.MULTILINE)
    if names is None or marks is None:
        return False
    return not {*names[1].split(" or ")}.isdisjoint(re.findall(r"pytest\.mark\.(\w+)", marks[0]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spares `make check` the import of files of which it runs nothing: they import most, Airflow among it."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    return leaves_all_out(collection_path.read_text(encoding="utf-8"), config.option.markexpr) or None


def lacking(need: str) -> str:
    """The reason for which a test is skipped on a machine that lacks one of `TO_HAVE`."""
    return f"this machine has no {need}"


def summary(skip_reasons: Sequence[str], exhaustive: int) -> Iterator[str]:
    """The lines that tell what was left out and how to have it; none where nothing was."""
    for need, command in TO_HAVE.items():
        if number := sum(lacking(need) in reason for reason in skip_reasons):
            yield f"{_tests(number)} left out, since this machine has no {need}. To have it: {command}"
    if exhaustive:
        yield f"{_tests(exhaustive, 'exhaustive ')} left out; `make test-all` runs them, too."


def _tests(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'test was' if number == 1 else 'tests were'}"


def pytest_deselected(items: Iterable[pytest.Item]) -> None:
    """Notes the exhaustive tests that the command line leaves out."""
    for item in items:
        if item.config.option.markexpr == ORDINARY:
            _deselected.add(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the process that began the run how many were left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deselected"] = sorted(_deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes what a process of the run tells; each of them leaves out the same."""
    _deselected.update(getattr(node, "workeroutput", {}).get("deselected", ()))


def left_out(reporter: pytest.TerminalReporter) -> list[str]:
    """The lines for the end of this run."""
    reasons = [str(report.longrepr) for report in reporter.stats.get("skipped", ())]
    return list(summary(reasons, len(_deselected)))
