"""The planner's verdicts on the cluster, its brokers and its bundles, each with the rule that settled it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.model.amounts import counted, plural, ratio
from evenkeel.model.consideration import (
    Alternative,
    Considered,
    Rule,
    Sentence,
    by_name,
    destination_of,
    number,
    points,
)
from evenkeel.planner.figures import AloneOnBest, PlannerFigures
from evenkeel.planner.plan import PlannerPlan
from evenkeel.planner.reconciler import FROM_BROKER, MOVED_TRAFFIC, PER_CYCLE, TO_BROKER, PlannedStep, loads_after
from evenkeel.planner.target import fewest_moves
from evenkeel.planner.usage_model import load_of
from evenkeel.planner.view import ANTI_AFFINITY, ISOLATION, OWN_NAMESPACE, PlannerBundle, PlannerView
from evenkeel.planner.wanted_splits import ASKED_AGAIN_AFTER, FEWEST_TOPICS
from evenkeel.settings import Settings

TARGET = "planner_target"
"""The rule of the alternative that names the broker where the planner wants a bundle; a stored name."""
ACT_KEY, AT_ONCE_KEY = "evenkeelPlannerActAbovePercent", "evenkeelPlannerActAtOnceAbovePercent"
STOP_KEY, GAIN_KEY = "evenkeelPlannerStopAtPercent", "evenkeelPlannerLeastGainPoints"
OTHERS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PlannerVerdict:
    """A verdict with the columns that `planner_targets` has beside its reason."""

    considered: Considered
    destination: str | None = None
    position: int | None = None
    gain: float | None = None
    cost: float | None = None
    needs_split: bool | None = None
    basis: str | None = None


def _cluster(words: str) -> Sentence:
    """Return a sentence about the state of the cluster, and `words` about the consequence."""

    def text(row: Considered) -> str:
        if row.measured is None:
            return f"The cluster carries no load: {words.format(**_cluster_words(row))}."
        stands = (
            f"The busiest broker{f', {row.broker},' if row.broker else ''} has {ratio(row.measured)} times the usage "
            f"of the evenly used cluster ({number(row, 'even', 'fraction')}), and {ratio(row.threshold)} is the limit"
        )
        return f"{stands}: {words.format(**_cluster_words(row))}."

    return text


def _cluster_words(row: Considered) -> dict[str, str]:
    return {
        "due": f"{row.numbers.get('due', 0.0):.0f}",
        "steps": plural(row.numbers.get("steps", 0.0), "move"),
        "stop": number(row, "stop", "fraction"),
        "floor": number(row, "floor_load", "fraction"),
        "after": number(row, "busiest_after", "fraction"),
    }


def _stopped(words: str) -> Sentence:
    return lambda row: f"No bundle is moved: {words}."


ACTS = Rule(
    "kept",
    "acts",
    _cluster("{steps} (due now: {due}) are to bring it to {after}; at least {floor} of the load has to move"),
)
MENDS = Rule("kept", "mends", _cluster("{steps} (due now: {due}) are to mend what breaks a rule, and nothing else"))
WITHIN_BAND = Rule("kept", "within_band", _cluster("nothing is to be moved"))
SEEN_ONCE = Rule("kept", "seen_once", _cluster("{steps} would be due, and wait for a second settled cycle"))
FIRST_LOOK = Rule(
    "kept", "first_look", _cluster("{steps} wait for a second look, since it is not known how steady the load is")
)
SETTLING = Rule("kept", "settling", _cluster("{steps} wait until the figures of all brokers have settled"))
UNSTEADY = Rule("kept", "unsteady", _cluster("{steps} wait, since the load has just changed much"))
FELL_BACK = Rule(
    "skipped",
    "fell_back",
    lambda row: (
        "The strategy in force decides: three plans in a row brought less than half of what the planner promised, and "
        "for a day its targets are on record only."
    ),
)
NOTHING_KNOWN = Rule("skipped", "nothing_known", _stopped("no broker has a report that can be used"))
SWITCHED_OFF = Rule("kept", "switched_off", _stopped("evenkeelSheddingEnabled is off"))
TOO_FEW_BROKERS = Rule("kept", "too_few_brokers", _stopped("there is one broker only"))
PAUSED = Rule("kept", "paused", _stopped("the cluster is paused"))
OUTSIDE_WINDOWS = Rule("kept", "outside_maintenance_windows", _stopped("it is outside of evenkeelMaintenanceWindows"))
TOO_MANY_SILENT = Rule("kept", "too_many_silent_brokers", _stopped("too many brokers have no report of late"))
OWNERSHIP_UNCLEAR = Rule("kept", "ownership_unclear", _stopped("too many bundles have two owners, or an unknown one"))
OF_CLUSTER = by_name(
    "rules",
    *(
        ACTS,
        MENDS,
        WITHIN_BAND,
        SEEN_ONCE,
        FIRST_LOOK,
        SETTLING,
        UNSTEADY,
        FELL_BACK,
        NOTHING_KNOWN,
        SWITCHED_OFF,
        TOO_FEW_BROKERS,
        PAUSED,
    ),
    *(OUTSIDE_WINDOWS, TOO_MANY_SILENT, OWNERSHIP_UNCLEAR),
)


def _broker(words: str) -> Sentence:
    def text(row: Considered) -> str:
        stands = f"{ratio(row.measured)} times the usage of the evenly used cluster, {number(row, 'usage', 'fraction')}"
        if row.measured is None:
            stands = "no load"
        return f"{row.subject} has {stands}: {words.format(**_broker_words(row))}."

    return text


def _broker_words(row: Considered) -> dict[str, str]:
    return {
        "after": number(row, "usage_after", "fraction"),
        "gives": plural(row.numbers.get("gives"), "bundle"),
        "gets": plural(row.numbers.get("gets"), "bundle"),
    }


GIVES = Rule("kept", "gives", _broker("it is to give {gives} away and to come to {after}"))
RECEIVES = Rule("kept", "receives", _broker("it is to get {gets} and to come to {after}"))
STAYS = Rule("kept", "stays", _broker("it keeps what it has"))
STAYS_ABOVE = Rule("kept", "stays_above", _broker("what it has fits nowhere else"))
SILENT = Rule("skipped", "no_report", lambda row: f"{row.subject} has no report that can be used: it is left alone.")
EMPTIED = Rule("skipped", "draining", lambda row: f"{row.subject} is being emptied: it gets no bundle.")


def _moves(words: str) -> Sentence:
    return lambda row: (
        f"{row.subject} is to go from {row.broker} to {destination_of(row)}, which takes "
        f"{points(row.numbers.get('gain', 0.0))} off the usage of {row.broker}: {words}."
    )


def _mends(words: str) -> Sentence:
    return lambda row: f"{row.subject} is to go from {row.broker} to {destination_of(row)} first: {words}."


DUE = Rule("unload", "due", _moves("due now"))
MENDED = {
    ISOLATION: Rule("unload", "mends_isolation", _mends("no isolation policy lets it be where it is")),
    ANTI_AFFINITY: Rule("unload", "mends_anti_affinity", _mends("too much of its anti-affinity group is where it is")),
}
PLACED = Rule(
    "placed", "placed", lambda row: f"{row.subject} has no owner and goes to {destination_of(row)}, by the target."
)
_BINDS = {
    FROM_BROKER: ("unloads_from_broker", "not now, since its broker gives away as many as it may in one cycle"),
    TO_BROKER: ("unloads_to_broker", "not now, since that broker gets as many as it may in one cycle"),
    PER_CYCLE: ("unloads_per_cycle", "not now, since the moves of one cycle are used up"),
    MOVED_TRAFFIC: ("moved_traffic", "not now, since the traffic that one cycle may move is used up"),
    "group_moves_once": ("group_moves_once", "not now, since of its anti-affinity group one bundle moves at a time"),
    "no_room_yet": ("no_room_yet", "not now, since that broker has room for it only once others have left"),
    "split_now": ("waits_for_split", "once the parts of a bundle that is split now have settled"),
    "seen_once": ("waits_for_second_cycle", "once a second settled cycle shows the same"),
    "first_look": ("waits_for_second_look", "once the load was seen a second time"),
    "settling": ("waits_for_settled_figures", "once the figures of all brokers have settled"),
    "unsteady": ("waits_for_steady_load", "once the load is steadier"),
    "fell_back": ("planner_fell_back", "not now, since the planner's targets are on record only"),
}
_PLANNED = {key: Rule("planned", name, _moves(words)) for key, (name, words) in _BINDS.items()}
_NOTHING_MOVES = Rule("planned", "nothing_moves_now", _moves("not now, since no bundle is moved"))
_HELD_WORDS = {
    "frozen": "an operator froze it",
    OWN_NAMESPACE: "it belongs to its broker",
    "excluded_namespace": "its namespace is excluded from shedding",
    "bundle_too_heavy": "it has more of the cluster's traffic than may move at once",
    "wished": "a manual request, or a drain, decides on it",
    "split": "it is split in this cycle",
    "unsettled": "its figures have not settled",
    "owner_unclear": "it has two owners, or an unknown one",
    "traffic_unknown": "its traffic is not known",
    "harmed_namespace": "a move in its namespace did harm",
    "moved_often": "it has moved as often as it may in a day",
    "no_other_broker": "no other broker may have it",
    "anti_affinity_even": "its anti-affinity group is spread evenly",
}
HELD = {
    name: Rule("kept", name, lambda row, words=words: f"{row.subject} stays on {row.broker}: {words}.")  # type: ignore[misc]
    for name, words in _HELD_WORDS.items()
}
NOT_CHOSEN = Rule(
    "kept",
    "not_chosen",
    lambda row: (
        f"{row.subject} stays on {row.broker}: the plan does without it; it alone would take "
        f"{points(row.numbers.get('gain', 0.0))} off."
    ),
)
SPLIT_FIRST = Rule(
    "kept",
    "split_first",
    lambda row: (
        f"{row.subject} stays on {row.broker}: it alone takes {number(row, 'alone', 'fraction')} of a broker, above "
        "the target; it is to be split first."
    ),
)
STUCK = Rule(
    "kept",
    "split_to_fit",
    lambda row: (
        f"{row.subject} stays on {row.broker}, which has {number(row, 'alone', 'fraction')} with all moves made: no "
        "other broker has room for all of it, but for a part; it is to be split first."
    ),
)
SPLIT_REFUSED = Rule(
    "kept",
    "split_refused",
    lambda row: (
        f"{row.subject} stays on {row.broker}: it is too hot to be placed as a whole, its split was refused, and is "
        f"asked for again in {counted(row.numbers.get('minutes_left'), 'minute')} at the earliest."
    ),
)


def verdicts(
    view: PlannerView, plan: PlannerPlan, settings: Settings, apart: Sequence[Considered] = ()
) -> list[PlannerVerdict]:
    """All verdicts: the cluster's, one per broker, one per bundle that moves, is to move, or was looked at instead.

    `apart`: verdicts on brokers that are not in the view.
    """
    figures = plan.figures
    if figures is None:
        return [PlannerVerdict(OF_CLUSTER[plan.rule].about_cluster()), *map(PlannerVerdict, apart)]
    every = [_of_cluster(view, plan, figures)]
    every += _of_brokers(view, plan, figures)
    every += map(PlannerVerdict, apart)
    every += _of_steps(view, plan, figures)
    every += _of_others(view, plan, figures)
    return every


def _of_cluster(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> PlannerVerdict:
    busiest = figures.fullest
    levels = figures.levels[busiest]
    due = plan.due
    excess = figures.floor.excess
    usages = {broker: [0.0] for broker in excess}
    resource = figures.resources[0]
    for bundle in view.bundles:
        if bundle.owner in usages:
            usages[bundle.owner].append(load_of(bundle.figures, resource, plan.memory.message_bytes))
    verdict = OF_CLUSTER[plan.rule].about_cluster(
        busiest,
        setting=ACT_KEY,
        measured=figures.usage[busiest] / figures.even if figures.even > 0 else None,
        threshold=levels.act / figures.even if figures.even > 0 else None,
        unit="",
        numbers={
            "even": figures.even,
            "act": levels.act,
            "at_once": levels.at_once,
            "stop": levels.stop,
            "busiest": figures.usage[busiest],
            "busiest_after": _after(plan, figures, only_due=False)[busiest],
            "busiest_after_due": _after(plan, figures, only_due=True)[busiest],
            "floor_load": figures.floor.share,
            "floor_moves": float(fewest_moves(excess, usages)),
            "steps": float(sum(step.source is not None for step in plan.steps)),
            "due": float(len(due)),
            "placed": float(sum(step.source is None for step in plan.steps)),
            "promised_gain": sum(step.gain for step in due),
            "due_cost": sum(step.cost for step in due),
            "misses": float(plan.memory.misses),
            "is_swinging": float(figures.is_swinging),
            "latest_part": figures.latest_part,
        },
    )
    return PlannerVerdict(
        verdict,
        gain=sum(step.gain for step in due),
        cost=sum(step.cost for step in due),
        basis=_basis(figures, busiest),
    )


def _after(plan: PlannerPlan, figures: PlannerFigures, *, only_due: bool) -> dict[str, float]:
    """Broker -> usage with the steps taken."""
    loads = loads_after(plan.steps, figures, only_due=only_due)
    return {broker: figures.usage_at(broker, broker_loads) for broker, broker_loads in loads.items()}


def _of_brokers(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> Iterator[PlannerVerdict]:
    after = _after(plan, figures, only_due=False)
    gives = [step.source for step in plan.steps]
    gets = [step.destination for step in plan.steps]
    for broker in sorted(view.brokers):
        rule = STAYS
        if broker in gives:
            rule = GIVES
        elif broker in gets:
            rule = RECEIVES
        elif broker in plan.over:
            rule = STAYS_ABOVE
        numbers = {
            "usage": figures.usage[broker],
            "usage_after": after[broker],
            "gives": float(gives.count(broker)),
            "gets": float(gets.count(broker)),
        }
        yield PlannerVerdict(
            rule.about_broker(
                broker,
                setting=ACT_KEY,
                measured=figures.usage[broker] / figures.even if figures.even > 0 else None,
                threshold=figures.levels[broker].act / figures.even if figures.even > 0 else None,
                numbers=numbers,
            ),
            basis=_basis(figures, broker),
        )


def _of_steps(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> Iterator[PlannerVerdict]:
    breaches = {bundle.name: bundle.breach for bundle in view.bundles if bundle.breach}
    for position, step in enumerate(plan.steps, start=1):
        rule = _rule_of(step, breaches.get(step.bundle))
        verdict = rule.about_bundle(
            step.bundle,
            step.source,
            setting=step.bound if step.bound.startswith("evenkeel") else None,
            alternatives=(Alternative(step.destination, "best", TARGET),),
            numbers={"gain": step.gain, "cost": step.cost, "rank": float(position)},
        )
        yield PlannerVerdict(
            verdict,
            step.destination,
            position,
            step.gain,
            step.cost,
            step.bundle in plan.wanted,
            _basis(figures, step.source or step.destination),
        )


def _rule_of(step: PlannedStep, breach: str | None) -> Rule:
    if step.source is None:
        return PLACED
    return _PLANNED.get(step.bound, _NOTHING_MOVES) if step.bound else MENDED.get(breach or "", DUE)


def _of_others(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> Iterator[PlannerVerdict]:
    """Yield the heaviest bundles that stay, of every broker above the level `act`, with why; and all to be split."""
    moving = {step.bundle for step in plan.steps}
    candidates: dict[str, list[tuple[float, PlannerBundle]]] = {
        broker: [] for broker, usage in figures.usage.items() if usage > figures.levels[broker].act
    }
    split: list[tuple[float, PlannerBundle]] = []
    for bundle in view.bundles:
        if bundle.owner not in figures.usage or bundle.name in moving or bundle.part:
            continue
        if bundle.name in plan.wanted:
            split.append((_gain(bundle, plan, figures), bundle))
        elif bundle.owner in candidates:
            candidates[bundle.owner].append((_gain(bundle, plan, figures), bundle))
    on_best = AloneOnBest(figures)
    for gain, stuck_or_hot in split:
        yield _of_other(stuck_or_hot, gain, on_best.usage(stuck_or_hot), view.at, plan, figures)
    for broker in sorted(candidates):
        heaviest = sorted(
            candidates[broker], key=lambda gain_and_bundle: (-gain_and_bundle[0], gain_and_bundle[1].name)
        )[:OTHERS_SHOWN]
        for gain, stuck_or_hot in heaviest:
            yield _of_other(stuck_or_hot, gain, on_best.usage(stuck_or_hot), view.at, plan, figures)


def _of_other(
    bundle: PlannerBundle, gain: float, alone: float | None, at: datetime, plan: PlannerPlan, figures: PlannerFigures
) -> PlannerVerdict:
    """Return the verdict on a bundle that stays; `alone`: the usage of the best broker with only this bundle."""
    wanted, known = plan.wanted.get(bundle.name), plan.memory.splits.get(bundle.name)
    numbers = {"gain": gain} | ({} if alone is None else {"alone": alone})
    is_too_hot = AloneOnBest(figures).is_too_hot(bundle) and bundle.topics >= FEWEST_TOPICS
    rule = SPLIT_FIRST if is_too_hot else HELD.get(bundle.held or "", NOT_CHOSEN)
    if wanted is not None:
        rule = STUCK if wanted.is_stuck else SPLIT_FIRST
        numbers |= {"alone": wanted.alone, "room": wanted.room}
    if known is not None and known.refused_at is not None:
        rule = SPLIT_REFUSED
        numbers["minutes_left"] = (known.refused_at + ASKED_AGAIN_AFTER - at) / timedelta(minutes=1)
    return PlannerVerdict(
        rule.about_bundle(bundle.name, bundle.owner, numbers=numbers),
        gain=gain,
        needs_split=is_too_hot or wanted is not None,
        basis=_basis(figures, bundle.owner or ""),
    )


def _gain(bundle: PlannerBundle, plan: PlannerPlan, figures: PlannerFigures) -> float:
    owner = bundle.owner or ""
    left = max(
        figures.models[r][owner].line.usage(
            figures.loads[r][owner] - load_of(bundle.figures, r, plan.memory.message_bytes)
        )
        for r in figures.resources
    )
    return max(0.0, figures.usage[owner] - left)


def _basis(figures: PlannerFigures, broker: str) -> str:
    if broker not in figures.usage:
        return "traffic"
    busiest = max(figures.resources, key=lambda r: figures.models[r][broker].line.usage(figures.loads[r][broker]))
    model = figures.models[busiest][broker]
    return "usage" if model.is_used and model.reported is None else "traffic"
