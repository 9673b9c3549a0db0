"""Variants one after the other through cycles one after the other, each with the state that it left itself.

Usage is that recorded for the cycle's brokers, whatever weights a variant sets, so that all are compared by the same
measure. After a plan it is a forecast: a moved bundle takes along its share of its broker's usage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.fold import by_moment
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.errors import DecideFailed, LakeError
from evenkeel.model.past_commands import FormerOwners
from evenkeel.publish.commands import Wanted, wanted
from evenkeel.publish.plan import GUARD_TABLE, Forecast, forecast_of
from evenkeel.replay.variants import RECORDED

Move = tuple[str, str | None, str | None]
"""Bundle, the broker that it leaves, the broker where it would go."""


def bounces(moves: Iterable[Move], former: FormerOwners, at: int) -> set[str]:
    """Return the bundles that go back to an owner of the hour before, and note the moves for later."""
    moves = [*moves]
    back = {bundle for bundle, _, destination in moves if former.is_bounce(bundle, destination, at)}
    for bundle, source, _ in moves:
        if source is not None:
            former.left(bundle, source, at)
    return back


def load_figures(change: Forecast, limit: float) -> dict[str, Any]:
    """The columns of `replay_cycles` about the brokers' load."""
    after = [*change.after.values()]
    return {
        "moved_traffic_share": change.moved_share,
        "before_max_usage": max(change.before.values(), default=None),
        "after_max_usage": max(after, default=None),
        "before_max_over_mean": change.before_max_over_mean,
        "after_max_over_mean": change.after_max_over_mean,
        "before_spread": spread(change.before.values()),
        "after_spread": spread(after),
        "over_limit": max(after) > limit if after else None,
    }


def spread(values: Iterable[float]) -> float | None:
    """Standard deviation; None without values."""
    usages = sorted(values)
    if not usages:
        return None
    mean = math.fsum(usages) / len(usages)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in usages) / len(usages))


def command_key(command: Mapping[str, Any], destination: str | None) -> tuple[Any, ...]:
    """Return the key by which two commands are equal: kind, bundle, and its destination, its cuts or its topic."""
    if command["kind"] == "split":
        return "split", command["bundle"], tuple(command["cuts"] or ())
    return command["kind"], command["bundle"], command.get("topic") or destination


def owners_changed(
    before: Mapping[str, str | None], bundles: Sequence[str], owners: Sequence[str | None]
) -> list[tuple[str, str]]:
    """Bundles whose owner is another than in the cycle before, with the one they had."""
    return [
        (bundle, was)
        for bundle, now in zip(bundles, owners, strict=True)
        if (was := before.get(bundle)) is not None and now is not None and was != now
    ]


# One variant after the other through one cycle after the other, each with the state that it left itself.
#
# Pure: rows in, rows out. A cycle's rows are read once for all variants.

CYCLES, DECISIONS = "replay_cycles", "replay_decisions"
CARRIED = "carried"
"""The output that the next chunk of cycles goes on from: a row with a `body`, which is JSON."""
Made = tuple[str, dict[str, Any]]
"""Table and row."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A variant for one cycle's settings: their text and digest, whose rules, whether they are the recorded ones."""

    settings: str
    digest: str
    manager: str | None
    is_recorded: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """A cycle of the record: its moment, its inputs, its result, and the state that it started from.

    `chosen`: variant -> its settings. `state` is None if the cycle continues from the previous one in the fold. `known`
    are the further columns of its `cycle` row: mode, wishes, acts, pauses, snapshot_at, predecessor.
    """

    cluster: str
    cycle_at: datetime
    plan_id: str | None
    manager: str | None
    chosen: Mapping[str, Chosen]
    state: Sequence[Row] | None = None
    known: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Carried:
    """The state that a variant takes from one cycle to the next, and the recent owners of bundles."""

    state: list[Row] = field(default_factory=list)
    former: FormerOwners = field(default_factory=FormerOwners)

    def to_json(self) -> dict[str, Any]:
        """The members of a JSON object; `from_json` reads them."""
        return {"state": self.state, "former": self.former.known}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Carried:
        """Return the object that `to_json` wrote."""
        return cls(list(body["state"]), FormerOwners(dict(body["former"])))


@dataclass
class Fold:
    """A replay under way. Usage above `limit` counts as over it; `with_recorded`: recorded plans yield rows too."""

    limit: float
    with_recorded: bool
    carried: dict[str, Carried]
    owners: dict[str, str | None] = field(default_factory=dict)

    def step(self, cycle: Recorded, rows: Rows) -> Iterator[Made]:
        """Decide one cycle by every variant; `rows`: the rounds' inputs, and the recorded decisions that act."""
        at = round(cycle.cycle_at.timestamp() * 1_000)
        self._note_owners(rows, at)
        shared = rows if isinstance(rows, SharedRows) else SharedRows(rows)
        mine = _row_of(cycle, next(iter(cycle.chosen.values())))
        recorded = recorded_plan(shared.having({"cycle": [mine]}), mine)
        on_record = {_key(act) for act in recorded.asked}
        stamp = {"cluster": cycle.cluster, "cycle_at": cycle.cycle_at}
        if self.with_recorded:
            former = self.carried.setdefault(RECORDED, Carried()).former
            named = {**stamp, "variant": RECORDED}
            yield from rows_of_plan(named, recorded, former, at, self.limit, plan_id=cycle.plan_id, on_record=on_record)
        for name, chosen in cycle.chosen.items():
            carried = self.carried.setdefault(name, Carried())
            decided = self._decided(cycle, chosen, carried, shared)
            yield from rows_of_plan(
                {**stamp, "variant": name},
                plan_of(decided),
                carried.former,
                at,
                self.limit,
                plan_id=decided.plan_id if chosen.is_recorded else None,
                reproduced=decided.plan_id == cycle.plan_id if chosen.is_recorded else None,
                on_record=on_record,
            )

    def _decided(self, cycle: Recorded, chosen: Chosen, carried: Carried, shared: SharedRows) -> whole.DecidedCycle:
        """Decide the cycle by one variant, on the state that the variant has left."""
        if cycle.state is not None and (chosen.is_recorded or not carried.state):
            carried.state = list(cycle.state)
        rows = SharedRows(shared, shared.known, acts_only=not chosen.is_recorded)
        decided = whole.decide(rows, _row_of(cycle, chosen), carried.state)
        carried.state = list(decided.rows[whole.STATE])
        return decided

    def _note_owners(self, rows: Rows, at: int) -> None:
        """Note the recorded previous owner of each bundle, for every variant alike."""
        bundles, owners = [row["bundle"] for row in rows["bundle_load"]], [row["owner"] for row in rows["bundle_load"]]
        gone = owners_changed(self.owners, bundles, owners)
        self.owners = dict(zip(bundles, owners, strict=True))
        for carried in self.carried.values():
            carried.former.forget(at)
            for bundle, owner in gone:
                carried.former.left(bundle, owner, at)


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """A variant's commands, the commands that guards hold back, and the brokers' expected load."""

    asked: Sequence[Wanted]
    held: Sequence[Row]
    held_count: int
    refusals: int | None
    change: Any


def plan_of(decided: whole.DecidedCycle) -> VariantPlan:
    """Return the plan of a decided cycle."""
    held = [row for row in decided.rows[GUARD_TABLE] if row["outcome"] == "held" and row["subject_kind"] == "bundle"]
    figures = decided.plan.figures
    return VariantPlan(decided.plan.asked, held, int(figures["held"]), figures["refusals"], decided.plan.change)


def rows_of_plan(
    stamp: Mapping[str, Any],
    plan: VariantPlan,
    former: FormerOwners,
    at: int,
    limit: float,
    *,
    plan_id: str | None = None,
    reproduced: bool | None = None,
    on_record: set[Any] | None = None,
) -> Iterator[Made]:
    """Yield the rows of `CYCLES` and `DECISIONS` of one plan; `stamp`: cluster, cycle_at and variant.

    `at`: the moment of the cycle in ms since 1970. `limit`: the usage (fraction) that counts as over the limit.
    `on_record`: the keys of recorded commands (`command_key`), None without a recorded plan.
    """
    moves = [act for act in plan.asked if act.command["kind"] == "unload"]
    back = bounces(((m.command["bundle"], m.command["from_broker"], goes_to(m)) for m in moves), former, at)
    keys = {_key(act) for act in plan.asked}
    yield (
        CYCLES,
        {
            **stamp,
            "plan_id": plan_id,
            "reproduced": reproduced,
            "splits": len(plan.asked) - len(moves),
            "moves": len(moves),
            "held": plan.held_count,
            "refusals": plan.refusals,
            "bounces": len(back),
            **load_figures(plan.change, limit),
            "only_here": None if on_record is None else len(keys - on_record),
            "only_recorded": None if on_record is None else len(on_record - keys),
        },
    )
    for act in plan.asked:
        is_on_record = on_record is not None and _key(act) in on_record
        yield DECISIONS, {**stamp, **told_of(act), "on_record": is_on_record, "bounce": act.command["bundle"] in back}
    for row in plan.held:
        yield DECISIONS, {**stamp, **told_of_held(row), "on_record": False, "bounce": False}


def recorded_plan(rows: Rows, cycle: Row) -> VariantPlan:
    """Return the recorded plan: its acting decisions, without those that guards held back, by the same forecast."""
    every = wanted(
        cycle, rows.get("split_decisions", ()), rows.get("placement_decisions", ()), rows.get("unload_decisions", ())
    )
    held = [row for row in rows.get(GUARD_TABLE, ()) if row["outcome"] == "held"]
    positions = {row["position"] for row in held}
    asked = [act for number, act in enumerate(every, start=1) if number not in positions]
    ownerless = [row for row in rows.get("placement_decisions", ()) if row["cause"] == "no_owner"]
    moving = [act.decision for act in asked if act.command["kind"] == "unload"]
    change = forecast_of(rows, [*ownerless, *moving])
    bundles = [row for row in held if row["subject_kind"] == "bundle"]
    return VariantPlan(asked, bundles, len(every) - len(asked), None, change)


def _row_of(cycle: Recorded, chosen: Chosen) -> dict[str, Any]:
    return reading.cycle_row(
        cycle.cluster, cycle.cycle_at, chosen.settings, chosen.digest, manager=chosen.manager, **cycle.known
    )


def _key(act: Wanted) -> tuple[Any, ...]:
    return command_key(act.command, goes_to(act))


def goes_to(act: Wanted) -> str | None:
    """Return the broker where an unloaded bundle is expected, also if Pulsar does not get the destination."""
    destination: str | None = act.decision.get("destination")
    return destination


def told_of(act: Wanted) -> dict[str, Any]:
    """Return the columns of `replay_decisions` for a requested command."""
    command, decision = act.command, act.decision
    return {
        "kind": command["kind"],
        "bundle": command["bundle"],
        "from_broker": command["from_broker"],
        "destination": goes_to(act),
        "cuts": command["cuts"],
        "outcome": "asked",
        "rule": decision["rule"],
        "strategy": decision["strategy"],
        "sentence": decision["sentence"],
    }


def told_of_held(row: Row) -> dict[str, Any]:
    """Return the words on a command that a guard holds back; `row` is the guard's."""
    return {
        "kind": row["kind"],
        "bundle": row["subject"],
        "from_broker": row["broker"],
        "destination": row["destination"],
        "cuts": None,
        "outcome": "held",
        "rule": row["rule"],
        "strategy": None,
        "sentence": row["sentence"],
    }


# A chunk of cycles in a worker of Spark: the rows of the cycles in, the results of some variants out.


def decide_part(key: Row, rows: Rows, *, parameters: Mapping[str, Any]) -> Decided:
    """Return the rows of `CYCLES` and `DECISIONS` of one part's variants, and the state that they carry on.

    `key` names the `part`. `parameters`: `cluster`, `limit`, `cycles` (moment -> its record), `chosen` (settings of
    variants, by the names that cycles use) and `parts` (label -> its `variants`, their state, and `with_recorded`).
    Raises DecideFailed with the variants and the cycle of an error.
    """
    part = parameters["parts"][str(key["part"])]
    carried = {name: Carried.from_json(body) for name, body in part["carried"].items()}
    fold = Fold(parameters["limit"], part["with_recorded"], carried, dict(part["owners"]))
    moments = {kind: by_moment(given) for kind, given in rows.items()}
    decided: Decided = {CYCLES: [], DECISIONS: []}
    for at in sorted(parameters["cycles"]):
        try:
            given = {kind: rows_at.get(at, ()) for kind, rows_at in moments.items()}
            _demand_rows(parameters["cycles"][at]["rows"], given)
            for output, row in fold.step(_recorded(parameters, part, at), given):
                decided[output].append(row)
        except Exception as error:
            where = f"replay of {', '.join(part['variants'])} on {parameters['cluster']} at {at}"
            raise DecideFailed(f"{where}: {type(error).__name__}: {error}") from error
    left = {name: state.to_json() for name, state in fold.carried.items()}
    body = {"label": part["label"], "carried": left, "owners": fold.owners}
    return {**decided, CARRIED: [{"body": json.dumps(body, ensure_ascii=False)}]}


def _demand_rows(listed: Mapping[str, int], rows: Rows) -> None:
    for kind, expected in listed.items():
        count = len(rows.get(kind, ()))
        if count != expected:
            raise LakeError(
                f"{kind} holds {count} of the {expected} rows that the cycle's manifest lists: they are past their "
                "retention, or the table is damaged. Begin later (--from), or restore the table"
            )


def _recorded(parameters: Mapping[str, Any], part: Mapping[str, Any], at: str) -> Recorded:
    cycle = parameters["cycles"][at]
    chosen, known = parameters["chosen"][cycle["chosen"]], dict(cycle["known"])
    if known.get("snapshot_at"):
        known["snapshot_at"] = datetime.fromisoformat(known["snapshot_at"])
    return Recorded(
        cluster=parameters["cluster"],
        cycle_at=datetime.fromisoformat(at),
        plan_id=cycle["plan_id"],
        manager=cycle["manager"],
        chosen={name: Chosen(**chosen[name]) for name in part["variants"]},
        state=cycle["state"],
        known=known,
    )
