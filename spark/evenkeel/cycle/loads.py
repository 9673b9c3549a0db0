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

# Pulsar requested the split and got none: it had already dropped the history.
FORGOTTEN_THOUGH_REFUSED = frozenset({"cut_outside_bundle", *NO_CUT})


LOOKED_AT = ("split", "refused")
"""Outcomes in `split_decisions` after which later rounds treat a bundle differently; they ignore all other considered
bundles, which are most."""


def looked_at(split_decision: Row) -> bool:
    """Return True if shedding, placement and the planner read a row of `split_decisions`."""
    return split_decision["outcome"] in LOOKED_AT


def forgets_history(split_decision: Row) -> bool:
    """Return True if Pulsar 4.x forgets the averages of the bundle: it requested the split, whether or not it is done.

    From 5.0 on it forgets only split bundles, and these no longer exist. The same holds for splits by Evenkeel's own
    planner, since the load manager takes no part in them.
    """
    if split_decision.get("strategy") == PLANNER:
        return False
    return split_decision["outcome"] == "split" or split_decision["rule"] in FORGOTTEN_THOUGH_REFUSED


def load_of(rows: Rows) -> LoadData:
    """Return reports, histories and averages; a bundle with a requested split has lost its history, as in Pulsar
    4.x."""
    forgotten = frozenset(row["subject"] for row in rows["split_decisions"] if forgets_history(row))
    return once_for(rows, ("load without", forgotten), lambda: _load_without(forgotten, rows))


def _load_without(forgotten: frozenset[str], rows: Rows) -> LoadData:
    brokers, known = reading.broker_reports(rows), reading.histories(rows)
    if forgotten:
        known = known.without(forgotten)
    return LoadData(brokers=brokers, histories=known, averages=reading.averages_of(brokers, known))


def owned_of(rows: Rows, load: LoadData) -> Callable[[], Owned]:
    """Return a function that gives the bundles by namespace and broker, computed once for all rounds."""
    return lambda: once_for(rows, owned_by_namespace, lambda: owned_by_namespace(load))
