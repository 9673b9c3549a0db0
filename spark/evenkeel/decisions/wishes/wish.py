"""What an operator may wish for, what is known when it is looked at, and what becomes of it.

Pulsar: admin/v2/Namespaces, impl/NamespacesBase. Options are named as in Pulsar's admin CLI.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evenkeel.decisions.bundles import bundle_name
from evenkeel.decisions.considered import Considered, considered
from evenkeel.decisions.load import BundleHistory
from evenkeel.decisions.splitting.algorithms import Generation
from evenkeel.decisions.splitting.cut import BundleTopics, PlannedSplit

Manager = Literal["modular", "extensible"]

NO_CONTENT = 204
NOT_FOUND, CONFLICT, PRECONDITION_FAILED, SERVER_ERROR = 404, 409, 412, 500


@dataclass(frozen=True, slots=True)
class SplitWish:
    """A bundle to split: `bundle` (-b) is a range, LARGEST or HOT (written so), `algorithm` (-san) "" for the broker's
    default, `positions` (-sb) the cuts for specified_positions_divide, `unload` (-u) whether the children go at once.
    """

    namespace: str
    bundle: str
    algorithm: str = ""
    positions: tuple[int, ...] = ()
    unload: bool = False


@dataclass(frozen=True, slots=True)
class UnloadWish:
    """A bundle to unload: `bundle` (-b) is a range, `destination` (-d) a broker id `host:port`, None to leave it to
    placement."""

    namespace: str
    bundle: str
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of a cluster when wishes are looked at.

    `boundaries`: namespace -> its boundaries; a namespace not in it does not exist. `owners`: bundle -> broker, without
    bundles that nobody owns. `brokers`: the available ones, by broker id; `silent`: those of them that did not answer.
    `histories` decide which bundle is HOT, `persistent_topics` (bundle -> topics, loaded or not) which is LARGEST.
    `topics`: bundle -> its topics, for algorithms that look at them. `splitting`, `unloading`: bundles that are split,
    or unloaded for another wish, in this cycle already.
    """

    manager: Manager
    generation: Generation
    boundaries: Mapping[str, Sequence[int]]
    owners: Mapping[str, str]
    brokers: Collection[str]
    silent: Collection[str] = frozenset()
    histories: Mapping[str, BundleHistory] = field(default_factory=dict)
    persistent_topics: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, BundleTopics] = field(default_factory=dict)
    splitting: Collection[str] = frozenset()
    unloading: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Granted:
    """The verdict on a wish, and what is to be done: `split` for one to split, `destination` for one to unload.

    An unload that is granted without destination leaves it to placement.
    """

    verdict: Considered
    split: PlannedSplit | None = None
    destination: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether anything is to be done."""
        return self.verdict.outcome in ("split", "unload")


def refused(
    subject: str,
    owner: str | None,
    rule: str,
    status: int,
    *,
    setting: str | None = None,
    measured: float | None = None,
    threshold: float | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Granted:
    """A wish that Pulsar would not carry out; `status` is the HTTP status with which it would answer."""
    row = considered(
        subject,
        "bundle",
        owner,
        "refused",
        rule,
        setting=setting,
        measured=measured,
        threshold=threshold,
        unit="" if measured is None else "count",
        numbers={"http_status": status, **(numbers or {})},
    )
    return Granted(row)


def subject_of(wish: SplitWish | UnloadWish) -> str:
    """The name under which a wish is put on record before its bundle is known."""
    return bundle_name(wish.namespace, wish.bundle)
