"""The load of one cluster's bundles and brokers in one cycle, and over several cycles in their order.

A cycle's averages begin anew where the cycle before asked for a split (Pulsar 4.x), and that split was decided on the
averages of the cycle before: so whoever goes over several cycles has to ask the split rule in between (`fold`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from evenkeel.aggregate.broker_load import broker_rows, reports_once
from evenkeel.aggregate.bundle_load import Heir, Known, Owners, bundle_rows
from evenkeel.aggregate.bundles_in_force import bundles_of, namespaces_in_force
from evenkeel.lake.plain_rows import as_read
from evenkeel.model.load import RATES
from evenkeel.model.past_commands import PERIODS, owners_seen, unsettled_bundles
from evenkeel.rounds import reading
from evenkeel.rounds.loads import forgets_history
from evenkeel.rounds.reading import EXTENSIBLE, Decided, Row, Rows, acts_before

OUTPUTS = ("bundle_load", "broker_load")
LOADS_BEFORE, SPLITS_BEFORE, STATE = "bundle_load_before", "split_decisions_before", "state"
LEFT_BEFORE = (LOADS_BEFORE, SPLITS_BEFORE, STATE)
"""Inputs that the cycle before left."""

FORGETTING = "4.x"
"""The generation that forgets a bundle's averages once it has asked for its split."""

SplitRule = Callable[[Row, Rows], Mapping[str, Sequence[Row]]]
"""`plan_splits.round.decide`: rows of `split_decisions` and `strategy_state`."""


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `bundle_load`, one per bundle in force, and of `broker_load`, one per broker; by name.

    `rows`, beside the `cycle`: `namespace_bundles` and `bundle_ownership` without rejected records, and all
    `broker_reports`; if there are any, `resource_quotas` without rejected records; `topic_sums`, what a bundle's topics
    come to (`topic_sums.bundle_sums`); `rejected`, the `name` of brokers and bundles by `rejected_from`; `lost_topics`,
    the bundles that lost a topic to a rejection; `children`, what splits of late have made, each with its `parent` and
    what its topics came to in the cycle before; and what the predecessor left (`LEFT_BEFORE`).
    """
    cycle = reading.the_cycle(rows)
    settings = reading.settings_of(rows)
    is_extensible = cycle["manager"] == EXTENSIBLE
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    reports = reports_once(rows["broker_reports"])
    before = {row["bundle"]: row for row in rows.get(LOADS_BEFORE, ())}
    splits = rows.get(SPLITS_BEFORE, ()) if settings.generation == FORGETTING else ()
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
    """The owners of a cycle. `seen` counts for listed brokers, if no broker listed what it owns now."""
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
    """A child inherits nothing where it has a row of its own in the cycle before, or where its parent's figures were
    not trusted there either."""
    found = {}
    for child in children:
        parent = before.get(child["parent"])
        if parent is not None and parent["used_reason"] == "measured" and child["bundle"] not in before:
            figures = tuple(0.0 if child[figure] is None else child[figure] for figure in RATES)
            found[child["bundle"]] = Heir(figures, parent["trusted_at"])
    return found


# Several cycles of a cluster, one after the other.


def fold(key: Row, rows: Rows, split_rule: SplitRule) -> Decided:
    """The rows of several cycles of a cluster, in order of time; of one cycle they are those of `decide`.

    `rows` are as for `decide`, of all these cycles, with what the split rule looks at (its `state` too). What a cycle's
    predecessor left is taken from the rows where they hold rows of its `cycle_at`, else from this fold.
    """
    made: Decided = {table: [] for table in OUTPUTS}
    for _, found in folded(key, rows, split_rule):
        for table in OUTPUTS:
            made[table] += found[table]
    return made


def folded(key: Row, rows: Rows, split_rule: SplitRule) -> Iterator[tuple[str, Decided]]:
    """What `fold` gives, cycle by cycle with its `cycle_at`: not all of it has to be held at once, and an error in one
    cycle leaves those before it."""
    cycles = sorted(rows["cycle"], key=lambda cycle: str(cycle["cycle_at"]))
    own = {kind: _by_cycle(found) for kind, found in rows.items() if kind not in LEFT_BEFORE}
    recorded = {kind: _by_cycle(rows.get(kind, ())) for kind in LEFT_BEFORE}
    on_record = set().union(*recorded.values())
    # Who forgets nothing need not know what is split.
    forgets = any(reading.settings_of({"cycle": [cycle]}).generation == FORGETTING for cycle in cycles)
    followers = Counter(cycle["predecessor_cycle_at"] for cycle in cycles)
    left: dict[str, Rows] = {}
    for cycle in cycles:
        at, before_at = cycle["cycle_at"], cycle["predecessor_cycle_at"]
        of_cycle = {kind: found.get(at, ()) for kind, found in own.items()}
        before: Rows = {kind: found.get(before_at, ()) for kind, found in recorded.items()}
        if before_at not in on_record:
            before = left.get(before_at, before)
        followers[before_at] -= 1
        if not followers[before_at]:
            left.pop(before_at, None)
        found = decide(key, {**of_cycle, **before})
        if followers[at] and at not in on_record:
            decided = split_rule(key, {**of_cycle, **found, STATE: before[STATE]}) if forgets else {}
            left[at] = _left(found, decided)
        yield at, found


def _left(loads: Rows, decided: Rows) -> Rows:
    """What the next cycle takes over, as it would be read back; loads are given in that form."""
    return {
        LOADS_BEFORE: loads["bundle_load"],
        SPLITS_BEFORE: [row for row in decided.get("split_decisions", ()) if forgets_history(row)],
        STATE: [as_read("strategy_state", row) for row in decided.get("strategy_state", ())],
    }


def _by_cycle(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cycle_at"], []).append(row)
    return found
