"""The planner's input from rows: the brokers and bundles of one cluster in one cycle.

It reads the rows that the shedding rounds read. Manual requests and drains come before the plan and use its budgets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from evenkeel.cycle import reading
from evenkeel.cycle.fold import PLANNER
from evenkeel.cycle.reading import Row, Rows
from evenkeel.manual_requests.drain import Drained, drained
from evenkeel.manual_requests.request import Granted
from evenkeel.manual_requests.round import granted_unloads, unloaded_by
from evenkeel.model.consideration import Considered
from evenkeel.model.filters.isolation import draining
from evenkeel.model.load import BrokerReport
from evenkeel.model.past_commands import Act, Settling, unsettled_brokers, unsettled_bundles
from evenkeel.planner.allowed_moves import Held, Places, moves_of
from evenkeel.planner.memory import part_name
from evenkeel.planner.verdicts import EMPTIED, SILENT
from evenkeel.planner.view import (
    ANTI_AFFINITY,
    DAY,
    OWN_NAMESPACE,
    BundleFigures,
    PlannerBroker,
    PlannerBundle,
    PlannerView,
    Spent,
)
from evenkeel.settings import Settings
from evenkeel.settings.parsing import is_within

_MOST_PERCENT = 100.0
_LEAST_USAGE = 0.001
"""A broker that has just started reports less than this fraction of a resource, whatever it carries: it has not yet
measured it."""
_TOPICS_OF_A_PART = 4
"""With fewer topics in each part of a split, one of them may be nearly all of the bundle: then nothing is predicted."""
_FEWEST_SAMPLES = 3
"""Averages of fewer samples do not show how steady the load is."""


@dataclass(frozen=True)
class _Cycle:
    """The rows that the shedding rounds read, and values that several parts of the view share.

    `leaving`: brokers that are emptied; `unsettled`: bundle -> the event that its owner waits for.
    """

    rows: Rows
    settings: Settings
    row: Row
    at: datetime
    acts: Sequence[Act]
    reports: Mapping[str, BrokerReport]
    leaving: frozenset[str]
    unsettled: Mapping[str, Settling]

    @classmethod
    def of(cls, rows: Rows, settings: Settings) -> _Cycle:
        row = reading.the_cycle(rows)
        at, acts = datetime.fromisoformat(row["cycle_at"]), reading.acts_before(row)
        reports, unsettled = reading.broker_reports(rows), unsettled_bundles(acts, at, settings)
        return cls(rows, settings, row, at, acts, reports, draining(reports, settings), unsettled)


def view_of(rows: Rows, settings: Settings) -> tuple[PlannerView, list[Considered]]:
    """Return the planner's view, and verdicts on brokers that are not part of it."""
    cycle = _Cycle.of(rows, settings)
    blurred = unsettled_brokers(cycle.acts, cycle.at, settings)
    moment = reading.moment_of_ages(cycle.row)
    has_unsettled = {row["owner"] for row in rows["bundle_load"] if row["bundle"] in cycle.unsettled}
    brokers, apart = {}, []
    for row in reading.usable_reports(rows):
        name = row["broker"]
        if name in cycle.leaving:
            apart.append(EMPTIED.about_broker(name, setting="evenkeelDrainingBrokers"))
        elif row.get("is_listed") is False:
            continue
        elif _is_too_old(row, moment, settings):
            apart.append(SILENT.about_broker(name))
        else:
            waits = name in blurred and blurred[name].until is None
            is_settled = name not in blurred and name not in has_unsettled
            brokers[name] = PlannerBroker(name, _usages(row, settings), is_settled, waits)
    silent = sorted(row["broker"] for row in rows["broker_load"] if row["broker"] not in cycle.reports)
    apart += [SILENT.about_broker(name) for name in silent]
    bundles, spent, traffic = _bundles(cycle, brokers.keys())
    view = PlannerView(
        at=cycle.at,
        brokers=brokers,
        bundles=bundles,
        spent=spent,
        stopped=_stopped(cycle, len(brokers), len(silent)),
        traffic=traffic,
        moved=frozenset(
            (act.cycle_at, broker)
            for act in cycle.acts
            for broker in (act.from_broker, act.destination)
            if act.kind == "unload" and act.outcome == "done" and broker is not None
        ),
        usage_settles_minutes=2.0 * settings.loadBalancerHostUsageCheckIntervalMinutes,
        refused_splits=frozenset(
            row["subject"]
            for row in rows["split_decisions"]
            if row.get("strategy") == PLANNER and row["outcome"] == "refused"
        ),
        has_averages=_has_averages(rows["bundle_load"]),
    )
    return view, sorted(apart, key=lambda verdict: verdict.subject)


def _has_averages(bundles: Sequence[Row]) -> bool:
    """Return True if at least half of the bundles with averages have enough samples."""
    samples = [int(row["short_samples"]) for row in bundles if row["short_samples"] > 0]
    known = sum(sample >= _FEWEST_SAMPLES for sample in samples)
    return known > 0 and 2 * known >= len(samples)


def _is_too_old(report: Row, at: datetime, settings: Settings) -> bool:
    age = reading.report_age(report, at)
    return age is not None and age > settings.evenkeelMaxReportAgeSeconds


def _usages(report: Row, settings: Settings) -> dict[str, float]:
    """Resource -> weighted usage (fraction), of those that count and are known."""
    weights = {
        "cpu": settings.loadBalancerCPUResourceWeight,
        "memory": settings.loadBalancerMemoryResourceWeight if settings.manager == reading.EXTENSIBLE else 0.0,
        "direct_memory": settings.loadBalancerDirectMemoryResourceWeight,
        "bandwidth_in": settings.bandwidth_in_weight,
        "bandwidth_out": settings.bandwidth_out_weight,
    }
    usages = {}
    for name, weight in weights.items():
        usage, limit = report[f"{name}_usage"], report[f"{name}_limit"]
        if usage is None or limit is None or not limit > 0 or not weight > 0:
            continue
        share = weight * usage / limit
        if math.isfinite(share) and usage / limit >= _LEAST_USAGE:
            usages[name] = share
    return usages


def _stopped(cycle: _Cycle, brokers: int, silent: int) -> str | None:
    """Return the rule by which nothing may move now, as the guards apply it."""
    rows, settings = cycle.rows, cycle.settings
    if not settings.evenkeelSheddingEnabled:
        return "switched_off"
    if brokers < 2:
        return "too_few_brokers"
    if not settings.evenkeelGuardsEnabled:
        return None
    if reading.pauses(cycle.row):
        return "paused"
    windows, utc = settings.evenkeelMaintenanceWindows, cycle.at.astimezone(UTC)
    if windows and not is_within(utc.hour * 60 + utc.minute, windows):
        return "outside_maintenance_windows"
    listed = brokers + silent
    if 100.0 * brokers < settings.evenkeelMinReportedBrokersPercent * listed:
        return "too_many_silent_brokers"
    if 0 <= settings.evenkeelMaxSilentBrokers < silent:
        return "too_many_silent_brokers"
    every = len(rows["bundle_load"])
    unclear = sum(
        row["ownership"] in reading.UNCLEAR and row["bundle"] not in cycle.unsettled for row in rows["bundle_load"]
    )
    if 100.0 * unclear > settings.evenkeelMaxUnclearOwnershipPercent * every:
        return "ownership_unclear"
    return None


def _bundles(cycle: _Cycle, taking: Iterable[str]) -> tuple[list[PlannerBundle], Spent, float]:
    """Return the view's bundles, the budgets used by manual requests and drains, and the traffic of all bundles."""
    rows, settings, at, leaving = cycle.rows, cycle.settings, cycle.at, cycle.leaving
    receivers = frozenset(taking)
    places = Places(rows, settings, receivers, cycle.reports)
    moves = moves_of(cycle.acts, at, settings)
    wished = granted_unloads(rows)
    asked = unloaded_by(wished)
    drain = drained(rows, settings, asked)
    held = Held(rows, settings, at, cycle.unsettled, asked | drain.leaving, moves)
    window = timedelta(minutes=max(settings.evenkeelPlannerReturnWindowMinutes, settings.evenkeelBounceWindowMinutes))
    loads = [(row, bundle_figures(row)) for row in rows["bundle_load"]]
    traffic = {row["bundle"]: latest.traffic for row, latest in loads}
    whole = math.fsum(traffic.values())
    too_heavy = _too_heavy(whole, settings)
    children = {row["subject"]: row for row in rows["split_decisions"] if row["outcome"] == "split" and row["children"]}
    bundles: list[PlannerBundle] = []
    broken: dict[str, list[tuple[int, float, str]]] = {}
    for row, latest in sorted(loads, key=lambda load: str(load[0]["bundle"])):
        bundle, owner = row["bundle"], row["owner"]
        is_lost = owner is None and row["ownership"] == "unowned" and row["last_owner"] is not None
        if owner not in receivers and owner not in leaving and not is_lost:
            continue
        group = places.group(bundle)
        why = held.why(row)
        split = children.get(bundle) if why == "split" and group is None and owner in receivers else None
        shares = _shares(split) if split else []
        is_foretold = split and (shares or (row["topics"] or 0) >= _TOPICS_OF_A_PART * len(split["children"]))
        why = (None if is_foretold else why) or ("bundle_too_heavy" if traffic[bundle] > too_heavy else None)
        if is_lost and (why == OWN_NAMESPACE or group is not None):
            continue
        may_go = places.of(bundle, owner if owner in receivers else None)
        breach, by = places.breach(bundle, owner, may_go) if owner in receivers and may_go else (None, 0)
        if owner in leaving:
            why = why or "wished"
        elif owner is not None and why is None:
            if len(places.allowed(bundle) - {owner}) == 0:
                why = "no_other_broker"
            elif not may_go:
                why = "anti_affinity_even"
        past = moves.get(bundle, ())
        one = PlannerBundle(
            bundle,
            owner,
            latest,
            bundle_figures(row, _AVERAGE) if row["short_samples"] > 0 else latest,
            float((row["consumers"] or 0) + (row["producers"] or 0)),
            row["topics"] or 0,
            may_go,
            frozenset() if group is None else places.allowed(bundle),
            breach,
            frozenset(broker for broker, moved_at in past if at - moved_at < window),
            frozenset(broker for broker, moved_at in past if at - moved_at < DAY),
            why,
            group,
            children=tuple(split["children"]) if split else (),
        )
        if breach == ANTI_AFFINITY and why is None and group is not None:
            broken.setdefault(group, []).append((-by, latest.traffic, bundle))
        bundles += _parts_of(one, split, shares) if split and is_foretold else [one]
    # One bundle of a group moves at a time.
    first = {min(breaches)[-1] for breaches in broken.values()}
    bundles = [
        replace(one, breach=None) if one.breach == ANTI_AFFINITY and one.name not in first else one for one in bundles
    ]
    return bundles, _spent(_granted(wished, drain), traffic), whole


def _granted(wished: Iterable[tuple[Row, Granted]], drain: Drained) -> Iterator[tuple[str, str | None, str | None]]:
    """Unloads that come before the plan: bundle, broker, destination."""
    for _, unload in wished:
        if unload.accepted and unload.verdict.subject_kind == "bundle":
            to = next((other.name for other in unload.verdict.alternatives if other.verdict == "best"), None)
            yield unload.verdict.subject, unload.verdict.broker, to
    for verdict in drain.verdicts:
        if verdict.subject in drain.leaving:
            yield verdict.subject, verdict.broker, None


def _shares(split: Row) -> list[float]:
    """Return each child's part of its bundle's load, if the planner chose the cut; else empty."""
    numbers = split.get("numbers") or {}
    names = [part_name(number) for number in range(1, len(split["children"]) + 1)]
    return [numbers[name] for name in names] if all(name in numbers for name in names) else []


def _parts_of(whole: PlannerBundle, split: Row, shares: Sequence[float]) -> list[PlannerBundle]:
    """Return the parts of a bundle that is split in this cycle, each with its share or with an equal one.

    Parts that are unloaded go to the broker that their clients' lookups get.
    """
    children = split["children"]

    def part_of(figures: BundleFigures, number: int) -> BundleFigures:
        return figures.share(shares[number - 1]) if shares else figures.part(len(children))

    return [
        replace(
            whole,
            name=child,
            owner=None if split["unload_children"] else whole.owner,
            figures=part_of(whole.figures, number),
            average=part_of(whole.average, number),
            sessions=whole.sessions / len(children),
            topics=math.ceil(whole.topics / len(children)),
            part=number,
            carried_by=whole.owner,
            children=(),
        )
        for number, child in enumerate(children, start=1)
    ]


def _spent(granted: Iterable[tuple[str, str | None, str | None]], traffic: Mapping[str, float]) -> Spent:
    """Return the budgets used by unloads (bundle, broker, destination) that come first."""
    every = [*granted]
    return Spent(
        len(every),
        math.fsum(traffic.get(bundle, 0.0) for bundle, _, _ in every),
        Counter(broker for _, broker, _ in every if broker is not None),
        Counter(target for _, _, target in every if target is not None),
        sum(target is None for _, _, target in every),
    )


def _too_heavy(whole: float, settings: Settings) -> float:
    """The traffic above which a bundle is never moved."""
    most = settings.evenkeelMaxBundleTrafficPercent
    if not settings.evenkeelGuardsEnabled or most >= _MOST_PERCENT:
        return math.inf
    return most * whole / 100.0 if most > 0 else -1.0


_FIGURES = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
_LATEST, _AVERAGE = (itemgetter(*(f"{term}_{name}" for name in _FIGURES)) for term in ("used", "short"))


def bundle_figures(row: Row, figures: Callable[[Row], tuple[float | None, ...]] = _LATEST) -> BundleFigures:
    """Return a bundle's traffic; unknown figures and not-a-number count as 0."""
    came_in, out, rate_in, rate_out = figures(row)
    return BundleFigures(_counted(came_in), _counted(out), _counted(rate_in) + _counted(rate_out))


def _counted(value: float | None) -> float:
    return value if value is not None and 0.0 < value < math.inf else 0.0
