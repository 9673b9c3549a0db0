"""The bundles of a cluster by the boundaries of its namespaces, and a bundle's row: owner, figures, averages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from evenkeel.model.averages import DEFAULT_STATS, default_history, history_of_quota, next_means
from evenkeel.model.bundles import HIGHEST_HASH, SYSTEM_NAMESPACE
from evenkeel.model.load import (
    LONG_TERM_SAMPLES,
    RATES,
    SHORT_TERM_SAMPLES,
    BundleHistory,
    BundleStats,
    MessageAverages,
)

Row = Mapping[str, Any]

# `$` of Java, in whose terms both patterns were first written, lets a line end follow.
_END = r"(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z"
_BOUNDARY = re.compile(rf"0x([0-9a-fA-F]{{8}}){_END}")

# Heartbeat and SLA-monitor namespaces are in no list of namespaces and are always one bundle; 4.0 has a cluster in
# between. `pulsar/system` is an ordinary namespace with its own boundaries.
_BROKER_NAMESPACE = re.compile(rf"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/]+:[0-9]+{_END}")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle in force: the hashes from `lower` up to, not including, `upper`; the last one of all includes it."""

    namespace: str
    name: str
    lower: int
    upper: int


def is_broker_namespace(namespace: str) -> bool:
    """Return True if it is a broker's own heartbeat or SLA-monitor namespace."""
    return _BROKER_NAMESPACE.match(namespace) is not None


# A namespace has many bundles, and is asked about for each of them in every cycle.
@lru_cache(maxsize=4096)
def is_system_namespace(namespace: str) -> bool:
    """Return True if it is Pulsar's own: heartbeat, SLA monitor or `pulsar/system`."""
    return namespace == SYSTEM_NAMESPACE or is_broker_namespace(namespace)


def edges_of(boundaries: Iterable[str | None] | None) -> tuple[int, ...]:
    """Return a namespace's boundaries as hashes, in their order; text that is not like 0x40000000 is ignored."""
    matches = (_BOUNDARY.match(text) for text in boundaries or () if text is not None)
    return tuple(int(match.group(1), 16) for match in matches if match is not None)


def namespaces_in_force(namespaces: Iterable[Row], claims: Iterable[Row]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the namespaces with their boundaries as hashes, without namespaces that have no bundle.

    `namespaces` are rows of namespace_bundles. A broker's own namespace has no boundaries in them. It counts as one
    bundle if `claims` (rows of bundle_ownership) show that a broker owns it, as it does in Pulsar's own sums.
    """
    known = [(row["namespace"], edges_of(row["boundaries"])) for row in namespaces]
    broker_namespaces = sorted({row["namespace"] for row in claims})
    known += [(name, (0, HIGHEST_HASH)) for name in broker_namespaces if is_broker_namespace(name)]
    return [(name, edges) for name, edges in known if len(edges) > 1]


# Boundaries change when a bundle is split, and are asked for in every cycle.
@lru_cache(maxsize=1024)
def bundles_of(namespace: str, edges: tuple[int, ...]) -> tuple[Bundle, ...]:
    """The bundles between these boundaries."""
    return tuple(
        Bundle(namespace, f"{namespace}/0x{lower:08x}_0x{upper:08x}", lower, upper) for lower, upper in pairwise(edges)
    )


COUNTS = ("topics", "consumers", "producers")
CLIENTS = ("consumers", "producers", "msg_backlog")
SAID = (*RATES, "topics")
AVERAGES = tuple(f"{term}_{figure}" for term in ("short", "long") for figure in RATES)

Figures = tuple[float | None, ...]
"""msg/s in and out, byte/s in and out."""

_USED = tuple(f"used_{figure}" for figure in RATES)
_COLUMNS = (
    *COUNTS,
    *(f"measured_{figure}" for figure in RATES),
    *_USED,
    *AVERAGES,
    *(f"reported_{name}" for name in SAID),
    *(f"{name}_before" for name in CLIENTS),
)
_FIGURES_IN, _USED_IN, _COUNTS_IN = itemgetter(*RATES), itemgetter(*_USED), itemgetter(*COUNTS)
_SAID_IN, _CLIENTS_IN = itemgetter(*SAID), itemgetter(*CLIENTS)
_UNKNOWN: Figures = (None,) * len(RATES)
_NOT_SHOWN = (None,) * (len(COUNTS) + len(RATES))
_NOT_SAID, _NO_CLIENTS = (None,) * len(SAID), (None,) * len(CLIENTS)
_NO_TOPICS: Mapping[str, Any] = {
    **dict.fromkeys((*COUNTS, "listed_topics"), 0),
    **dict.fromkeys(RATES, 0.0),
    "has_non_persistent": False,
}
_OF_TOPICS = itemgetter(*_NO_TOPICS)


@dataclass(frozen=True, slots=True)
class Owners:
    """Owners of bundles, as the brokers report them.

    `claims`: checked rows of bundle_ownership by bundle. `lists_came`: every available broker's list arrived.
    `answered`: brokers whose topic figures arrived; `refused`: bundles with a rejected claim. `seen`: owners that were
    expected or seen after a command, newer than the brokers' lists. `reporting`: the listed brokers, if all their load
    reports and topic figures arrived and load reports alone name the owners; else none. `still_since`: figures older
    than this moment are not those of a moving bundle.
    """

    claims: Mapping[str, Sequence[Row]]
    lists_came: bool
    answered: Set[str]
    refused: Set[str]
    seen: Mapping[str, str] = field(default_factory=dict)
    reporting: Set[str] = frozenset()
    still_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Heir:
    """The figures that a split's child inherits: those of its topics in the previous cycle, and since when they hold.

    A child has no row in the previous cycle, and for two stats periods after the split its figures are doubled or
    missing. Its topics existed before, each in its parent, so their last trusted figures count.
    """

    figures: tuple[float, ...]
    trusted_at: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """Known values of a cluster's bundles beside their owners, by bundle.

    `sums`: the figures of its topics (`topic_sums.bundle_sums`). `lost`: bundles that lost a topic to a rejection.
    `before`: the predecessor's rows of bundle_load. `forgotten`: bundles whose averages Pulsar has dropped.
    `unsettled`: bundles whose figures a recent command has disturbed. `heirs`: children of recent splits. `quotas`: the
    resource quotas from which averages start if there are none.
    """

    sums: Mapping[str, Row] = field(default_factory=dict)
    lost: Set[str] = frozenset()
    before: Mapping[str, Row] = field(default_factory=dict)
    forgotten: Set[str] = frozenset()
    unsettled: Set[str] = frozenset()
    heirs: Mapping[str, Heir] = field(default_factory=dict)
    quotas: Mapping[str, Row] = field(default_factory=dict)


def bundle_rows(stamp: Row, bundles: Iterable[Bundle], owners: Owners, known: Known) -> list[dict[str, Any]]:
    """Rows of bundle_load, one for each of the bundles in force, by name; `stamp` are cluster and cycle_at.

    A bundle that a split made has no predecessor, and its averages start again.
    """
    return [_row(stamp, bundle, owners, known) for bundle in sorted(bundles, key=lambda in_force: in_force.name)]


def _row(stamp: Row, bundle: Bundle, owners: Owners, known: Known) -> dict[str, Any]:
    name = bundle.name
    claims, before = owners.claims.get(name, ()), known.before.get(name)
    claimants = {claim["broker"] for claim in claims if claim["is_owned"]}
    if name in owners.seen:
        claimants = {owners.seen[name]}
    owner = next(iter(claimants)) if len(claimants) == 1 else None
    sums, backlog = _of_topics(known.sums.get(name))
    trusted = _trusted_before(before, known.heirs.get(name))
    is_idle = not claimants and name not in known.unsettled and _is_idle(owners, sums, before)
    gap = None if is_idle else _gap(name, claimants, owners, known, trusted)
    if gap is None and not is_idle and _has_just_moved(owner, sums, before):
        gap = "just_moved"
    measured = _FIGURES_IN(sums)
    history = _history(None if name in known.forgotten else before, known.quotas.get(name))
    if gap is None:
        history, trusted = _updated(history, measured), _Trusted(measured, stamp["cycle_at"], "measured")
    is_shown = gap is None or gap == "unsettled"  # upset figures are shown, though they are not used
    owners_claim = _said_by(owner, claims)
    row: dict[str, Any] = {
        "cluster": stamp["cluster"],
        "cycle_at": stamp["cycle_at"],
        "bundle": name,
        "namespace": bundle.namespace,
        "lower": bundle.lower,
        "upper": bundle.upper,
        "owner": owner,
        "ownership": _ownership(name, claimants, owners),
        "last_owner": before["last_owner"] if owner is None and before is not None and not is_idle else owner,
        "is_system": is_system_namespace(bundle.namespace),
        "has_non_persistent": sums["has_non_persistent"],
        "listed_topics": sums["listed_topics"],
        "used_reason": trusted.reason,
        "measured_gap": gap,
        "trusted_at": trusted.at,
        "msg_backlog": backlog if is_shown else None,
        "short_samples": history.short_samples,
        "long_samples": history.long_samples,
        "samples_since_quota": history.samples_since_quota,
    }
    figures = (
        *((*_COUNTS_IN(sums), *measured) if is_shown else _NOT_SHOWN),
        *trusted.figures,
        *history.short,
        *history.long,
        *(_NOT_SAID if owners_claim is None else _SAID_IN(owners_claim)),
        *(_NO_CLIENTS if before is None else _CLIENTS_IN(before)),
    )
    row.update(zip(_COLUMNS, figures, strict=True))
    return row


def _ownership(bundle: str, claimants: Set[str], owners: Owners) -> str:
    """Return the ownership of a bundle, one of four words.

    `owned`: exactly one broker reports that it owns the bundle. `doubled`: several do, as for a moment during a move.
    `unowned`: none does, and every available broker sent its list. `unknown`: none does, but a list is missing or a
    claim was rejected, so the bundle may have an owner.
    """
    if claimants:
        return "owned" if len(claimants) == 1 else "doubled"
    return "unowned" if owners.lists_came and bundle not in owners.refused else "unknown"


def _said_by(owner: str | None, claims: Iterable[Row]) -> Row | None:
    """Return the owner's own claim of the bundle; of two claims, the one with the larger figures."""
    claims_of_owner = [claim for claim in claims if claim["broker"] == owner]
    return claims_of_owner[0] if len(claims_of_owner) == 1 else max(claims_of_owner, key=_size, default=None)


def _size(claim: Row) -> list[tuple[bool, bool, float]]:
    """Return a sort key in the order of SQL: NULL is less than anything, not-a-number more."""
    sizes = [claim[name] for name in SAID]
    return [(x is not None, x != x, 0.0 if x is None or x != x else x) for x in sizes]


def _gap(bundle: str, claimants: Set[str], owners: Owners, known: Known, trusted: _Trusted) -> str | None:
    """Return why a bundle's sums are not its load; None if they are, unless it has just moved.

    not_owned: no broker reports that it owns the bundle. no_topic_figures: an owner's topic figures are missing.
    topics_rejected: one of its topics was rejected, or lacks a figure. unsettled: a command touched the bundle, and for
    two stats periods its figures are missing, doubled or inflated; earlier trusted figures, if any, are used instead.
    """
    if not claimants:
        return "not_owned"
    if not claimants <= owners.answered:
        return "no_topic_figures"
    if bundle in known.lost or _is_cut_short(known.sums.get(bundle)):
        return "topics_rejected"
    return "unsettled" if bundle in known.unsettled and trusted.figures[0] is not None else None


def _of_topics(sums: Row | None) -> tuple[Row, int | None]:
    """Return the sums over a bundle's topics, empty without topics, and their backlog."""
    if sums is None:
        return _NO_TOPICS, 0
    figures = sums
    if None in _OF_TOPICS(sums):
        figures = {name: nothing if sums[name] is None else sums[name] for name, nothing in _NO_TOPICS.items()}
    return figures, sums["msg_backlog"] if sums["topics"] else 0


def _is_cut_short(sums: Row | None) -> bool:
    """Return True if a loaded topic lacks a figure, or a sum is not known, so that the sums are too small."""
    if sums is None:
        return False
    is_complete = not sums["topics"] or None not in _FIGURES_IN(sums)
    return not is_complete or sums["all_known"] is False


def _is_idle(owners: Owners, sums: Row, before: Row | None) -> bool:
    """Return True if the last owner reports and no broker shows a topic of the bundle, for two stats periods.

    It has no load, whether a broker owns it or not: a load report names no bundle without a loaded topic.
    """
    if before is None or before["last_owner"] not in owners.reporting or sums["topics"]:
        return False
    at = before["trusted_at"]
    return at is None or owners.still_since is None or datetime.fromisoformat(at) <= owners.still_since


def _has_just_moved(owner: str | None, sums: Row, before: Row | None) -> bool:
    """Return True if the owner is new since the last cycle and shows no topic yet, though the bundle had some.

    For up to one stats period after a move no broker's figures have the topics.
    """
    if before is None or sums["topics"]:
        return False
    return (before["topics"] or 0) > 0 and owner != before["last_owner"]


class _Trusted(NamedTuple):
    """The figures that decisions use: measured, else the previous cycle's, else none."""

    figures: Figures
    at: str | None
    reason: str


def _trusted_before(before: Row | None, heir: Heir | None) -> _Trusted:
    if before is not None:
        figures = _USED_IN(before)
        return _Trusted(figures, before["trusted_at"], "unknown" if figures[0] is None else "carried")
    return _Trusted(_UNKNOWN, None, "unknown") if heir is None else _Trusted(heir.figures, heir.trusted_at, "inherited")


# Short- and long-term averages of a bundle by Pulsar's update rule (model.averages).
#
# Pulsar takes samples from the brokers' reports, several times per report. Evenkeel takes the sum over the bundle's
# topics, once per cycle. A bundle without a sample keeps its averages.
#
# Pulsar starts a bundle with a stored resource quota from that quota, with n at its maximum, as if it had a long
# history (ModularLoadManagerImpl.getBundleDataOrDefault). The first sample then counts for a tenth and a thousandth.
# Until that sample, the current quota counts, since Pulsar reads it again at every use.


class _History(NamedTuple):
    """The averages of a bundle as in its row, figures in the order of `RATES`."""

    short_samples: int
    short: tuple[float, ...]
    long_samples: int
    long: tuple[float, ...]
    samples_since_quota: int | None


def _as_in_a_row(history: BundleHistory) -> _History:
    short, long = history.short_term, history.long_term
    return _History(short.samples, _figures(short), long.samples, _figures(long), history.samples_since_quota)


def _figures(averages: MessageAverages) -> tuple[float, ...]:
    return tuple(getattr(averages, figure) for figure in RATES)


_NEVER_SEEN = _as_in_a_row(default_history())
_ASSUMED = tuple(float(getattr(DEFAULT_STATS, figure)) for figure in RATES)
_SHORT_IN, _LONG_IN = (itemgetter(*(f"{term}_{figure}" for figure in RATES)) for term in ("short", "long"))


def _history(before: Row | None, quota: Row | None) -> _History:
    if quota is not None and (before is None or not before["long_samples"] or before["samples_since_quota"] == 0):
        return _as_in_a_row(history_of_quota(BundleStats(**{figure: quota[figure] for figure in RATES})))
    if before is None:
        return _NEVER_SEEN
    return _History(
        before["short_samples"] or 0,
        _known(_SHORT_IN(before)),
        before["long_samples"] or 0,
        _known(_LONG_IN(before)),
        before["samples_since_quota"],
    )


def _known(figures: Figures) -> tuple[float, ...]:
    return tuple([assumed if figure is None else figure for figure, assumed in zip(figures, _ASSUMED, strict=True)])


def _updated(history: _History, sample: tuple[float, ...]) -> _History:
    """The averages after one more sample (see `model.averages.updated`)."""
    short_samples, short = next_means(history.short_samples, SHORT_TERM_SAMPLES, history.short, sample)
    long_samples, long = next_means(history.long_samples, LONG_TERM_SAMPLES, history.long, sample)
    since = None if history.samples_since_quota is None else history.samples_since_quota + 1
    return _History(short_samples, short, long_samples, long, since)
