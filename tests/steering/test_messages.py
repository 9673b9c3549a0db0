"""Messages on the wire, and sending many of them when parts of it fail."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.steering.outcome import STRENGTH, Outcome, decisive
from evenkeel.steering.queue.fifo import (
    SEND_TRIES,
    BadMessage,
    Letter,
    LetterFailure,
    QueueRefused,
    QueueUnreachable,
    command_group,
    control_group,
    report_group,
    send_all,
    waves,
)
from evenkeel.steering.queue.messages import (
    AgentReport,
    Control,
    command_body,
    control_body,
    deed,
    read_command,
    read_message,
    read_report,
    report_body,
)
from tests.steering.commands import unload_topic
from tests.steering.queue.examples import command

NOW = datetime(2026, 11, 21, 9, 0, 0, 123456, UTC)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.text(st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["C", "Z"]), min_size=1)


@given(names, names, texts, st.none() | st.lists(st.integers(1, 2**30 - 1), min_size=1), st.none() | st.booleans())
def test_a_command_survives_the_wire(tenant: str, name: str, text: str, cuts: list[int] | None, flag: bool) -> None:
    kind = {"kind": "split", "destination": None} if cuts else {"kind": "unload", "destination": "[::1]:8080"}
    row = command(namespace=f"{tenant}/{name}", algorithm=text, cuts=cuts, unload_children=flag, expires_at=NOW, **kind)
    body = command_body(row)
    assert body.isascii()
    assert read_command(body) == row
    assert deed(read_command(body)) == deed(row)
    group = command_group(row["bundle"])
    assert 1 <= len(group) <= 128
    assert all("!" <= sign <= "~" for sign in group)
    assert not group.startswith("control-")


def test_a_topics_unload_survives_the_wire_and_a_topic_stands_only_in_its_own_message() -> None:
    topic = "persistent://acme/orders/t"
    row = unload_topic("acme/orders/0x00000000_0xffffffff", topic, "b1:8080", cycle_at=NOW, expires_at=NOW)
    assert read_command(command_body(row)) == row
    assert '"topic"' not in command_body(command(destination=None))
    without = json.loads(command_body(row))
    del without["command"]["topic"]
    with pytest.raises(BadMessage, match="an unload of a topic names one"):
        read_command(json.dumps(without))


@given(texts, st.sampled_from(STRENGTH), st.none() | texts)
def test_a_report_survives_the_wire(detail: str, outcome: str, cluster: str | None) -> None:
    report = AgentReport(Outcome("c-1", outcome, NOW, detail), "agent-1", cluster, None, NOW if cluster else None)
    assert read_report(report_body(report)) == report


def test_a_control_survives_the_wire() -> None:
    for control in (
        Control("pause", "lab", NOW, "Ölga", "because\nof it"),
        Control("withdraw", "lab", NOW, "evenkeel", "", "plan-1"),
    ):
        assert read_message(control_body(control)) == control


@pytest.mark.parametrize(
    "control", [Control("pause", "lab", NOW, "jo", "", "p"), Control("withdraw", "lab", NOW, "jo", "")]
)
def test_a_plan_stands_with_its_withdrawal_and_nowhere_else(control: Control) -> None:
    with pytest.raises(BadMessage, match="a plan is what `withdraw` names"):
        control_body(control)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(command())), json_values)
def test_a_command_with_anything_in_a_field_is_read_or_refused_in_words(name: str, value: object) -> None:
    body = json.loads(command_body(command()))
    body["command"][name] = value
    try:
        words = command_body(read_command(json.dumps(body)))
    except BadMessage as error:
        words = str(error)
    assert 0 < len(words) < 2000


@given(st.text() | json_values.map(json.dumps))
def test_anything_at_all_is_refused_in_words(body: str) -> None:
    for read in (read_message, read_report):
        with pytest.raises(BadMessage):
            read(body)


def test_groups_of_different_names_are_different() -> None:
    long = "acme/" + "n" * 130
    groups = [command_group(f"{name}/0x0_0x1") for name in ("acme/a", "acme/é", "acme/è", long, long + "n")]
    groups += [report_group("c1"), report_group("c" * 200), control_group("c1")]
    assert len(set(groups)) == len(groups)


class FailingQueue:
    """SQS on bad days: answers as told, and keeps what it took in the order in which it took it."""

    def __init__(self, *days: object) -> None:
        self._days = list(days)
        self.kept: list[str] = []
        self.requests = 0

    def send(self, letters: list[Letter]) -> list[LetterFailure | None]:
        assert len(letters) <= 10
        assert len({one.group for one in letters}) == len(letters)
        self.requests += 1
        day = self._days.pop(0) if self._days else None
        if isinstance(day, Exception):
            raise day
        failed = day if isinstance(day, dict) else {}
        self.kept += [one.body for one in letters if one.body not in failed and one.body not in self.kept]
        return [failed.get(one.body) for one in letters]


def letters(*bodies: str) -> list[Letter]:
    """`a1` is the first letter of group a."""
    return [Letter(body, body[0], body) for body in bodies]


AGAIN, FINAL = LetterFailure("busy", final=False), LetterFailure("too long", final=True)


def test_only_what_failed_is_sent_again_and_order_holds_in_each_group() -> None:
    queue = FailingQueue({"a1": AGAIN, "c1": AGAIN}, {"c1": AGAIN})
    waits: list[float] = []
    assert send_all(queue, letters("a1", "a2", "b1", "c1", "b2", "a3"), sleep=waits.append) == []  # type: ignore[arg-type]
    assert sorted(queue.kept) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    for group in "abc":
        own = [body for body in queue.kept if body[0] == group]
        assert own == sorted(own)
    assert len(waits) == 2
    assert waits[1] > waits[0] / 2


def test_what_fails_for_good_holds_back_its_group_alone() -> None:
    queue = FailingQueue({"a1": FINAL})
    unsent = send_all(queue, letters("a1", "a2", "b1", "b2"), sleep=lambda _: None)  # type: ignore[arg-type]
    assert queue.kept == ["b1", "b2"]
    assert [(one.letter.body, one.reason, one.possible) for one in unsent] == [
        ("a1", "too long", False),
        ("a2", "an earlier one was not sent: too long", False),
    ]


def test_after_silence_a_letter_may_be_on_the_queue_and_nothing_more_is_sent() -> None:
    queue = FailingQueue(*[QueueUnreachable("no answer")] * SEND_TRIES)
    unsent = send_all(queue, letters("a1", "a2", "b1"), sleep=lambda _: None)  # type: ignore[arg-type]
    assert {one.letter.body: one.possible for one in unsent} == {"a1": True, "b1": True, "a2": False}
    assert queue.requests == SEND_TRIES


def test_silence_that_ends_loses_nothing() -> None:
    queue = FailingQueue(QueueUnreachable("no answer"), {"a1": AGAIN}, QueueUnreachable("no answer"))
    assert send_all(queue, letters("a1", "a2", "b1"), sleep=lambda _: None) == []  # type: ignore[arg-type]
    assert Counter(queue.kept) == Counter(["a1", "a2", "b1"])


def test_a_refusal_is_not_tried_again() -> None:
    queue = FailingQueue(QueueRefused("no such queue"))
    unsent = send_all(queue, letters("a1", "b1"), sleep=lambda _: None)  # type: ignore[arg-type]
    assert queue.requests == 1
    assert [one.reason for one in unsent] == ["no such queue"] * 2
    assert not any(one.possible for one in unsent)


def test_waves_hold_one_letter_of_a_group() -> None:
    bodies = [[one.body for one in wave] for wave in waves(letters("a1", "a2", "b1", "a3"))]
    assert bodies == [["a1", "b1"], ["a2"], ["a3"]]


@given(st.permutations(STRENGTH), st.randoms())
def test_the_outcome_that_stands_does_not_depend_on_the_order_of_reports(order: list[str], random) -> None:
    told = [Outcome("c1", outcome, NOW, outcome) for outcome in order]
    chosen = random.sample(told, 3)
    strongest = min(chosen, key=lambda one: STRENGTH.index(one.outcome))
    assert decisive(chosen) == decisive(list(reversed(chosen))) == {"c1": strongest}
