"""Commands carried out on a cluster that answers over HTTP, also one that misbehaves: fence, send, look."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.connection import AdminConnection
from evenkeel.steering.broker_switches import hands_off
from evenkeel.steering.command_executor import CommandExecutor, Patience
from evenkeel.steering.outcome import Outcome
from tests.steering.commands import NOW, split, unload, unload_topic
from tests.steering.simulated import Fault, SimulatedPulsar, simulated

pytestmark = pytest.mark.slow

QUICK = Patience(answered_s=0.4, unanswered_s=0.6, unowned_s=0.1)
NS = "acme/orders"


@pytest.fixture
def lab() -> Iterator[SimulatedPulsar]:
    with simulated() as cluster:
        yield cluster


def steering(lab: SimulatedPulsar, patience: Patience = QUICK) -> CommandExecutor:
    return CommandExecutor(AdminClient(AdminConnection((lab.url,))), patience=patience)


def carried_out(lab: SimulatedPulsar, command: dict[str, object], patience: Patience = QUICK) -> Outcome:
    return steering(lab, patience).carry_out(command)


def acting(path: str) -> bool:
    return "/unload" in path or "/split" in path


def test_an_unload_to_a_broker_is_done_when_it_is_seen_there(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    made = carried_out(lab, unload(first, a, b))
    assert (made.outcome, made.detail) == ("done", f"the bundle is on {b}")
    assert lab.owner[first] == b
    assert lab.effects == [("unload", first, b)]


def test_an_unload_without_destination_is_done_wherever_the_bundle_goes(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    assert carried_out(lab, unload(first, a)).detail == f"the bundle is on {b}"


def test_a_bundle_that_nobody_asks_for_is_unloaded_and_owned_by_nobody() -> None:
    with simulated(clients=False) as lab:
        a, b, _ = lab.brokers
        first, *_ = lab.namespace(NS, 4)
        made = carried_out(lab, unload(first, a, b))
        assert made.outcome == "done"
        assert f"has left {a}, bound for {b}; no client has looked it up yet" in made.detail


def test_a_split_is_done_when_its_cuts_are_seen_and_positions_go_out_once_and_in_order(lab: SimulatedPulsar) -> None:
    first, *_ = lab.namespace(NS, 4)
    made = carried_out(lab, split(first, lab.brokers[0], 0x20000000, 0x10000000, 0x20000000))
    assert made.outcome == "done"
    assert lab.boundaries[NS][:4] == [0, 0x10000000, 0x20000000, 0x40000000]
    assert [body for *_, path, body in lab.requests if acting(path)] == ["[268435456, 536870912]"]


def test_a_topic_is_closed_once_by_its_owner_and_its_answer_tells(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    (whole,) = lab.namespace(NS, 1)
    lab.topics = {topic := f"persistent://{NS}/in voices"}
    made = carried_out(lab, unload_topic(whole, topic, a))
    assert (made.outcome, made.detail) == ("done", "its broker has closed the topic")
    assert lab.effects == [("unload_topic", topic, None)]
    gone = carried_out(lab, unload_topic(whole, f"persistent://{NS}/gone", a))
    assert gone.outcome == "stale"
    assert "not found" in gone.detail
    lab.owner[whole] = b
    assert carried_out(lab, unload_topic(whole, topic, a)).outcome == "stale"
    assert len(lab.effects) == 1


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_topic_of_which_nobody_can_tell_is_lost_and_not_sent_again(lab: SimulatedPulsar, status: int) -> None:
    (whole,) = lab.namespace(NS, 1)
    lab.topics = {topic := f"persistent://{NS}/t"}
    lab.faults = lambda _broker, method, _path: Fault(status=status) if method == "PUT" else None
    command = unload_topic(whole, topic, lab.brokers[0])
    made = carried_out(lab, command)
    assert made.outcome == "lost"
    assert "whether the topic was unloaded cannot be seen; it is not sent again" in made.detail
    again = steering(lab).look_again(command)
    assert again is not None
    assert again.outcome == "lost"
    assert len(lab.effects) == 1


def test_what_has_changed_since_it_was_decided_is_not_sent(lab: SimulatedPulsar) -> None:
    a, b, c = lab.brokers
    first, second, third, _ = lab.namespace(NS, 4)
    lab.owner[first] = c
    del lab.owner[second]
    lab.boundaries[NS].insert(3, 0x90000000)
    for command, words in (
        (unload(first, a, b), f"has left {a} already and is on {c}"),
        (unload(second, a, b), "has no owner"),
        (unload(third, a, b), "is not a bundle any more"),
        (unload("acme/gone/0x00000000_0xffffffff", a, b), "namespace acme/gone no longer exists"),
        (unload(second, a, b, expires_at=NOW - timedelta(seconds=1)), "expired at"),
    ):
        made = carried_out(lab, command)
        assert made.outcome == "stale"
        assert words in made.detail
    assert lab.effects == []


def test_a_dead_destination_that_is_still_listed_is_not_sent_to(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    lab.kill(b)
    made = carried_out(lab, unload(first, a, b))
    assert (made.outcome, lab.effects) == ("stale", [])
    assert f"its destination {b} does not answer" in made.detail


def test_an_owner_that_died_since_leaves_the_bundle_where_nobody_can_tell(lab: SimulatedPulsar) -> None:
    _, b, c = lab.brokers
    first, *_ = lab.namespace(NS, 4, owner=2)
    lab.kill(c)
    made = carried_out(lab, unload(first, c, b))
    assert made.outcome == "stale"
    assert made.detail == f"not sent: {c} does not answer"


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        (Fault(status=500, body='{"reason": "x\\nMessage: is being unloaded"}', works=False), "refused",
         "answered 500: is being unloaded; the bundle is on"),
        (Fault(status=500, body='{"reason": "late"}'), "done", "answered 500: late; the bundle is on"),
        (Fault(status=401, body="<html><h1>Unauthorized</h1></html>", works=False), "refused", "401"),
        (Fault(status=409, body='{"reason": "Not allowed"}', works=False), "refused", "409: Not allowed"),
        (Fault(status=412, body='{"reason": "Invalid upper boundary for bundle"}', works=False), "stale", "412"),
        (Fault(status=204, works=False), "timed_out", "as before; it is not sent any more"),
        (Fault(status=0, works=False), "timed_out", "did not answer"),
        (Fault(status=0), "done", "did not answer"),
        (Fault(status=503, body="<html>proxy</html>", works=False), "refused", "503"),
    ],
    ids=["500", "500 after", "401", "409", "412", "204 for nothing", "cut off", "cut off after", "proxy"],
)  # fmt: skip
def test_an_outcome_is_what_was_seen_whatever_was_answered(
    lab: SimulatedPulsar, fault: Fault, outcome: str, words: str
) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    lab.faults = lambda _broker, _method, path: fault if acting(path) else None
    made = carried_out(lab, unload(first, a, b))
    assert made.outcome == outcome
    assert words in made.detail
    assert len([one for one in lab.requests if acting(one[2])]) == 1
    assert lab.moves(first) == int(fault.works)


def test_a_destination_that_another_broker_won_is_said(lab: SimulatedPulsar) -> None:
    a, b, c = lab.brokers
    first, *_ = lab.namespace(NS, 4)

    def rival(_broker: str, _method: str, path: str) -> Fault | None:
        if acting(path):
            lab.owner[first] = c
            return Fault(status=204, works=False)
        return None

    lab.faults = rival
    made = carried_out(lab, unload(first, a, b))
    assert (made.outcome, made.detail) == ("overridden", f"the bundle is on {c}")


def test_a_bundle_that_left_and_came_back_was_not_moved() -> None:
    with simulated(clients=False) as lab:
        a, b, _ = lab.brokers
        first, *_ = lab.namespace(NS, 4)
        looks: list[str] = []

        def back(_broker: str, _method: str, path: str) -> Fault | None:
            if lab.effects and "/non-persistent/" in path:
                looks.append(path)
                if len(looks) > 3:
                    lab.owner[first] = a
            return None

        lab.faults = back
        made = carried_out(lab, unload(first, a, b), replace(QUICK, answered_s=1.0, unowned_s=1.0))
        assert made.outcome == "overridden"
        assert "it had left, and came back" in made.detail


@pytest.mark.parametrize("hung", [0, 1], ids=["source", "destination"])
def test_no_bundle_is_taken_from_a_broker_that_hangs_or_sent_to_one(lab: SimulatedPulsar, hung: int) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    silence = Fault(status=0, works=False)
    lab.faults = lambda broker, _, path: silence if broker == (a, b)[hung] and path.endswith("/partitions") else None
    made = carried_out(lab, unload(first, a, b))
    assert (made.outcome, lab.effects) == ("stale", [])
    words = (f"not sent: {a} does not answer", f"not sent: its destination {b} does not answer")
    assert made.detail == words[hung]


def test_no_page_of_a_proxy_is_an_owner(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    page = Fault(status=200, body="<html>Sign in</html>")
    lab.faults = lambda _broker, _method, path: page if "/non-persistent/" in path else None
    made = carried_out(lab, unload(first, a, b))
    assert (made.outcome, lab.effects) == ("stale", [])


def test_a_late_effect_is_waited_for(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace(NS, 4)
    seen: list[float] = []

    def slowly(_broker: str, _method: str, path: str) -> Fault | None:
        if acting(path):
            seen.append(time.monotonic())
            return Fault(status=204, works=False)
        if seen and time.monotonic() - seen[0] > 0.3:
            lab.owner[first] = b
        return None

    lab.faults = slowly
    assert carried_out(lab, unload(first, a, b), replace(QUICK, answered_s=5.0)).outcome == "done"


def test_what_an_earlier_try_may_have_sent_is_looked_at_again(lab: SimulatedPulsar) -> None:
    a, b, c = lab.brokers
    first, second, third, fourth = lab.namespace(NS, 4)
    lab.owner |= {second: b, third: c}
    del lab.owner[fourth]
    again = steering(lab).look_again
    assert again(unload(first, a, b)) is None
    found = [again(unload(bundle, a, b)) for bundle in (second, third, fourth)]
    assert [one.outcome if one else None for one in found] == ["done", "overridden", "done"]
    assert again(split(first, a, 0x10000000)) is None
    freed = again(unload(third, a))
    assert freed is not None
    assert (freed.outcome, freed.detail) == ("done", f"the bundle is on {c}")


def test_brokers_that_steer_themselves_are_named_with_the_command_that_ends_it(lab: SimulatedPulsar) -> None:
    client = AdminClient(AdminConnection((lab.url,)))
    assert hands_off(client) == ()
    lab.configuration[lab.brokers[1]]["loadBalancerSheddingEnabled"] = "true"
    (said,) = hands_off(client)
    assert lab.brokers[1] in said
    assert "update-dynamic-config --config loadBalancerSheddingEnabled --value false" in said
    lab.kill(lab.brokers[2])
    assert any(f"{lab.brokers[2]} did not return its configuration" in one for one in hands_off(client))


def test_names_that_need_quoting_survive(lab: SimulatedPulsar) -> None:
    a, b, _ = lab.brokers
    first, *_ = lab.namespace('acme/it\'s %2F "ü"', 2)
    assert carried_out(lab, unload(first, a, b)).outcome == "done"
