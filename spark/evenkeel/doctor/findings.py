"""Checks of an installation: their definition, input and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evenkeel.pulsar.admin.connection import Resolver, from_environment
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.sources.configuration import ClusterSource


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
