"""Which bundles the planner wants to be split, and when it forgets them."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel import repetition as whole
from evenkeel.cycle.fold import state_row
from evenkeel.planner import round as planner_round
from evenkeel.planner.figures import Levels, PlannerFigures
from evenkeel.planner.memory import PlannerMemory, WantedSplit
from evenkeel.planner.reconciler import PlannedStep
from evenkeel.planner.round import bundles_wanted_split, memory_of, rows_of, wanted_splits_of
from evenkeel.planner.target import Floor, UsageLine
from evenkeel.planner.usage_model import BrokerModel, UsageSums
from evenkeel.planner.view import BundleFigures, PlannerBundle, PlannerView
from evenkeel.planner.wanted_splits import ASKED_AGAIN_AFTER, open_wishes, remembered, with_rooms
from tests.cycle.rows import AT, MIB, as_read, report
from tests.examples import at_most, reached, reaching
from tests.planner.planner_rows import BROKERS, Tables, act, any_rows, used
from tests.planner.planner_rows import given as tables

KEY = {"cluster": "lab"}
MOMENT = datetime.fromisoformat(AT)
WANTED = WantedSplit(MOMENT, "cpu", 12.0, 0.6, 0.5)
FLOW = BundleFigures()
AS_LARGE_AS_CAN_BE = (5.0, 1.25)


def hot(topics: int = 9, flow: float = 60.0, **more: Any) -> Tables:
    """Four brokers, of which the first has one bundle with most of the traffic."""
    bundles = [
        used(n, BROKERS[n % 4], (flow if n == 0 else 4) * MIB, topics=topics if n == 0 else 3) for n in range(13)
    ]
    owned = [sum(one["used_msg_throughput_in"] for one in bundles if one["owner"] == name) for name in BROKERS[:4]]
    return tables([report(name, load / MIB) for name, load in zip(BROKERS, owned, strict=False)], bundles, **more)


HOT = "acme/ns0/0x00000000_0x10000000"


def wanted(found: Tables, state: Sequence[dict[str, Any]] = ()) -> dict[str, WantedSplit]:
    made = planner_round.decide(KEY, {**found, "state": [*state]})
    return dict(memory_of(as_read(made["strategy_state"])).splits)


def test_a_bundle_that_fits_on_no_broker_is_wanted_and_has_a_row_that_says_so() -> None:
    found = hot()
    assert list(wanted(found)) == [HOT]
    one = wanted(found)[HOT]
    assert one.resource == "cpu"
    assert one.alone > one.level
    assert not one.is_stuck
    rows = {row["subject"]: row for row in planner_round.decide(KEY, found)["planner_targets"]}
    assert (rows[HOT]["rule"], rows[HOT]["needs_split"]) == ("split_first", True)


def test_a_wish_says_what_the_part_that_stays_and_those_that_leave_may_have() -> None:
    """With all moves made, the first broker has the hot bundle alone, and the others have the rest."""
    one = wanted(hot())[HOT]
    assert one.stay is not None
    assert one.leave is not None
    whole = 60 * MIB * (1 + 1 / 1024 * 1024 / MIB) + 60 * MIB
    assert 0 < one.leave < one.stay < whole
    even = (60 + 12 * 4) / 4 / 60
    assert one.stay / (one.stay + 3 * one.leave) == pytest.approx(
        1.07 * even / (4 * 1.07 * even - 12 * 4 / 60), abs=0.2
    )


def with_room(
    steps: int,
    rest: float,
    beside: Sequence[float],
    others: Sequence[float],
    then: tuple[float, float] = (55.0, 49.0),
) -> tuple[float | None, float | None]:
    """Most load of the parts of a bundle of 10 byte/s, on brokers that may have 50.

    Its owner has `rest` beside it, of which `beside` are bundles that may leave. `then`: the owner's load after its
    steps, and that of each other broker.
    """
    own = {"hot": 10.0, **{f"n{n}": load for n, load in enumerate(beside)}}
    return with_rooms_for({"cpu": own}, {"cpu": [10.0 + rest, *others]}, steps, then)


def with_rooms_for(
    own: dict[str, dict[str, float]],
    carried: dict[str, list[float]],
    steps: int,
    then: tuple[float, float] = (55.0, 49.0),
) -> tuple[float | None, float | None]:
    """Most load of the parts of the bundle `hot`. `own`: resource -> bundle -> load; `carried`: by broker."""
    names = [f"b{n:02}:8080" for n in range(len(carried["cpu"]))]
    loads = {r: dict(zip(names, of_brokers, strict=True)) for r, of_brokers in carried.items()}
    models = {r: dict.fromkeys(names, BrokerModel(UsageLine(0.0, 0.01), False, UsageSums())) for r in own}
    levels = dict.fromkeys(names, Levels(0.5, 0.5, 0.5, 0.5))
    usage = dict.fromkeys(names, 0.5)
    figures = PlannerFigures((*own,), models, loads, own, usage, 0.5, {}, levels, levels, Floor(0.0, 0.0, {}), 0.0)
    bundles = [PlannerBundle(name, names[0], FLOW, FLOW, brokers=frozenset(names)) for name in own["cpu"]]
    taken = [PlannedStep(f"n{n}", names[0], names[1], 0.1, 1.0, (1.0,) * len(own)) for n in range(steps)]
    after = {name: dict.fromkeys(own, then[name != names[0]]) for name in names}
    found = with_rooms({"hot": WANTED}, PlannerView(MOMENT, {}, bundles), figures, taken, after)["hot"]
    return found.stay, found.leave


def test_what_leaves_beside_a_part_is_heavy_in_the_resource_of_which_the_bundle_has_little() -> None:
    """The broker lacks network, and a fifth of what the bundle needs of it is in a bundle with less CPU."""
    own = {"cpu": {"hot": 10.0, "busy": 1.0, "wide": 0.5}, "bandwidth_out": {"hot": 1.0, "busy": 0.0, "wide": 0.2}}
    carried = {"cpu": [50.0, 0.0], "bandwidth_out": [50.95, 49.1]}
    assert with_rooms_for(own, carried, steps=6) == (pytest.approx(2.5), pytest.approx(9.0))


@pytest.mark.parametrize(
    ("steps", "rest", "beside", "others", "parts"),
    [
        (9, 47.5, [0.5, 1.25], [47.0, 46.25, 45.0], (3.75, 3.75)),  # the heavier leaves too, for two parts, not three
        (8, 47.5, [0.5, 1.25], [47.0, 46.25, 45.0], AS_LARGE_AS_CAN_BE),
        (9, 47.5, [], [47.0, 46.25, 45.0], (2.5, 3.0)),
        (9, 47.5, [], [47.5, 46.25, 45.0], AS_LARGE_AS_CAN_BE),
        (9, 50.0, [], [35.0], (0.0, 10.0)),  # room for more than the bundle
        (9, 50.5, [], [35.0], AS_LARGE_AS_CAN_BE),
        (9, 50.5, [0.5], [44.5, 44.5], (0.0, 5.5)),
        (9, 50.5, [0.5], [44.5, 44.75], AS_LARGE_AS_CAN_BE),
        (9, 51.0, [0.5, 0.5], [35.0, 35.0], (0.0, 10.0)),
        (6, 51.0, [0.5, 0.5], [35.0, 35.0], AS_LARGE_AS_CAN_BE),
        (9, 41.0, [1.0], [45.0], (9.0, 5.0)),
        (9, 40.0, [], [45.0], AS_LARGE_AS_CAN_BE),  # room for the bundle as it is
        (3, 50.0, [], [35.0], (0.0, 10.0)),
        (2, 50.0, [], [35.0], AS_LARGE_AS_CAN_BE),
        (60, 50.0, [], [49.3] * 16, (0.0, pytest.approx(0.7))),
    ],
)
def test_a_bundle_is_cut_such_that_fewest_leave_if_those_are_a_third_of_the_steps_at_most(
    steps: int, rest: float, beside: list[float], others: list[float], parts: tuple[float, float]
) -> None:
    assert with_room(steps, rest, beside, others) == parts


@pytest.mark.parametrize(
    ("then", "parts"),
    [
        ((55.0, 49.0), (5.0, 1.25)),
        ((50.0, 30.0), (10.0, 10.0)),
        ((30.0, 49.0), (10.0, 1.25)),
        ((59.0, 46.0), (4.0, 4.0)),
    ],
)
def test_no_part_is_larger_than_its_bundle(then: tuple[float, float], parts: tuple[float, float]) -> None:
    assert with_room(0, 50.0, [], [35.0], then) == parts


def hot_among(count: int) -> Tables:
    """Six brokers with so many bundles each, of 60 MiB/s in all; the first has a bundle with 1.4 times the mean too."""
    flows = [110.0, *[60.0 / count] * 6 * count]
    bundles = [used(n, BROKERS[(n - 1) % 6 if n else 0], flow * MIB, topics=40) for n, flow in enumerate(flows)]
    return tables([report(name, 60.0 if n else 99.0) for n, name in enumerate(BROKERS)], bundles)


def test_a_bundle_is_cut_into_more_parts_where_that_saves_most_of_the_moves() -> None:
    """Of sixty bundles nearly all would have to leave for one large part to stay; of six no more than parts would."""
    many, few = (wanted(hot_among(count))[HOT] for count in (60, 6))
    for one in (many, few):
        assert one.stay is not None
        assert one.leave is not None
    room = 1.07 * (6 * 60 + 110) / 6 - 60
    # Messages of a KiB count as much as the bytes do.
    assert many.stay == pytest.approx(2 * room * MIB, rel=0.05)
    assert many.leave == pytest.approx(2 * room * MIB, rel=0.05)
    assert few.stay > 2 * many.stay


def test_of_a_bundle_that_is_split_in_this_cycle_the_children_are_wanted_until_their_figures_have_settled() -> None:
    found = hot(topics=4)
    children = ["acme/ns0/0x00000000_0x08000000", "acme/ns0/0x08000000_0x10000000"]
    split = {"subject": HOT, "outcome": "split", "children": children, "unload_children": False, "rule": "x"}
    first = planner_round.decide(KEY, {**found, "split_decisions": [split]})
    wishes = memory_of(as_read(first["strategy_state"])).splits
    assert list(wishes) == children
    halves = [
        {**found["bundle_load"][0], "bundle": child, "used_msg_throughput_in": flow * MIB, "topics": 2}
        for child, flow in zip(children, (0.0, 60.0), strict=True)
    ]
    later = {**found, "bundle_load": [*halves, *found["bundle_load"][1:]]}
    moment = json.loads(found["cycle"][0]["steering"])
    past = act(1, HOT, BROKERS[0], BROKERS[0], 0.5, "done")
    past |= {"kind": "split", "destination": None, "cuts": [1 << 27], "unload_children": False}
    for acts, names in (([past], children), ([], children[1:])):
        cycle = {**found["cycle"][0], "steering": json.dumps({**moment, "acts": acts})}
        assert list(wanted({**later, "cycle": [cycle]}, as_read(first["strategy_state"]))) == names


@pytest.mark.parametrize(
    "found",
    [
        hot(topics=1),
        hot(flow=0.0),
        hot(evenkeelSplitEnabled=False),
        hot(evenkeelSheddingEnabled=False),
        hot(evenkeelFrozenNamespaces=["acme/ns0"]),
        hot(acts=[act(1, HOT, BROKERS[1], BROKERS[0], 40.0, "done")]),
        hot(acts=[act(1, HOT, BROKERS[1], BROKERS[0], 0.5, "done")]),
    ],
    ids=["one topic", "cool", "splits off", "shedding off", "frozen", "moved lately", "unsettled"],
)
def test_what_is_not_wanted(found: Tables) -> None:
    assert wanted(found) == {}


@pytest.mark.parametrize("namespace", ["pulsar/system", "pulsar/lab/b1.eu:8080", "sla-monitor/lab/b1.eu:8080"])
@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_namespaces_of_brokers_and_of_pulsar_are_never_wanted(namespace: str, manager: str) -> None:
    more = {"loadManagerClassName": "ExtensibleLoadManagerImpl"} if manager == "extensible" else {}
    found = hot(manager=manager, **more)
    for one in found["bundle_load"]:
        one["bundle"] = one["bundle"].replace("acme/ns0", namespace)
    assert wanted(found) == {}


def test_a_wish_is_forgotten_once_the_bundle_is_cool_or_gone_and_kept_with_its_beginning_else() -> None:
    first = planner_round.decide(KEY, hot())
    state = as_read(first["strategy_state"])
    later = hot()
    later["cycle"][0]["cycle_at"] = (MOMENT + timedelta(minutes=5)).isoformat()
    assert wanted(later, state)[HOT].since == MOMENT
    for _ in range(4):  # for three cycles the load has just changed
        cool = planner_round.decide(KEY, {**hot(flow=0.0), "state": state})
        state = as_read(cool["strategy_state"])
    assert memory_of(state).splits == {}
    state = as_read(first["strategy_state"])
    gone = hot()
    gone["bundle_load"] = gone["bundle_load"][1:]
    assert HOT not in wanted(gone, state)


def view(minutes: float, refused: frozenset[str] = frozenset(), names: Sequence[str] = ("a",)) -> PlannerView:
    bundles = [PlannerBundle(name, "b1:8080", None, None) for name in names]  # type: ignore[arg-type]
    return PlannerView(MOMENT + timedelta(minutes=minutes), {}, bundles, refused_splits=refused)


def test_a_refused_wish_is_made_again_after_a_while_and_remembered_until_then_also_of_a_cool_bundle() -> None:
    known = remembered({"a": WANTED}, {}, view(0))
    refused = remembered({"a": WANTED}, known, view(1, frozenset({"a"})))
    assert refused["a"].refused_at == MOMENT + timedelta(minutes=1)
    assert open_wishes(refused) == {}
    waits = remembered({}, refused, view(30))
    assert waits == refused
    assert open_wishes(remembered({"a": WANTED}, waits, view(60))) == {}
    again = remembered({"a": WANTED}, waits, view(1 + ASKED_AGAIN_AFTER / timedelta(minutes=1)))
    assert list(open_wishes(again)) == ["a"]
    assert remembered({}, waits, view(61)) == {}
    assert remembered({}, waits, view(30, names=["b"])) == {}


def test_wishes_come_back_from_their_rows() -> None:
    splits = {"a": WANTED, "b": WANTED._replace(is_stuck=True, refused_at=MOMENT, resource="bandwidth_out")}
    rows = as_read(rows_of(PlannerMemory(at=MOMENT, message_bytes=7.0, splits=splits)))
    assert memory_of(rows).splits == splits
    other = state_row("AvgShedder", "x", "split []", at=MOMENT)
    assert wanted_splits_of([*rows, *as_read([dict(other)])]) == (splits, 7.0)
    assert bundles_wanted_split(rows) == ["a", "b"]


def test_what_fits_nowhere_as_a_whole_is_wanted_where_a_part_fits() -> None:
    """The bundles of the first broker fit on none of the others, which have room for half of one each."""
    flows = [30.0, 30.0, *([8.5] * 12)]
    owners = [BROKERS[0], BROKERS[0], *(BROKERS[1 + n % 3] for n in range(12))]
    bundles = [used(n, owner, flow * MIB) for n, (owner, flow) in enumerate(zip(owners, flows, strict=True))]
    usages = [sum(f for o, f in zip(owners, flows, strict=True) if o == name) for name in BROKERS[:4]]
    reports = [report(name, usage) for name, usage in zip(BROKERS, usages, strict=False)]
    found = wanted(tables(reports, bundles, evenkeelMaxBundleTrafficPercent=100))
    assert [one.is_stuck for one in found.values()] == [True, True], "half of one is not enough"
    rows = planner_round.decide(KEY, tables(reports, bundles, evenkeelMaxBundleTrafficPercent=100))["planner_targets"]
    told = {row["subject"]: row for row in rows if row["subject"] in found}
    assert [row["needs_split"] for row in told.values()] == [True, True]
    assert {row["rule"] for row in told.values()} == {"split_to_fit", "moved_traffic"}


@reaching()
@given(any_rows(), st.sampled_from(["modular", "extensible"]))
@at_most(100)
def test_shadow_changes_no_split_whatever_it_wanted_before(found: Tables, manager: str) -> None:
    state = rows_of(PlannerMemory(at=MOMENT, splits={one["bundle"]: WANTED for one in found["bundle_load"]}))
    made = {}
    for mode in ("off", "shadow"):
        text = json.loads(found["cycle"][0]["settings"])
        text["settings"]["evenkeelPlanner"] = mode
        cycle = {**found["cycle"][0], "settings": json.dumps(text)}
        observed = {name: found[name] for name in whole.OBSERVED}
        made[mode] = whole.decide(observed, cycle, as_read(state))
    reached(bool(made["shadow"].rows["split_decisions"]))
    assert repr(made["off"].rows["split_decisions"]) == repr(made["shadow"].rows["split_decisions"])
    asked = {mode: [row["request"] for row in one.rows["commands"]] for mode, one in made.items()}
    assert asked["off"] == asked["shadow"]


@reaching()
@given(any_rows())
@at_most(150)
def test_every_open_wish_gets_one_row_and_guards_hold_no_split_for_its_budget(found: Tables) -> None:
    names = sorted({one["bundle"] for one in found["bundle_load"]})
    state = as_read(rows_of(PlannerMemory(at=MOMENT, splits=dict.fromkeys(names, WANTED._replace(room=0.0)))))
    observed = {name: found[name] for name in whole.OBSERVED}
    spread = [n << 24 for n in range(16)]
    observed["topic_hashes"] = [
        {
            "cluster": "lab", "bundle": name, "hashes": spread, "loaded_hashes": spread,
            "loaded_rates": [1.0] * 16, "loaded_throughputs": [MIB] * 16,
        }
        for name in names
    ]  # fmt: skip
    made = whole.decide(observed, found["cycle"][0], state)
    rows = [row for row in made.rows["split_decisions"] if row["strategy"] == "Planner"]
    assert sorted(row["subject"] for row in rows) == names
    split = {row["subject"] for row in rows if row["outcome"] == "split"}
    reached(bool(split))
    guards = [row for row in made.rows["guard_decisions"] if row["kind"] == "split" and row["subject"] in split]
    held = {row["rule"] for row in guards if row["outcome"] == "held"}
    assert not held & {"splits_per_cycle", "bundle_maximum", "one_command_per_bundle", "unsettled_bundle"}
