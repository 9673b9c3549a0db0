"""The lake of a page: that of its cluster or run, the one in its address, else the first.

With only one lake this module does nothing, and pages are the same as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from evenkeel.airflow.dag_names import DECIDING_DAG, dag_id_of, lake_in
from evenkeel.errors import BadInput, EvenkeelError, NoLake, NoSuchCycle, NoSuchReplay, SettingsError
from evenkeel.settings.lakes import ConfiguredLake, LakeMap
from evenkeel.settings.names import MAIN
from evenkeel_page import look
from evenkeel_page.reader import Answer, Job

WORD = "lake"
"""The word in an address that names a lake."""
_OF_A_CLUSTER = ("cycles", "heat", "settings")
"""Pages of one cluster where their address names it."""


@dataclass(frozen=True, slots=True)
class ShownLake:
    """The lake that a page is made of, one of several; `cluster`: whose page it is, "" for one of all clusters."""

    lakes: LakeMap
    name: str
    cluster: str = ""

    def is_own(self, cluster: str) -> bool:
        """Return True if the cluster belongs to this lake."""
        lake = self.lakes.reader_lake_of(cluster)
        return lake is not None and lake.name == self.name

    def link(self, lake: str, page: str) -> str:
        """Return the address of a page over a lake.

        The page of a cluster exists in this lake and in the cluster's own. No other lake is known to have it, so for
        others the link leads to the page of all clusters.
        """
        shown = ShownLake(self.lakes, lake)
        words = {WORD: lake}
        if self.cluster and page in _OF_A_CLUSTER and (lake == self.name or shown.is_own(self.cluster)):
            words = {"cluster": self.cluster, **({} if shown.is_own(self.cluster) else words)}
        return f"{page}?{urlencode(words)}"


_shown: ContextVar[ShownLake | None] = ContextVar("shown_lake", default=None)


def shown_name() -> str:
    """Return the name of the lake of the current page; "" with only one lake."""
    shown = _shown.get()
    return "" if shown is None else shown.name


def dag_shown(dag_id: str) -> str:
    """The id that a lake's own DAG has for the lake of the page that is being made."""
    return dag_id_of(dag_id, shown_name() or MAIN)


def first_steps() -> tuple[str, ...]:
    """Return the action to take if a lake has no cycle yet."""
    name = shown_name()
    if not name:
        return look.FIRST_STEPS
    entry = "lake" if name == MAIN else f"path` under `[lakes.{name}]"
    return (
        f"See that `{entry}` in the configuration is the place of its tables.",
        f"Trigger the DAG `{dag_shown(DECIDING_DAG)}`, or wait for its next run: the first cycle creates the tables.",
    )


@contextmanager
def showing(lake: ShownLake) -> Iterator[None]:
    """While a page of a lake is made inside."""
    token = _shown.set(lake)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def choosing(job: Job) -> Iterator[None]:
    """Set the lake for the answer to a job made inside; an error about a missing answer names the first lake tried."""
    if job.lakes is None:
        yield
        return
    try:
        first = _in_turn(job, job.lakes)[0].name
    except EvenkeelError:  # the page itself reports it
        first = ""
    with showing(ShownLake(job.lakes, first)):
        yield


def lake_links(page: str, up: str) -> Sequence[tuple[str, str, bool]]:
    """Return (name, address, is it this one) of the lakes that the page may be over; empty if there is no choice."""
    shown = _shown.get()
    if shown is None or page in ("", "clusters"):
        return ()
    return [(lake.name, up + shown.link(lake.name, page), lake.name == shown.name) for lake in shown.lakes.lakes]


def lake_words(cluster: str | None = None) -> dict[str, str]:
    """Return the part of the address that selects the lake; empty if the page's cluster selects it."""
    shown = _shown.get()
    if shown is None or (cluster is not None and shown.is_own(cluster)):
        return {}
    return {WORD: shown.name}


def from_lakes(job: Job, lakes: LakeMap, make: Callable[[str], Answer]) -> Answer:
    """Return the page of the first lake that has the subject: the cluster's own, then the others."""
    first: EvenkeelError | None = None
    for lake in _in_turn(job, lakes):
        try:
            with showing(ShownLake(lakes, lake.name, _cluster_of(job.arguments))):
                return make(lake.path)
        except (NoSuchCycle, NoSuchReplay, NoLake) as error:
            first = first or error
    assert first is not None
    raise first


def _in_turn(job: Job, lakes: LakeMap) -> list[ConfiguredLake]:
    if job.named:
        return [_named(lakes, job.named)]
    cluster = _cluster_of(job.arguments)
    if cluster:
        home = lakes.reader_lake_of(cluster)
        return sorted(lakes.lakes, key=lambda lake: lake != home)
    if job.page == "run":
        return [_named(lakes, lake_in(str(job.arguments["dag_id"])))]
    return [*lakes.lakes]


def _cluster_of(arguments: Mapping[str, Any]) -> str:
    fields = arguments.get("fields")
    given = fields.get("cluster") if isinstance(fields, Mapping) else [arguments.get("cluster")]
    return str((given or [""])[0] or "")


def _named(lakes: LakeMap, name: str) -> ConfiguredLake:
    try:
        return lakes.named(name)
    except SettingsError as error:
        raise BadInput(str(error)) from None
