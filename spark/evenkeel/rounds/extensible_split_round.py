"""Splits of one extensible cluster in one cycle (Pulsar: SplitScheduler, DefaultNamespaceBundleSplitStrategyImpl).

Each broker counts for itself how often in a row its bundles were over a limit, and takes its counts with it when it is
gone. A cycle is one round of every broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.decisions.splitting.cut import BundleTopics
from evenkeel.decisions.splitting.default_namespace_bundle_split_strategy import (
    FAILURES,
    HITS,
    ExtensibleSplits,
    View,
    decide_splits,
    without_gone,
)
from evenkeel.rounds import over_limits, reading, state, wishes
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.shared import acts_only, once
from evenkeel.rounds.split_round import BY_RANGE, chosen_rows, decision_rows, topics_of

STRATEGY = "DefaultNamespaceBundleSplitStrategyImpl"
Hits = dict[tuple[str, str], float]
"""(bundle, the broker that counts) -> rounds in a row."""


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `split_decisions`, for every bundle considered and every wish, and of `strategy_state`.

    `state` holds the predecessor's rows. What a broker that is silent in this cycle has counted is handed on.
    """
    cycle, topics = reading.the_cycle(rows), topics_of(rows)
    made = without_gone(_plan(rows, topics), reading.boundaries(rows))
    splits = {split.bundle: split for split in made.splits}
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {
        "split_decisions": decision_rows(rows, made.considered, splits, topics, STRATEGY),
        "strategy_state": [{**row, **stamp} for row in _state_rows(rows, made)],
    }


def choose(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """The bundles that are to be cut, or wished to be, with their ranges, whose topics have to be looked at."""
    settings = reading.settings_of(rows)
    chosen: dict[str, str | None] = {}
    if settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE:
        due = (row for row in _plan(rows, {}).considered if row.outcome == "split" or row.rule in FAILURES)
        chosen = {row.subject: row.broker for row in due}
    return {"chosen": chosen_rows(chosen | dict(wishes.bundles_to_look_into(rows, settings)))}


def _plan(rows: Rows, topics: Mapping[str, BundleTopics]) -> ExtensibleSplits:
    reports = reading.broker_reports(rows)
    owners = _owners(rows)
    counted = {bundle: hits for (bundle, broker), hits in _hits(rows).items() if owners.get(bundle) == broker}
    view = View(bundle_counts=reading.bundle_counts(rows), topics=topics)
    settings = reading.settings_of(rows)
    if acts_only(rows) and settings.loadBalancerNamespaceBundleSplitConditionHitCountThreshold >= 0:
        reports = over_limits.by_latest(rows, reports, settings, counted)
    return decide_splits(reports, {HITS: counted}, view, settings)


@once
def _owners(rows: Rows) -> dict[str, str]:
    reports = reading.broker_reports(rows)
    return {bundle: broker for broker, report in reports.items() for bundle in report.stats}


def _hits(rows: Rows) -> Hits:
    """What was counted up to the cycle before; the name of a figure tells who counted."""
    named = [(row, row["name"].partition(" of ")) for row in rows["state"] if row["strategy"] == STRATEGY]
    return {(row["subject"], broker): row["value"] for row, (name, _, broker) in named if name == HITS}


def _state_rows(rows: Rows, made: ExtensibleSplits) -> list[dict[str, Any]]:
    reports = reading.broker_reports(rows)
    owners = _owners(rows)
    silent = {row["broker"] for row in rows["broker_load"]} - reports.keys()
    kept: Hits = {(bundle, broker): hits for (bundle, broker), hits in _hits(rows).items() if broker in silent}
    kept |= {(bundle, owners[bundle]): hits for bundle, hits in made.state.get(HITS, {}).items()}
    return [
        dict(state.state_row(STRATEGY, bundle, f"{HITS} of {broker}", value=hits))
        for (bundle, broker), hits in sorted(kept.items())
    ]
