"""The load of one cluster's bundles and brokers in one cycle, and over several cycles in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from evenkeel.aggregate.broker_load import broker_rows, reports_once
from evenkeel.aggregate.bundle_load import Heir, Known, Owners, bundle_rows, bundles_of, namespaces_in_force
from evenkeel.cycle import reading
from evenkeel.cycle.fold import REMEMBERED, STATE, Round, fold
from evenkeel.cycle.loads import forgets_history
from evenkeel.cycle.reading import EXTENSIBLE, Decided, Row, Rows, acts_before
from evenkeel.model.load import RATES
from evenkeel.model.past_commands import PERIODS, owners_seen, unsettled_bundles
from evenkeel.plan_splits.round import SPLITS, decide_for_loads
from evenkeel.settings import settings_in

OUTPUTS = ("bundle_load", "broker_load")
LOADS_BEFORE, SPLITS_BEFORE = "bundle_load_before", "split_decisions_before"
"""Inputs that the previous cycle left."""

REMEMBERING: Final = "5.0"
"""The first generation that keeps a bundle's averages once it has asked for its split."""


def decide(key: Row, rows: Rows) -> Decided:
    """Return rows of `bundle_load`, one per bundle in force, and of `broker_load`, one per broker; by name.

    `rows`, beside the `cycle`: `namespace_bundles` and `bundle_ownership` without rejected records, and all
    `broker_reports`; if there are any, `resource_quotas` without rejected records; `topic_sums`, the sums of each
    bundle's topics (`topic_sums.bundle_sums`); `rejected`, the `name` of brokers and bundles by `rejected_from`;
    `lost_topics`, the bundles that lost a topic to a rejection; `children`, the bundles that recent splits made, each
    with its `parent` and its topics' sums in the previous cycle; and the predecessor's state (`LOADS_BEFORE`,
    `SPLITS_BEFORE`).
    """
    cycle = reading.the_cycle(rows)
    settings = reading.settings_of(rows)
    is_extensible = cycle["manager"] == EXTENSIBLE
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    reports = reports_once(rows["broker_reports"])
    before = {row["bundle"]: row for row in rows.get(LOADS_BEFORE, ())}
    splits = rows.get(SPLITS_BEFORE, ()) if settings.is_before(REMEMBERING) else ()
    at, acts = datetime.fromisoformat(cycle["cycle_at"]), acts_before(cycle)
    known = Known(
        sums={row["bundle"]: row for row in rows.get("topic_sums", ())},
        lost={row["bundle"] for row in rows.get("lost_topics", ())},
        before=before,
        forgotten={row["subject"] for row in splits if forgets_history(row)},
        unsettled=unsettled_bundles(acts, at, settings).keys(),
        heirs=_heirs(rows.get("children", ()), before),
        # The extensible manager knows no quotas.
        quotas={} if is_extensible else {row["bundle"]: row for row in rows.get("resource_quotas", ())},
    )
    namespaces = namespaces_in_force(rows["namespace_bundles"], rows["bundle_ownership"])
    in_force = [bundle for namespace, edges in namespaces for bundle in bundles_of(namespace, edges)]
    still_since = at - timedelta(seconds=PERIODS * settings.statsUpdateFrequencyInSecs)
    owners = _owners(rows, reports, owners_seen(acts, at, settings), still_since)
    loads = bundle_rows(stamp, in_force, owners, known)
    refused = _refused(rows, "broker_reports")
    brokers = broker_rows(stamp, reports, refused, loads, settings, is_extensible=is_extensible)
    return {"bundle_load": loads, "broker_load": brokers}


def _owners(rows: Rows, reports: Iterable[Row], seen: Mapping[str, str], still_since: datetime) -> Owners:
    """Return the owners of a cycle. `seen` counts for listed brokers, if no broker listed its bundles now."""
    claims: dict[str, list[Row]] = {}
    for claim in rows["bundle_ownership"]:
        claims.setdefault(claim["bundle"], []).append(claim)
    listed = [report for report in reports if report["is_listed"]]
    names = {report["broker"] for report in listed}
    lags = all(claim.get("is_active") is None for claim in rows["bundle_ownership"])
    lists_came = bool(listed) and all(report["owned_bundles"] is not None for report in listed)
    answered = {report["broker"] for report in reports if report["has_topic_figures"]}
    return Owners(
        claims,
        lists_came=lists_came,
        answered=answered,
        refused=_refused(rows, "bundle_ownership"),
        reporting=names if lags and lists_came and names <= answered else frozenset(),
        seen={bundle: broker for bundle, broker in seen.items() if lags and broker in names},
        still_since=still_since,
    )


def _refused(rows: Rows, table: str) -> set[str]:
    return {row["name"] for row in rows.get("rejected", ()) if row["rejected_from"] == table}


def _heirs(children: Iterable[Row], before: Mapping[str, Row]) -> dict[str, Heir]:
    """Return the figures that children inherit from their parents.

    A child inherits nothing if it has its own row in the previous cycle, or if its parent's figures were untrusted
    then.
    """
    heirs = {}
    for child in children:
        parent = before.get(child["parent"])
        if parent is not None and parent["used_reason"] == "measured" and child["bundle"] not in before:
            figures = tuple(0.0 if child[figure] is None else child[figure] for figure in RATES)
            heirs[child["bundle"]] = Heir(figures, parent["trusted_at"])
    return heirs


LOADS = Round(decide, OUTPUTS, is_read_back=False, carries={LOADS_BEFORE: "bundle_load"})
SPLITS_AHEAD = replace(
    SPLITS,
    decide=decide_for_loads,
    carries={SPLITS_BEFORE: "split_decisions", STATE: REMEMBERED},
    ahead_of="plan_splits",
)


def decide_cycles(key: Row, rows: Rows) -> Decided:
    """Make the loads of every cycle of a cluster (`fold`); `rows` of a window also hold the inputs of the split rule.

    Pulsar before 5.0 resets the averages of a bundle when it splits it. The split itself depends on the averages of the
    previous cycle, so the fold runs the split rule between two cycles. Pulsar 5.0 needs no splits.
    """
    texts = {cycle["settings"] for cycle in rows["cycle"]} - {None}
    forgets = any(settings_in(text).is_before(REMEMBERING) for text in texts)
    return fold((LOADS, SPLITS_AHEAD) if forgets else (LOADS,), key, rows)
