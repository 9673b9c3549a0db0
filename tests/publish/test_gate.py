"""Whether a plan may be carried out: each reason against it, in words."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import SettingsError
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.lake.controls import Lease
from evenkeel.lake.store import Lake
from evenkeel.publish import dispatch
from evenkeel.publish.dispatch import ClusterCommands, GateReasons, OutcomeRecorder, Sending, for_queue
from evenkeel.publish.gate import GateFacts, gate_reasons, is_approved, on_splits, why_withheld, why_without_splits
from evenkeel.steering.dispatcher import DispatchResult, Halt, LeaseGuard, Timing
from evenkeel.steering.outcome import Outcome

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def facts(**more: Any) -> GateFacts:
    given: dict[str, Any] = {
        "cycle_at": AT, "plan_id": "p" * 64, "kind": "live", "mode": "auto", "now": AT + timedelta(seconds=30),
        "newest_at": AT, "max_age": timedelta(minutes=20), "ahead": timedelta(minutes=5),
    }  # fmt: skip
    return GateFacts(**(given | more))


def answer(word: str, minutes: int = 1, plan: str = "p" * 64, note: str | None = None) -> dict[str, Any]:
    return {"plan_id": plan, "answer": word, "by": "jo", "at": AT + timedelta(minutes=minutes), "note": note}


def test_the_newest_young_live_cycle_may_be_carried_out() -> None:
    assert why_withheld(facts()) is None
    assert why_withheld(facts(kind="rerun", newest_at=None)) is None
    assert why_withheld(facts(now=AT + timedelta(minutes=20))) is None
    assert why_withheld(facts(now=AT - timedelta(minutes=5))) is None, "as far ahead as is let pass"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "backfill"}, "a backfill decides anew what was"),
        ({"newest_at": AT + timedelta(minutes=5)}, "a newer cycle is on record (2026-11-21T08:05:00+00:00)"),
        ({"now": AT + timedelta(minutes=21)}, "the cycle is 21 min old, and its figures count for 20 min"),
        (
            {"now": AT + timedelta(seconds=120), "max_age": timedelta(seconds=119)},
            "the cycle is 2 min old, and its figures count for 119 s",
        ),
        ({"now": AT - timedelta(minutes=10)}, "lies 10 min ahead of this machine's clock"),
        ({"sent_plans": frozenset({"q" * 64})}, "commands of another plan of this cycle went out (qqqqqqqqqqqq)"),
        (
            {"requested_at": AT - timedelta(minutes=5)},
            "the cycle of 2026-11-21T07:55:00+00:00 took up a request of this",
        ),
        ({"paused": "lab is paused by jo"}, "lab is paused by jo"),
        ({"unreachable": "no admin URL is configured"}, "no admin URL is configured"),
        ({"mode": "approve", "answers": (answer("rejected", note="too much"),)}, "jo rejected the plan at"),
    ],
)
def test_what_speaks_against_it_is_said(change: dict[str, Any], words: str) -> None:
    reason = why_withheld(facts(**change))
    assert reason is not None
    assert words in reason


def test_its_own_plan_may_go_on_where_a_try_was_killed() -> None:
    assert why_withheld(facts(sent_plans=frozenset({"p" * 64}))) is None


def test_an_approval_holds_for_its_very_plan_and_the_last_answer_counts() -> None:
    waiting = {"mode": "approve"}
    assert is_approved(facts())
    assert not is_approved(facts(**waiting))
    assert not is_approved(facts(**waiting, answers=(answer("approved", plan="q" * 64),)))
    assert is_approved(facts(**waiting, answers=(answer("rejected", 1), answer("approved", 2))))
    assert not is_approved(facts(**waiting, answers=(answer("approved", 1), answer("rejected", 2))))
    assert not is_approved(facts(**waiting, answers=(answer("approved", 2), answer("rejected", 2))))


def test_a_plan_that_is_approved_without_its_splits_may_be_sent_and_says_by_whom() -> None:
    found = facts(mode="approve", answers=(answer("approved_without_splits", note="not tonight"),))
    assert is_approved(found)
    assert why_withheld(found) is None
    said = "jo approved the plan without its splits at 2026-11-21T08:01:00+00:00: not tonight"
    assert why_without_splits(found) == said
    assert gate_reasons({"east": found, "west": facts()}) == GateReasons({}, {"east": said})


CAUTION = ("approved", "approved_without_splits", "rejected", "a word of a later version")


@given(words=st.lists(st.tuples(st.sampled_from(CAUTION), st.integers(0, 3)), max_size=6))
def test_the_last_answer_counts_and_of_one_moment_the_one_that_sends_less(words: list[tuple[str, int]]) -> None:
    found = facts(mode="approve", answers=tuple(answer(word, minutes) for word, minutes in words))
    latest = max((minutes for _, minutes in words), default=0)
    ranks = [CAUTION.index(word) for word, minutes in words if minutes == latest]
    assert is_approved(found) == (bool(ranks) and max(ranks) < 2)
    assert (why_withheld(found) is not None) == (bool(ranks) and max(ranks) >= 2)
    assert (why_without_splits(found) is not None) == (bool(ranks) and max(ranks) == 1)


def command(kind: str, bundle: str) -> dict[str, Any]:
    return {"command_id": f"{kind} {bundle}", "kind": kind, "bundle": bundle}


def test_a_split_takes_along_what_is_there_only_once_it_is_done() -> None:
    whole, half, quarter = "t/n/0x00000000_0x80000000", "t/n/0x00000000_0x40000000", "t/n/0x20000000_0x40000000"
    rest = [
        command("unload", "t/n/0x80000000_0xffffffff"),
        command("unload", "t/other/0x00000000_0x40000000"),
        command("unload_topic", "t/n/0x80000000_0xffffffff"),
    ]
    resting = [
        command("split", whole), command("split", half), command("unload", quarter),
        command("unload_topic", "t/n/0x40000000_0x80000000"),
    ]  # fmt: skip
    assert on_splits([*resting, *rest]) == {one["command_id"] for one in resting}
    assert on_splits(rest) == frozenset()


@given(st.data())
def test_what_is_sent_without_splits_is_for_bundles_that_are_there(data: st.DataObject) -> None:
    """Bundles of a namespace before the plan, some of them cut, and unloads of what is there after the cuts."""
    bounds = [0, *sorted(data.draw(st.sets(st.integers(1, 254), max_size=6))), 255]
    before = [*pairwise(bounds)]
    after, splits = [*before], []
    for _ in range(data.draw(st.integers(0, 4))):
        lower, upper = data.draw(st.sampled_from(after))
        if upper - lower > 1:
            cut = data.draw(st.integers(lower + 1, upper - 1))
            after.remove((lower, upper))
            after += [(lower, cut), (cut, upper)]
            splits.append((lower, upper))

    def named(one: tuple[int, int]) -> str:
        return f"t/n/0x{one[0]:02x}000000_0x{one[1]:02x}{'ffffff' if one[1] == 255 else '000000'}"

    unloads = data.draw(st.lists(st.sampled_from(after), unique=True))
    commands = [command("split", named(one)) for one in splits] + [command("unload", named(one)) for one in unloads]
    left_out = on_splits(commands)
    sent = {one["bundle"] for one in commands if one["command_id"] not in left_out}
    assert sent == {named(one) for one in unloads if one in before}


def test_a_queue_gets_what_is_not_left_out_and_nothing_is_said_of_what_may_be_on_it_already() -> None:
    names = ("split before", "split now", "unload")
    commands = [{"command_id": name} for name in names]
    cycle: Any = None
    batch = ClusterCommands(cycle, commands, tried=frozenset({names[0]}), on_splits=frozenset(names[:2]))
    guard, told = LeaseGuard("east", Timing(), 0.0), list[Outcome]()
    assert for_queue(batch, guard, told.append) == commands
    guard.without_splits = "jo said so"
    assert for_queue(batch, guard, told.append) == commands[2:]
    assert [(one.command_id, one.outcome, one.detail) for one in told] == [
        (names[1], "withheld", "not sent: jo said so")
    ]


def batch_of(cluster: str, *ids: str, tried: str = "", **more: Any) -> ClusterCommands:
    cycle = ClusterCycle(cluster, AT.isoformat(), Snapshot("", AT.isoformat()), {}, **more)
    return ClusterCommands(cycle, [{"command_id": name} for name in ids], tried=frozenset({tried}))


def test_a_cluster_whose_secrets_are_missing_is_told_so_and_the_others_are_sent() -> None:
    """One over its brokers' admin API and one over queues lack theirs."""
    queues = {"commands": "https://sqs.eu/commands", "reports": "https://sqs.eu/reports"}
    batches = {
        "east": batch_of("east", "c1"), "north": batch_of("north", "c2"),
        "south": batch_of("south", "c3", queues=queues),
    }  # fmt: skip

    def reach(cycle: ClusterCycle) -> Any:
        if cycle.cluster == "east":
            raise SettingsError("EVENKEEL_TOKEN_EAST is not set")

    def signature(cycle: ClusterCycle) -> Any:
        raise SettingsError(f"the keys of {cycle.cluster} are not set")

    spark: Any = None
    sending = Sending(reach, signature=signature)
    records = OutcomeRecorder(spark, Lake("/lake"), Handover("/lake", Run("d", "r"), ()), sending)
    lease = dispatch.HeldLease(Lease("", "us", 1, AT, AT), 0.0)
    works, unreachable = dispatch._works(batches, dict.fromkeys(batches, lease), records, sending)
    assert works.keys() == {"north"}
    assert unreachable == {
        "east": DispatchResult("EVENKEEL_TOKEN_EAST is not set"),
        "south": DispatchResult("the keys of south are not set"),
    }
    told = [dispatch._unsent(batches[cluster], result, records) for cluster, result in unreachable.items()]
    assert [(one.command_id, one.outcome, one.detail) for (one,) in told] == [
        ("c1", "withheld", "not sent: EVENKEEL_TOKEN_EAST is not set"),
        ("c3", "withheld", "not sent: the keys of south are not set"),
    ]


@pytest.mark.parametrize(
    ("done", "unsent"),
    [
        (DispatchResult("east is paused by jo"), ["later"]),
        (DispatchResult(), []),
        (DispatchResult("taken over", is_lost=True), []),
        (DispatchResult("broken", error=RuntimeError()), []),
    ],
)
def test_where_sending_stops_midway_the_rest_is_withheld_and_what_may_be_out_is_not(
    done: DispatchResult, unsent: list[str]
) -> None:
    spark: Any = None
    records = OutcomeRecorder(spark, Lake("/lake"), Handover("/lake", Run("d", "r"), ()), None)
    records.reported, records.out = {"reported"}, {"on the queue"}
    batch = batch_of("east", "reported", "on the queue", "tried", "later", tried="tried")
    found = dispatch._unsent(batch, done, records)
    assert [one.command_id for one in found] == unsent
    assert {(one.outcome, one.detail) for one in found} <= {("withheld", "not sent: east is paused by jo")}


def test_the_gate_is_asked_whenever_a_table_that_it_reads_has_changed_and_the_last_read_is_the_list_of_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"/lake/cycles": 3, "/lake/approvals": 0, "/lake/controls": 1}
    asked: list[list[str]] = []
    holders = {"east": "us", "west": "us"}
    outside: dict[str, str] = {}
    spark: Any = None

    def gate(clusters: Sequence[str]) -> GateReasons:
        asked.append([*clusters])
        if len(asked) == 2:
            versions["/lake/controls"] += 1  # written while the gate was asked
        return GateReasons({"east": "jo rejected the plan"}, {"west": "without"} if len(asked) == 2 else {})

    def leases(_lake: Any, clusters: Sequence[str]) -> dict[str, Lease]:
        return {name: Lease(name, holders[name], 1, AT, AT) for name in clusters}

    monkeypatch.setattr(dispatch, "newest_version", versions.__getitem__)
    monkeypatch.setattr(dispatch, "leases", leases)
    monkeypatch.setattr(dispatch, "holder_name", lambda: "us")
    sending = Sending(reach=lambda cycle: pytest.fail("nothing is reached here"), halted=outside.get)
    records = OutcomeRecorder(spark, Lake("/lake"), Handover("/lake", Run("d", "r"), ()), sending, gate)
    rejected = {"east": Halt("jo rejected the plan")}
    assert records.halts(["east"]) == records.halts(["east"]) == rejected
    assert records.halts([]) == {}
    assert asked == [["east"]], "nothing has changed"
    versions["/lake/approvals"] = 1
    assert records.halts(["east", "west"]) == rejected
    assert asked == [["east"], ["east", "west"], ["east", "west"]], "again, since a table changed meanwhile"
    assert records.without_splits == {}, "by the last look"
    outside["west"] = "halted by a variable"
    assert records.halts(["east", "west"]) == rejected | {"west": Halt("halted by a variable")}
    holders["west"] = "another"
    versions["/lake/controls"] += 1
    assert records.halts(["east", "west"])["west"] == Halt("another publisher has taken over west", is_lost=True)


def test_an_approval_that_comes_after_the_plans_time_sends_nothing() -> None:
    late = facts(mode="approve", now=AT + timedelta(minutes=21), answers=(answer("approved", 21 * 60),))
    assert is_approved(late)
    assert "the cycle is 21 min old" in str(why_withheld(late))
    newer = facts(mode="approve", newest_at=AT + timedelta(minutes=5), answers=(answer("approved"),))
    assert "a newer cycle is on record" in str(why_withheld(newer))
