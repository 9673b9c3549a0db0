"""One outcome per observation, whoever made it: the publisher, the agent, or the next cycle."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.ingest.task import settled
from evenkeel.lake.outbox import OPEN, as_text
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.steering.agent.processor import ClusterExecutor
from evenkeel.steering.command_executor import CommandExecutor, Patience
from evenkeel.steering.outcome import STRENGTH, TABLE, AnswerKind, Observation, Outcome, row_of
from evenkeel.steering.premise import Sight
from tests.steering.commands import NOW, split, unload
from tests.steering.simulated import Fault, SimulatedPulsar, simulated

pytestmark = pytest.mark.slow

SWITCH = (False, True)
ALL = [Observation(*given) for given in product(AnswerKind, (None, *Sight), SWITCH, SWITCH, SWITCH, SWITCH, SWITCH)]
SILENT = (AnswerKind.TAKEN, AnswerKind.NONE)
"""Answers that tell nothing of an effect."""


def outcome(seen: Observation) -> str | None:
    row = row_of(seen)
    return None if row is None else row.outcome


def expected(seen: Observation) -> str | None:
    """The rules in words of their own: refusals, then effects, then what is said at the end."""
    if seen.answer is AnswerKind.REFUSED:
        return "refused"
    if seen.answer is AnswerKind.NO_PREMISE:
        return "stale"
    if seen.sight is Sight.EFFECT or (seen.sight is Sight.ELSEWHERE and seen.any_broker):
        return "done"
    if seen.sight is Sight.UNTOUCHED and seen.answer is AnswerKind.FAILED and not seen.had_left:
        return "refused"
    at_the_end: dict[Sight | None, str] = {
        Sight.UNOWNED: "done",
        Sight.ELSEWHERE: "overridden",
        Sight.GONE: "overridden",
    }
    once_over: dict[Sight | None, str] = {
        Sight.UNTOUCHED: "overridden" if seen.had_left else "timed_out",
        Sight.UNKNOWN: "lost" if seen.is_expired else "unknown",
    }
    if seen.is_last and seen.sight in at_the_end:
        return at_the_end[seen.sight]
    return once_over.get(seen.sight) if seen.is_over else None


def test_every_combination_has_the_outcome_of_the_rules() -> None:
    wrong = {seen: outcome(seen) for seen in ALL if outcome(seen) != expected(seen)}
    assert wrong == {}
    assert {outcome(seen) for seen in ALL} - {None} <= set(STRENGTH)


def test_every_row_is_the_answer_to_some_combination() -> None:
    assert {row_of(seen) for seen in ALL} == {*TABLE, None}


def test_at_the_end_there_is_one_outcome_for_whatever_was_seen() -> None:
    ends = [seen for seen in ALL if seen.is_last and seen.is_over and seen.sight is not None]
    assert [seen for seen in ends if row_of(seen) is None] == []


def test_whether_pulsar_said_yes_or_nothing_makes_no_difference() -> None:
    rest = list(product((None, *Sight), SWITCH, SWITCH, SWITCH, SWITCH, SWITCH))
    assert len({tuple(row_of(Observation(answer, *one)) for one in rest) for answer in SILENT}) == 1


# What is there after a command for the first bundle of the namespace, which was on the first broker: and the outcome.
NS = "acme/orders"
SCENES = {
    "untouched": "timed_out",
    "there": "done",
    "elsewhere": "overridden",
    "nobody's": "done",
    "split": "overridden",
    "merged": "overridden",
    "hung": "unknown",
    "silent": "unknown",
}


def play(lab: SimulatedPulsar, scene: str, bundle: str) -> None:
    """Brings the cluster into the state of the scene."""
    _, b, c = lab.brokers
    match scene:
        case "there":
            lab.owner[bundle] = b
        case "elsewhere" | "silent":
            lab.owner[bundle] = c
        case "nobody's" | "hung":
            del lab.owner[bundle]
        case "split":
            lab.boundaries[NS].insert(1, 0x10000000)
        case "merged":
            lab.boundaries[NS].remove(0x40000000)
    if scene == "hung":  # while it acquires the bundle
        silence = Fault(status=0, works=False)
        lab.faults = lambda broker, _method, path: silence if "/non-persistent/" in path and broker == b else None
    if scene == "silent":
        lab.kill(c)


def rows(lab: SimulatedPulsar, scene: str, bundle: str) -> dict[str, list[dict[str, Any]]]:
    """The cluster as a snapshot of it shows it."""
    telling = {one for one in lab.alive if scene != "hung" or one != lab.brokers[1]}
    owners = {lab.owner.get(bundle)} & telling
    return {
        "namespace_bundles": [{"namespace": NS, "boundaries": [f"0x{one:08x}" for one in lab.boundaries[NS]]}],
        "bundle_ownership": [{"bundle": bundle, "broker": owner, "is_owned": True} for owner in owners],
        "broker_reports": [
            {"broker": one, "is_listed": True, "owned_bundles": 3 if one in telling else None} for one in lab.brokers
        ],
    }


def next_cycle(lab: SimulatedPulsar, scene: str, command: dict[str, Any], at: datetime) -> Outcome | None:
    """What the next cycle says of the command, which its publisher left without an outcome."""
    act = as_text({**command, "outcome": None, "detail": None, "seen_at": None})
    cycle = ClusterCycle("lab", at.isoformat(), Snapshot("", ""), {}, acts=(act,))
    found = settled(cycle, rows(lab, scene, command["bundle"]), at).outcomes
    return Outcome(*(found[0][column.name] for column in fields(Outcome))) if found else None


@pytest.fixture
def lab() -> Iterator[SimulatedPulsar]:
    with simulated() as cluster:
        yield cluster


def carrier(lab: SimulatedPulsar, way: str) -> CommandExecutor | ClusterExecutor:
    client = AdminClient(AdminConnection((lab.url,)))
    if way == "agent":
        return ClusterExecutor(client, longest_request_s=0.5, now=lambda: datetime.now(UTC))
    return CommandExecutor(client, patience=Patience(answered_s=0.3, unanswered_s=0.5, unowned_s=0.1))


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(("way", "status"), [("publisher", 204), ("publisher", 0), ("agent", 0)])
def test_the_one_who_sends_and_the_next_cycle_come_to_the_same(
    lab: SimulatedPulsar, way: str, status: int, scene: str
) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    command = unload(first, a, b)

    def answer(_broker: str, _method: str, path: str) -> Fault | None:
        if "/unload" not in path:
            return None
        play(lab, scene, first)
        return Fault(status=status, works=False)

    lab.faults = answer
    sent = carrier(lab, way).carry_out(command)
    told = next_cycle(lab, scene, command, datetime.now(UTC))
    assert sent.outcome == SCENES[scene], sent.detail
    if sent.outcome in OPEN:
        assert told is None, "the next cycle cannot tell either, and puts nothing on record"
    else:
        assert told is not None
        assert told.outcome == sent.outcome
        assert told.detail.removeprefix("seen by the next cycle: ") in sent.detail


@pytest.mark.parametrize("way", ["publisher", "agent"])
@pytest.mark.parametrize(
    ("scene", "is_expired"),
    [*((scene, False) for scene in SCENES if scene != "untouched"), ("hung", True), ("silent", True)],
)
def test_the_one_who_looks_again_and_the_next_cycle_come_to_the_same(
    lab: SimulatedPulsar, way: str, scene: str, is_expired: bool
) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    command = unload(first, a, b, expires_at=NOW + timedelta(days=-1 if is_expired else 1))
    looking = carrier(lab, way)
    play(lab, scene, first)
    again = looking.look_again(command)
    told = next_cycle(lab, scene, command, datetime.now(UTC))
    wanted = "lost" if is_expired and SCENES[scene] == "unknown" else SCENES[scene]
    assert again is not None
    assert again.outcome == wanted, again.detail
    assert (told.outcome if told is not None else "unknown") == wanted
    assert told is None or told.detail == f"seen by the next cycle: {again.detail}"


def test_a_split_that_left_no_trace_comes_to_the_same(lab: SimulatedPulsar) -> None:
    a, *_ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    command = split(first, a, 0x10000000)
    lab.faults = lambda _broker, _method, path: Fault(status=204, works=False) if "/split" in path else None
    sent = carrier(lab, "publisher").carry_out(command)
    told = next_cycle(lab, "untouched", command, datetime.now(UTC))
    assert (sent.outcome, sent.detail) == ("timed_out", "the bundle is whole, as before; it is not sent any more")
    assert told is not None
    assert (told.outcome, told.detail) == (sent.outcome, f"seen by the next cycle: {sent.detail}")


def test_a_bundle_that_came_back_was_not_moved_whatever_was_answered(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    looks: list[str] = []

    def back(_broker: str, _method: str, path: str) -> Fault | None:
        if "/unload" in path:
            del lab.owner[first]
            looks.append(path)
            return Fault(status=500, body='{"reason": "late"}', works=False)
        if looks and "/non-persistent/" in path:
            looks.append(path)
            if len(looks) > 2:
                lab.owner[first] = a
        return None

    lab.faults = back
    made = carrier(lab, "publisher").carry_out(unload(first, a, b))
    assert made.outcome == "overridden"
    assert "answered 500: late" in made.detail
    assert "it had left, and came back" in made.detail
