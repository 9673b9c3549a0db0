"""The planner's round: rows of one cluster in one cycle in, rows of its tables out.

Reads what the rounds of shedding read; wishes and drains come before it and count in its budgets. It plans with every
setting but `off`; whether it decides is for shedding and placement to ask (`decides`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from evenkeel.filters.anti_affinity import AntiAffinity
from evenkeel.filters.broker_filters import newest
from evenkeel.filters.isolation import Isolation, draining
from evenkeel.filters.ownership import Ownership
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.manual_requests.drain import drained
from evenkeel.manual_requests.round import granted_unloads, unloaded_by
from evenkeel.model.bundles import is_heartbeat_or_sla, is_system, namespace_of, range_of
from evenkeel.model.considered import Considered
from evenkeel.model.load import BrokerReport, Policies
from evenkeel.model.past_commands import (
    Act,
    Settling,
    act_of,
    past_moves,
    unsettled_brokers,
    unsettled_bundles,
)
from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.findings import findings
from evenkeel.planner.memory import part_name
from evenkeel.planner.plan import PlannerPlan, plan
from evenkeel.planner.remembered import STRATEGY, memory_of, rows_of
from evenkeel.planner.usage_model import FEWEST_SAMPLES, MOST_ERROR, BrokerModel
from evenkeel.planner.verdicts import EMPTIED, SILENT, PlannerVerdict, verdicts
from evenkeel.planner.view import (
    NETWORK,
    OWN_NAMESPACE,
    BundleFigures,
    PlannerBroker,
    PlannerBundle,
    PlannerView,
    Spent,
)
from evenkeel.rounds import reading
from evenkeel.rounds.memo import acts_only
from evenkeel.rounds.reading import Decided, Row, Rows
from evenkeel.rounds.reasons import named, reason_row
from evenkeel.settings import Settings
from evenkeel.settings.parsing import is_within

TABLES = PLANNER_TABLES
TARGETS, MODELS, FINDINGS = TABLES
OFF, SHADOW, ON = "off", "shadow", "on"
_DAY = timedelta(days=1)
_MOST_PERCENT = 100.0
_LEAST_USAGE = 0.001
"""A broker that has just started reports less than this fraction of a resource, whatever it carries: it has not yet
measured it."""
_TOPICS_OF_A_PART = 4
"""With fewer topics in each part of a split one of them may be nearly all of the bundle: then nothing is foretold."""


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `TABLES` and of `strategy_state`; none of all with evenkeelPlanner off."""
    settings = reading.settings_of(rows)
    if settings.evenkeelPlanner == OFF:
        return {**{table: [] for table in TABLES}, "strategy_state": []}
    cycle = reading.the_cycle(rows)
    view, apart = view_of(rows, settings)
    made = plan(view, memory_of(rows.get("state", ())), settings)
    told = _told(verdicts(view, made, settings, apart), rows)
    found = {
        TARGETS: [_target_row(one, cycle["cluster"]) for one in told],
        MODELS: [] if acts_only(rows) else model_rows(made),
        FINDINGS: [] if acts_only(rows) else [_reason(one, cycle["cluster"]) for one in findings(view, made, settings)],
        "strategy_state": rows_of(made.memory),
    }
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {table: [{**row, **stamp} for row in own] for table, own in found.items()}


def decides(rows: Rows, settings: Settings) -> bool:
    """Whether the planner decides what is unloaded in this cycle, and not the strategy in force."""
    if settings.evenkeelPlanner != ON:
        return False
    return any(row["subject_kind"] == "cluster" and row["outcome"] != "skipped" for row in rows.get(TARGETS, ()))


def _told(found: list[PlannerVerdict], rows: Rows) -> list[PlannerVerdict]:
    """The verdicts to be recorded: where acts alone are told of, the cluster's and what happens."""
    if not acts_only(rows):
        return found
    return [
        one
        for one in found
        if one.considered.outcome in ("unload", "placed") or one.considered.subject_kind == "cluster"
    ]


def _target_row(one: PlannerVerdict, cluster: str) -> dict[str, Any]:
    return {
        **_reason(one.considered, cluster),
        "destination": one.destination,
        "position": one.position,
        "gain": one.gain,
        "cost": one.cost,
        "needs_split": one.needs_split,
        "basis": one.basis,
    }


def _reason(verdict: Considered, cluster: str) -> dict[str, Any]:
    return reason_row(named(verdict, cluster), STRATEGY)


def model_rows(made: PlannerPlan) -> list[dict[str, Any]]:
    """Rows of `planner_models`: broker and resource."""
    figures = made.figures
    if figures is None:
        return []
    return [
        _model_row(broker, resource, figures.models[resource][broker], figures)
        for broker in sorted(figures.usage)
        for resource in figures.resources
    ]


def _model_row(broker: str, resource: str, model: BrokerModel, figures: PlannerFigures) -> dict[str, Any]:
    sums, tried = model.sums, model.sums.tried > 0
    error = sums.error / sums.tried if tried else None
    mean_error = sums.mean_error / sums.tried if tried else None
    return {
        "broker": broker,
        "resource": resource,
        "base": model.line.base,
        "slope": model.line.slope,
        "regressor": "byte/s" if resource in NETWORK else "byte/s and messages",
        "error": error,
        "mean_error": mean_error,
        "samples": int(sums.samples),
        "is_used": model.is_used,
        "sentence": _model_words(broker, resource, model, error, mean_error, figures),
    }


def _model_words(
    broker: str, resource: str, model: BrokerModel, error: float | None, mean: float | None, figures: PlannerFigures
) -> str:
    name = resource.replace("_", " ")
    if figures.is_by_traffic:
        return f"{broker}: no usage is known, so traffic alone counts."
    if model.is_alike:
        return f"{broker}, {name}: one line, with a base, explains the usage of all brokers; it is used."
    if error is None or mean is None or model.sums.samples < FEWEST_SAMPLES:
        return (
            f"{broker}, {name}: {model.sums.samples:.0f} settled cycles are too few for a fit; usage counts in "
            "proportion to traffic."
        )
    compared = f"the fit was off by {100 * error:.1f} points, the mean by {100 * mean:.1f}"
    if model.is_used:
        return f"{broker}, {name}: {compared}; the fit is used."
    return (
        f"{broker}, {name}: {compared}; a fit is used at {MOST_ERROR} times the mean's error or less, and no more "
        "than that of traffic's share, so usage counts in proportion to traffic."
    )


# From rows to the view.


def view_of(rows: Rows, settings: Settings) -> tuple[PlannerView, list[Considered]]:
    """What the planner sees, and verdicts on brokers that are not part of it."""
    cycle = reading.the_cycle(rows)
    at = datetime.fromisoformat(cycle["cycle_at"])
    acts = reading.acts_before(cycle)
    reports = reading.broker_reports(rows)
    leaving = draining(reports, settings)
    blurred = unsettled_brokers(acts, at, settings)
    moment = reading.moment_of_ages(cycle)
    unsettled = unsettled_bundles(acts, at, settings)
    has_unsettled = {row["owner"] for row in rows["bundle_load"] if row["bundle"] in unsettled}
    brokers, apart = {}, []
    for row in reading.usable_reports(rows):
        name = row["broker"]
        if name in leaving:
            apart.append(EMPTIED.about_broker(name, setting="evenkeelDrainingBrokers"))
        elif row.get("is_listed") is False:
            continue
        elif _is_too_old(row, moment, settings):
            apart.append(SILENT.about_broker(name))
        else:
            waits = name in blurred and blurred[name].until is None
            is_settled = name not in blurred and name not in has_unsettled
            brokers[name] = PlannerBroker(name, _usages(row, settings), is_settled, waits)
    silent = sorted(row["broker"] for row in rows["broker_load"] if row["broker"] not in reports)
    apart += [SILENT.about_broker(name) for name in silent]
    bundles, spent, traffic = _bundles(rows, settings, brokers.keys(), leaving, reports, at, acts)
    view = PlannerView(
        at=at,
        brokers=brokers,
        bundles=bundles,
        spent=spent,
        stopped=_stopped(rows, cycle, settings, at, len(brokers), len(silent), unsettled),
        traffic=traffic,
        moved=frozenset(
            (act.cycle_at, act.from_broker)
            for act in acts
            if act.kind == "unload" and act.outcome == "done" and act.from_broker is not None
        ),
        usage_settles_minutes=2.0 * settings.loadBalancerHostUsageCheckIntervalMinutes,
        refused_splits=frozenset(
            row["subject"]
            for row in rows["split_decisions"]
            if row.get("strategy") == STRATEGY and row["outcome"] == "refused"
        ),
    )
    return view, sorted(apart, key=lambda one: one.subject)


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
    found = {}
    for name, weight in weights.items():
        usage, limit = report[f"{name}_usage"], report[f"{name}_limit"]
        if usage is None or limit is None or not limit > 0 or not weight > 0:
            continue
        share = weight * usage / limit
        if math.isfinite(share) and usage / limit >= _LEAST_USAGE:
            found[name] = share
    return found


def _stopped(
    rows: Rows,
    cycle: Row,
    settings: Settings,
    at: datetime,
    brokers: int,
    silent: int,
    unsettled: Mapping[str, Settling],
) -> str | None:
    """Why nothing at all may be moved now, as the guards would say as well."""
    if not settings.evenkeelSheddingEnabled:
        return "switched_off"
    if brokers < 2:
        return "too_few_brokers"
    if not settings.evenkeelGuardsEnabled:
        return None
    if reading.pauses(cycle):
        return "paused"
    windows, utc = settings.evenkeelMaintenanceWindows, at.astimezone(UTC)
    if windows and not is_within(utc.hour * 60 + utc.minute, windows):
        return "outside_maintenance_windows"
    listed = brokers + silent
    if 100.0 * brokers < settings.evenkeelMinReportedBrokersPercent * listed:
        return "too_many_silent_brokers"
    if 0 <= settings.evenkeelMaxSilentBrokers < silent:
        return "too_many_silent_brokers"
    every = len(rows["bundle_load"])
    unclear = sum(row["ownership"] in reading.UNCLEAR and row["bundle"] not in unsettled for row in rows["bundle_load"])
    if every and 100.0 * unclear > settings.evenkeelMaxUnclearOwnershipPercent * every:
        return "ownership_unclear"
    return None


class _Places:
    """Which brokers may have a bundle, and whether anti-affinity lets it go; alike bundles share their answer."""

    def __init__(
        self, rows: Rows, settings: Settings, taking: Iterable[str], reports: Mapping[str, BrokerReport]
    ) -> None:
        self._policies: Policies = reading.policies(rows)
        is_extensible = reading.the_cycle(rows)["manager"] == reading.EXTENSIBLE
        self._isolation = Isolation(self._policies, reports, settings)
        self._fit = self._fitting(taking, reports, settings, is_extensible)
        self._is_extensible = is_extensible
        self._answers: dict[tuple[str | None, bool], tuple[frozenset[str], frozenset[str]]] = {}
        owned: dict[str, list[str]] = {}
        if self._policies.groups:
            for row in rows["bundle_load"]:
                if row["owner"] is not None and namespace_of(row["bundle"]) in self._policies.groups:
                    owned.setdefault(row["owner"], []).append(row["bundle"])
        self._groups = AntiAffinity(self._policies, Ownership(owned), settings, counts_bundles=is_extensible)

    @staticmethod
    def _fitting(
        taking: Iterable[str], reports: Mapping[str, BrokerReport], settings: Settings, is_extensible: bool
    ) -> frozenset[str]:
        """Brokers that may get bundles at all, as Pulsar's filters have it; under the modular manager all of them where
        none is left."""
        every = frozenset(taking) - settings.evenkeelFrozenBrokers
        most = settings.loadBalancerBrokerMaxTopics
        found = {
            name
            for name in every
            if reports[name].load_manager == settings.loadManagerClassName
            and (reports[name].topics < most if is_extensible else reports[name].topics <= most)
        }
        if settings.preferLaterVersions and found:
            latest = newest({name: reports[name].version for name in sorted(found)})
            found = found if latest is None else found & latest
        return frozenset(found) if found or is_extensible else every

    def group(self, bundle: str) -> str | None:
        """Its anti-affinity group."""
        return self._groups.group_of(namespace_of(bundle)) if self._policies.groups else None

    def of(self, bundle: str) -> frozenset[str]:
        """The brokers that may get it."""
        places, _ = self._both(bundle)
        if self.group(bundle) is None:
            return places
        return frozenset(self._groups.keep_least(namespace_of(bundle), places).brokers)

    def may_leave(self, bundle: str, owner: str) -> bool:
        """Whether moving it can help its anti-affinity group."""
        _, allowed = self._both(bundle)
        return self._groups.should_unload(namespace_of(bundle), owner, allowed)

    def _both(self, bundle: str) -> tuple[frozenset[str], frozenset[str]]:
        kind = self._isolation.kind(bundle)
        if kind not in self._answers:
            allowed = frozenset(self._isolation.allowed(bundle).brokers)
            among = (
                frozenset(self._isolation.allowed_among(bundle, sorted(self._fit)).brokers)
                if self._is_extensible
                else allowed & self._fit
            )
            self._answers[kind] = among, allowed
        return self._answers[kind]


def _bundles(
    rows: Rows,
    settings: Settings,
    taking: Iterable[str],
    leaving: frozenset[str],
    reports: Mapping[str, BrokerReport],
    at: datetime,
    acts: Sequence[Act],
) -> tuple[list[PlannerBundle], Spent, float]:
    """The bundles of the view, what wishes and drains take of the budgets, and the traffic of all bundles."""
    here = frozenset(taking)
    places = _Places(rows, settings, here, reports)
    moves = _moves(acts, at, settings)
    wished = granted_unloads(rows)
    asked = unloaded_by(wished)
    drain = drained(rows, settings, asked)
    held = _Held(rows, settings, at, acts, asked | drain.leaving, moves)
    window = timedelta(minutes=max(settings.evenkeelPlannerReturnWindowMinutes, settings.evenkeelBounceWindowMinutes))
    loads = [(row, bundle_figures(row)) for row in rows["bundle_load"]]
    traffic = {row["bundle"]: latest.traffic for row, latest in loads}
    whole = math.fsum(traffic.values())
    too_heavy = _too_heavy(whole, settings)
    children = {row["subject"]: row for row in rows["split_decisions"] if row["outcome"] == "split" and row["children"]}
    found: list[PlannerBundle] = []
    for row, latest in sorted(loads, key=lambda one: str(one[0]["bundle"])):
        bundle, owner = row["bundle"], row["owner"]
        is_lost = owner is None and row["ownership"] == "unowned" and row["last_owner"] is not None
        if owner not in here and owner not in leaving and not is_lost:
            continue
        group = places.group(bundle)
        why = held.why(row)
        split = children.get(bundle) if why == "split" and group is None and owner in here else None
        shares = _shares(split) if split else []
        is_foretold = split and (shares or (row["topics"] or 0) >= _TOPICS_OF_A_PART * len(split["children"]))
        why = (None if is_foretold else why) or ("bundle_too_heavy" if traffic[bundle] > too_heavy else None)
        if is_lost and (why == OWN_NAMESPACE or group is not None):
            continue
        may_go = places.of(bundle)
        if owner in leaving:
            why = why or "wished"
        elif owner is not None and why is None:
            if len(may_go) <= (owner in may_go):
                why = "no_other_broker"
            elif group is not None and not places.may_leave(bundle, owner):
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
            frozenset(broker for broker, moved_at in past if at - moved_at < window),
            frozenset(broker for broker, moved_at in past if at - moved_at < _DAY),
            why,
            group,
            children=tuple(split["children"]) if split else (),
        )
        found += _parts_of(one, split, shares) if split and is_foretold else [one]
    granted = [
        (
            one.verdict.subject,
            one.verdict.broker,
            next((a.name for a in one.verdict.alternatives if a.verdict == "best"), None),
        )
        for _, one in wished
        if one.accepted and one.verdict.subject_kind == "bundle"
    ]
    granted += [(one.subject, one.broker, None) for one in drain.verdicts if one.subject in drain.leaving]
    return found, _spent(granted, traffic), whole


def _shares(split: Row) -> list[float]:
    """The part of a bundle's load that each of its children has, where the planner said where to cut it; else nothing
    is known of them."""
    numbers = split.get("numbers") or {}
    names = [part_name(number) for number in range(1, len(split["children"]) + 1)]
    return [numbers[name] for name in names] if all(name in numbers for name in names) else []


def _parts_of(one: PlannerBundle, split: Row, shares: Sequence[float]) -> list[PlannerBundle]:
    """What a bundle that is split in this cycle comes to, each part with its share, or as much of it as the others.
    Parts that are unloaded go where their clients find them."""
    children = split["children"]

    def part_of(figures: BundleFigures, number: int) -> BundleFigures:
        return figures.share(shares[number - 1]) if shares else figures.part(len(children))

    return [
        replace(
            one,
            name=child,
            owner=None if split["unload_children"] else one.owner,
            figures=part_of(one.figures, number),
            average=part_of(one.average, number),
            sessions=one.sessions / len(children),
            topics=math.ceil(one.topics / len(children)),
            part=number,
            carried_by=one.owner,
            children=(),
        )
        for number, child in enumerate(children, start=1)
    ]


def _spent(granted: Iterable[tuple[str, str | None, str | None]], traffic: Mapping[str, float]) -> Spent:
    """What unloads (bundle, broker, destination) that come first take of the budgets."""
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


class _Held:
    """Why bundles stay where they are, whatever the plan would gain."""

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        at: datetime,
        acts: Sequence[Act],
        asked: frozenset[str],
        moves: Mapping[str, Sequence[tuple[str, datetime]]],
    ) -> None:
        self._settings, self._at, self._asked, self._moves = settings, at, asked, moves
        cycle = reading.the_cycle(rows)
        self._is_extensible = cycle["manager"] == reading.EXTENSIBLE
        self._is_guarded = settings.evenkeelGuardsEnabled
        self._split = _by_namespace(row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split")
        self._unsettled = _by_namespace(unsettled_bundles(acts, at, settings))
        self._frozen = _by_namespace(settings.evenkeelFrozenBundles)
        self._harmed = self._harmed_namespaces(cycle)
        self._whole_namespaces: dict[str, str | None] = {}

    def _harmed_namespaces(self, cycle: Row) -> frozenset[str]:
        hold = timedelta(minutes=self._settings.evenkeelHarmHoldMinutes)
        found = {
            namespace_of(act_of(row).bundle)
            for row in reading.harm_rows(cycle)
            if self._at - datetime.fromisoformat(row["seen_at"]) < hold
        }
        return frozenset(found - self._settings.evenkeelHarmLiftedNamespaces)

    def why(self, row: Row) -> str | None:
        """The rule that holds a bundle; None where it may leave."""
        bundle = row["bundle"]
        namespace = namespace_of(bundle)
        if bundle in self._asked:
            return "wished"
        if namespace not in self._whole_namespaces:
            self._whole_namespaces[namespace] = self._whole_namespace(namespace)
        if (rule_of_all := self._whole_namespaces[namespace]) is not None:
            return rule_of_all
        for rule, others in (("split", self._split), ("unsettled", self._unsettled)):
            if others and _overlaps(bundle, namespace, others):
                return rule
        if row["ownership"] in reading.UNCLEAR:
            return "owner_unclear"
        return self._guarded(row, namespace) if self._is_guarded else None

    def _whole_namespace(self, namespace: str) -> str | None:
        """The rule that holds all bundles of a namespace for good."""
        if is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True):
            return OWN_NAMESPACE
        if self._is_extensible and is_system(namespace):
            return OWN_NAMESPACE
        return "excluded_namespace" if namespace in self._settings.loadBalancerSheddingExcludedNamespaces else None

    def _guarded(self, row: Row, namespace: str) -> str | None:
        """The rule of a guard that would hold it."""
        bundle, owner, settings = row["bundle"], row["owner"], self._settings
        if namespace in settings.evenkeelFrozenNamespaces or owner in settings.evenkeelFrozenBrokers:
            return "frozen"
        if self._frozen and _overlaps(bundle, namespace, self._frozen):
            return "frozen"
        if row["used_msg_throughput_in"] is None and row["used_msg_throughput_out"] is None:
            return "traffic_unknown"
        if namespace in self._harmed:
            return "harmed_namespace"
        free, past = settings.evenkeelFreeMovesPerBundlePerDay, self._moves.get(bundle, ())
        today = sum(self._at - moved_at < _DAY for _, moved_at in past) if past else 0
        return "moved_often" if 0 <= free <= today else None


def _by_namespace(bundles: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for bundle in sorted(bundles):
        found.setdefault(namespace_of(bundle), []).append(bundle)
    return found


def _overlaps(bundle: str, namespace: str, others: Mapping[str, Sequence[str]]) -> bool:
    """Whether the bundle shares hashes with one of the others."""
    known = others.get(namespace)
    if not known:
        return False
    if bundle in known:
        return True
    own = range_of(bundle)
    ranges = map(range_of, known)
    return any(own.lower < other.upper and other.lower < own.upper for other in ranges)


def _moves(acts: Iterable[Act], at: datetime, settings: Settings) -> dict[str, list[tuple[str, datetime]]]:
    """Bundle -> the brokers that it left, or may have left, with when; as guards count its moves."""
    found: dict[str, list[tuple[str, datetime]]] = {}
    for move in past_moves(acts, at, settings):
        found.setdefault(move.bundle, []).append((move.source or "", move.at))
    return found


_FIGURES = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
_LATEST, _AVERAGE = (itemgetter(*(f"{term}_{name}" for name in _FIGURES)) for term in ("used", "short"))


def bundle_figures(row: Row, figures: Callable[[Row], tuple[float | None, ...]] = _LATEST) -> BundleFigures:
    """A bundle's traffic; what is not known, or not a number, counts as nothing."""
    came_in, out, rate_in, rate_out = figures(row)
    return BundleFigures(_counted(came_in), _counted(out), _counted(rate_in) + _counted(rate_out))


def _counted(value: float | None) -> float:
    return value if value is not None and 0.0 < value < math.inf else 0.0
