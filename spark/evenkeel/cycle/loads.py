"""The load of a cluster as shedding and placement see it."""

from __future__ import annotations

from collections.abc import Callable

from evenkeel.cycle import reading
from evenkeel.cycle.memo import once_for
from evenkeel.cycle.reading import Row, Rows
from evenkeel.cycle.state import PLANNER
from evenkeel.model.filters.ownership import Owned
from evenkeel.model.filters.ownership import owned_of as owned_by_namespace
from evenkeel.model.load import LoadData
from evenkeel.model.split_algorithms.split_option import NO_CUT

# Pulsar asked for the split and got none: by then the history was gone.
FORGOTTEN_THOUGH_REFUSED = frozenset({"cut_outside_bundle", *NO_CUT})


LOOKED_AT = ("split", "refused")
"""The outcomes in `split_decisions` after which the rounds that follow see a bundle with other eyes; of all other
bundles considered, which are most, they want to know nothing."""


def looked_at(split_decision: Row) -> bool:
    """Whether shedding, placement and the planner look at a row of `split_decisions`."""
    return split_decision["outcome"] in LOOKED_AT


def forgets_history(split_decision: Row) -> bool:
    """Whether Pulsar 4.x forgets the averages of the bundle: it asked for the split, whether it is split or not.

    From 5.0 on it forgets only what is split, and then the bundle is not there any more; so it is with splits that
    Evenkeel's own planner asks for, since the load manager has no part in them.
    """
    if split_decision.get("strategy") == PLANNER:
        return False
    return split_decision["outcome"] == "split" or split_decision["rule"] in FORGOTTEN_THOUGH_REFUSED


def load_of(rows: Rows) -> LoadData:
    """Reports, histories and averages; a bundle that a split was asked for has lost its history, as in Pulsar 4.x."""
    gone = frozenset(row["subject"] for row in rows["split_decisions"] if forgets_history(row))
    return once_for(rows, ("load without", gone), lambda: _load_without(gone, rows))


def _load_without(gone: frozenset[str], rows: Rows) -> LoadData:
    brokers, known = reading.broker_reports(rows), reading.histories(rows)
    if gone:
        known = known.without(gone)
    return LoadData(brokers=brokers, histories=known, averages=reading.averages_of(brokers, known))


def owned_of(rows: Rows, load: LoadData) -> Callable[[], Owned]:
    """What gives the bundles by namespace and broker, once for all rounds that ask."""
    return lambda: once_for(rows, owned_by_namespace, lambda: owned_by_namespace(load))
