"""What would have changed an answer is true: the round decides otherwise beyond the value that is named, not before it.

Of every rule that comes up in simulated cycles of each strategy, and of one that is made up here.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from evenkeel import repetition as whole
from evenkeel.cycle.fold import decide_cycle
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Row, broker_reports, cycle_row, settings_of
from evenkeel.cycle.reasons import reason_row
from evenkeel.explain.changes import Change
from evenkeel.explain.changes import question as question_module
from evenkeel.explain.changes.figures import figures_of
from evenkeel.explain.changes.question import AskedCycle
from evenkeel.lake.plain_rows import as_read
from evenkeel.model.consideration import Rule
from evenkeel.place import round as place_round
from evenkeel.plan_splits import round as split_round
from evenkeel.publish import plan as plan_round
from evenkeel.settings import EffectiveSettings, resolve
from evenkeel.shed import round as shed_round
from tests.cycle.rows import bundle, cycle, report, rows
from tests.cycle.whole_cycles import EAGER, VARIANTS, cycles

pytestmark = pytest.mark.slow

ROUNDS = {
    "split_decisions": split_round.decide,
    "unload_decisions": shed_round.decide,
    "placement_decisions": place_round.decide,
    "guard_decisions": plan_round.decide,
}
GUARDED = {"evenkeelMaxUnloadsPerCycle": 1, "evenkeelMaxSplitsPerCycle": 1, "evenkeelMaxBundleTrafficPercent": 5.0}
OF_A_RULE = 2
"""So many rows of each rule are asked about in a cycle."""
CLOSE = 1e-6


@cache
def recorded(strategy: str, seed: int) -> SharedRows:
    """The last of some cycles, with what was decided in it and what the one before remembered."""
    overrides = {**EAGER, **GUARDED, "loadBalancerLoadSheddingStrategy": strategy, **VARIANTS[strategy]}
    settings, state, before = resolve(observed=None, overrides=overrides), list[Row](), None
    found: dict[str, Any] = {}
    for at, observed in cycles(settings, seed)[:4]:
        now = cycle_row("lab", at, settings.to_json(), settings.digest, manager=settings.settings.manager,
                        predecessor=(before, "used"))  # fmt: skip
        made = whole.decide(observed, now, state)
        decided = {table: made.rows[table] for one in whole.ROUNDS for table in one.tables}
        found = {**observed, **decided, "state": state, "cycle": [now], "topic_hashes": ()}
        found["guard_decisions"] = made.rows["guard_decisions"]
        before, state = now["cycle_at"], made.rows["strategy_state"]
    return SharedRows(found)


def answer(table: str, given: Mapping[str, Any], row: Row) -> tuple[Any, ...]:
    """What the round says now of the row's subject; nothing where it says nothing."""
    names = ("subject", "subject_kind", *(("position", "rule") if table == "guard_decisions" else ()))
    made = ROUNDS[table]({"cluster": "lab"}, SharedRows(given))[table]
    alike = [one for one in made if all(one[name] == row[name] for name in names)]
    alike.sort(key=lambda one: (one["rule"] != row["rule"], one["broker"] != row["broker"]))
    return tuple(alike[0].get(name) for name in ("outcome", "rule", "destination")) if alike else ()


def with_change(given: SharedRows, change: Change, needed: float) -> dict[str, Any]:
    """The rows with the figure or the setting that is named at a value."""
    if change.figure == "value":
        effective = EffectiveSettings.from_json(given["cycle"][0]["settings"])
        kind = type(effective.settings.values()[change.subject])
        settings = effective.settings.with_values({change.subject: kind(needed)})
        text = EffectiveSettings(settings, effective.origins).to_json()
        return {**given, "cycle": [{**given["cycle"][0], "settings": text}]}
    kind = "bundle" if "/" in change.subject else "broker"
    name = change.figure.removesuffix(" as remembered")
    (figure,) = [one for one in figures_of(kind, change.subject, given) if one.name == name]
    value = figure.value * needed / change.measured if change.measured else needed
    return {**given, **figure.rows_with(given, value)}


def is_whole(given: SharedRows, change: Change) -> bool:
    values = settings_of(given).values()
    return change.unit == "count" or (change.figure == "value" and isinstance(values[change.subject], int))


def test_all_strategies_change_their_answers_where_it_is_said() -> None:
    asked: dict[str, int] = {}
    for strategy in VARIANTS:
        for seed in (3, 5):
            for table in ROUNDS:
                for row in some_of(recorded(strategy, seed)[table]):
                    asked[table] = asked.get(table, 0) + holds(recorded(strategy, seed), table, row)
    assert all(asked[table] >= 10 for table in ROUNDS), asked


def some_of(found: Any) -> list[Row]:
    by_rule: dict[str, list[Row]] = {}
    for row in found:
        by_rule.setdefault(f"{row['outcome']} {row['rule']}", []).append(row)
    return [row for alike in by_rule.values() for row in alike[:OF_A_RULE]]


def holds(given: SharedRows, table: str, row: Row) -> int:
    """How many changes of a row were asked again on both sides."""
    changes = AskedCycle(given).changes(table, row)
    assert changes is not None, f"{row['rule']} does not come out as recorded"
    count, as_it_was = 0, answer(table, given, row)
    for change in changes:
        if change.figure in ("rounds in a row", "time of the cycle"):
            continue
        step = 1.0 if is_whole(given, change) else CLOSE * max(abs(change.needed), 1e-3)
        side = 1.0 if change.is_more else -1.0
        beyond = change.needed + side * (0.0 if is_whole(given, change) else step)
        assert answer(table, with_change(given, change, beyond), row) != as_it_was, change.sentence
        short = answer(table, with_change(given, change, change.needed - side * step), row)
        assert short[:1] == as_it_was[:1], change.sentence
        count += 1
    return count


# The values are those that the rules' own arithmetic gives.

B = [f"b{n}:8080" for n in range(1, 5)]


def decided(reports: list[Row], bundles: list[Row], **overrides: Any) -> SharedRows:
    """A cycle of these, decided by the modular manager."""
    tables = {table: () for one in whole.ROUNDS for table in one.tables}
    given = SharedRows({**rows(reports, bundles, cycle=[cycle(**overrides)]), **tables})
    return decide_cycle(whole.ROUNDS, {}, given).rows


def change_of(given: SharedRows, table: str, subject: str) -> list[Change]:
    (row,) = [one for one in given[table] if one["subject"] == subject]
    return AskedCycle(given).changes(table, row) or []


FLOW = {"msg_throughput_in": 1e9, "msg_throughput_out": 0.0, "msg_rate_in": 1e3, "msg_rate_out": 0.0}


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        # Busier by x, it is nearer to its limit by x less a third.
        ({"loadBalancerBrokerThresholdShedderPercentage": 25}, 0.2 + (0.4 + 0.25 - 0.2) * 3 / 2),
        ({"loadBalancerLoadSheddingStrategy": "OverloadShedder"}, 0.85),
    ],
)
def test_a_broker_reaches_its_limit(overrides: dict[str, Any], needed: float) -> None:
    reports = [report(name, cpu, **FLOW) for name, cpu in zip(B, (20.0, 40.0, 60.0), strict=False)]
    bundles = [bundle(n, B[n % 3], 1e8) for n in range(6)]
    change = change_of(decided(reports, bundles, **overrides), "unload_decisions", B[0])[0]
    assert change.needed == pytest.approx(needed, rel=1e-6)
    assert change.measured == pytest.approx(0.2, rel=1e-6)
    assert change.is_more


def test_a_bundle_goes_or_stays_by_its_place_in_line() -> None:
    flow = {**FLOW, "msg_throughput_in": 8e7}
    reports = [report(B[0], 80.0, **flow), report(B[1], 10.0, **flow), report(B[2], 10.0, **flow)]
    bundles = [bundle(0, B[0], 5e7), bundle(1, B[0], 4e7), bundle(2, B[0], 1e7)]
    given = decided(reports, bundles)
    first, second = (bundles[n]["bundle"] for n in (0, 1))
    outcomes = {row["subject"]: row["outcome"] for row in given["unload_decisions"]}
    assert (outcomes[first], outcomes[second]) == ("unload", "kept")
    assert [one.needed for one in change_of(given, "unload_decisions", first)] == [pytest.approx(4e7)]
    assert [one.needed for one in change_of(given, "unload_decisions", second)] == [pytest.approx(5e7)]


def test_a_bundle_over_two_limits_is_split_for_the_other_one() -> None:
    given = decided(
        [report(name, 10.0) for name in B[:2]],
        [bundle(0, B[0], 3e8, long_msg_rate_in=300.0), bundle(1, B[1])],
        loadBalancerNamespaceBundleMaxMsgRate=100,
    )
    name = given["bundle_load"][0]["bundle"]
    (change,) = change_of(given, "split_decisions", name)
    assert (change.figure, change.measured, change.needed) == ("rate", 300.0, pytest.approx(100.0))
    assert change.sentence == (
        f"Had {name} carried 200 msg/s less, it would still have been split (for another reason: throughput over "
        "limit)."
    )


# Rules with a memory, and rules of time


def test_what_has_to_last_is_asked_in_further_rounds() -> None:
    overrides = {"loadBalancerLoadSheddingStrategy": "AvgShedder", "loadBalancerAvgShedderHitCountHighThreshold": 4,
                 "loadBalancerAvgShedderHitCountLowThreshold": 9}  # fmt: skip
    reports = [report(B[0], 90.0, **FLOW), report(B[1], 10.0, **{**FLOW, "msg_throughput_in": 1.0, "msg_rate_in": 1.0})]
    bundles = [bundle(n, B[0], 3e7, used_msg_rate_in=100.0, short_msg_rate_in=100.0) for n in range(3)]
    rounds, setting = change_of(decided(reports, bundles, **overrides), "unload_decisions", B[0])
    assert (rounds.figure, rounds.measured, rounds.needed) == ("rounds in a row", 1, 4)
    assert rounds.sentence.startswith("With 3 more rounds like this one, in a row, it would have been shed from")
    assert (setting.subject, setting.needed) == ("loadBalancerAvgShedderHitCountHighThreshold", 1)


def test_what_is_not_due_is_asked_at_later_times() -> None:
    reports, bundles = [report(name, 50.0) for name in B[:3]], [bundle(0, B[0], 1e6)]
    shed_at = {"strategy": "frame", "subject": "cluster", "name": "shed_at", "value": None,
               "at": "2026-11-21T08:26:46.000000+00:00"}  # fmt: skip
    given = decided(reports, bundles)
    given["state"] = [as_read("strategy_state", shed_at)]
    (row,) = shed_round.decide({}, given)["unload_decisions"]
    assert row["rule"] == "not_due"
    change = (AskedCycle(given).changes("unload_decisions", row) or [])[0]
    assert (change.measured, change.needed, change.unit) == (18_000, 60_000, "ms")
    assert change.sentence == "Had the cycle come 42 s later, the cluster would not have been left out (not due)."


# Rules of tomorrow


def test_a_rule_that_nobody_has_heard_of_is_asked_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sheds a broker whose rate is over a multiple of its usage: no strategy does."""
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    rules = [Rule(outcome, name, lambda row: "It is so.") for outcome, name in (("kept", "calm"), ("unload", "hot"))]

    def decide(_: Row, given: SharedRows) -> dict[str, list[Row]]:
        limit, made = settings_of(given).values()[key], []
        for name, one in broker_reports(given).items():
            rate, most = one.msg_rate_in + one.msg_rate_out, limit * one.cpu.usage
            verdict = rules[rate > most].about_broker(name, setting=key, measured=rate, threshold=most, unit="msg/s")
            made.append(reason_row(verdict, "Tomorrow"))
        return {"unload_decisions": made}

    monkeypatch.setitem(question_module._ROUNDS, "unload_decisions", decide)
    given = SharedRows(rows([report(B[0], 50.0, msg_rate_in=1_000.0, msg_rate_out=0.0)], [bundle(0, B[0], 1e6)]))
    (row,) = decide({}, given)["unload_decisions"]
    figure, setting = AskedCycle(given).changes("unload_decisions", row) or []
    assert figure.sentence == f"Had {B[0]} carried over 3,250 msg/s more, it would have been shed from (hot)."
    assert (figure.measured, figure.needed, figure.is_strict) == (1_000.0, 4_250.0, True)
    assert setting.sentence == f"With {key} at 19, {B[0]} would have been shed from (hot)."


def test_of_what_does_not_come_out_as_recorded_nothing_is_said() -> None:
    given = recorded("ThresholdShedder", 3)
    row = next(row for row in given["unload_decisions"] if row["subject_kind"] == "broker")
    assert AskedCycle(given).changes("unload_decisions", {**row, "measured": row["measured"] + 0.01}) is None
    assert AskedCycle(given).changes("unload_decisions", {**row, "rule": "another"}) is None


# Large clusters


@pytest.mark.parametrize("strategy", sorted(VARIANTS))
def test_fewer_rows_give_the_same_changes(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large cluster the rows of few brokers are asked first, and the whole of it on both sides of a boundary."""
    given = recorded(strategy, 4)
    asked = [(table, row) for table in ROUNDS for row in some_of(given[table])[:6]]
    monkeypatch.setattr(question_module, "MOST_CANDIDATES", 1)
    whole_cycle = [AskedCycle(given).changes(table, row) for table, row in asked]
    monkeypatch.setattr(question_module, "_MANY_BUNDLES", 1)
    fewer = [AskedCycle(given).changes(table, row) for table, row in asked]
    assert [of_row and [one.effect for one in of_row] for of_row in fewer] == [
        of_row and [one.effect for one in of_row] for of_row in whole_cycle
    ]
    for few, every in zip(fewer, whole_cycle, strict=True):
        for one, other in zip(few or (), every or (), strict=True):
            assert one.needed == pytest.approx(other.needed, rel=1e-6)
