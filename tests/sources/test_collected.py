"""What a cycle's answers come to in this process: its own and the lent ones together are held to the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evenkeel.pulsar.limits import MIB, BeyondLimit, Limits
from evenkeel.sources import collected
from evenkeel.sources.collected import LENT, OWN, SnapshotAnswers, collect_answers, together

LIMITS = Limits(requests=5, small_answers_mib=3, json_values=30)


def row(snapshot: int, n: int, body: str | None = "{}", unread: str | None = None) -> dict[str, Any]:
    asked = {"broker": "b1:8080", "method": "GET", "path": f"/admin/v2/clusters/{n}", "status": 200}
    return {
        **asked, "snapshot": snapshot, "n": n, "at": None, "location": None, "size": 2, "body": body, "unread": unread,
        "is_cut": False,
    }  # fmt: skip


class Rows:
    """Rows as Spark streams them; `asked` counts how often, `sent` how many went over the wire."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows, self.asked, self.sent = list(rows), 0, 0

    def toLocalIterator(self) -> Any:
        self.asked += 1
        for one in self.rows:
            self.sent += 1
            yield one


def collecting(rows: Sequence[dict[str, Any]], number: int = 0, limits: Limits = LIMITS) -> SnapshotAnswers:
    one = collected._Collecting(limits)
    for each in rows:
        if each["snapshot"] == number:
            one.take(each)
    return one.end()


def test_own_and_lent_answers_are_told_apart() -> None:
    own = collecting([row(0, 0), row(0, 1, None, unread="{broken")])
    lent = collecting([row(0, 0), row(0, 1)])
    found = together(own, lent, LIMITS)
    assert found.beyond is None
    assert {source: len(answers) for source, answers in found.answers.items()} == {OWN: 1, LENT: 2}
    assert [(one.n, one.text, one.source) for one in found.unread] == [(1, "{broken", OWN)]
    assert found.size == own.size + lent.size
    assert together(SnapshotAnswers(), None, LIMITS).answers == {}


@pytest.mark.parametrize(
    ("own", "lent", "words"),
    [
        (6, 0, "the snapshot has 6 requests and more"),
        (4, 2, "the snapshot has 6 requests and more"),
        (0, 9, "the snapshot has 6 requests and more"),
        (3, 2, None),
    ],
    ids=["own", "together", "lent", "at-the-limit"],
)
def test_requests_are_counted_together(own: int, lent: int, words: str | None) -> None:
    found = together(collecting([row(0, n) for n in range(own)]), collecting([row(0, n) for n in range(lent)]), LIMITS)
    assert (found.beyond is None) == (words is None)
    assert str(words) in str(found.beyond) or words is None
    assert found.beyond is None or not found.answers


@pytest.mark.parametrize(
    ("body", "words"),
    [("x" * MIB, "have 3,145,875 bytes and more"), ("[1,2,3,4,5,6,7,8]", "hold 32 values of JSON and more")],
    ids=["bytes", "values"],
)
def test_the_first_request_that_is_too_much_is_told_of(body: str, words: str) -> None:
    """As they stand: the own ones first."""
    found = together(
        collecting([row(0, n, body) for n in range(2)]), collecting([row(0, n, body) for n in range(3)]), LIMITS
    )
    assert words in str(found.beyond)


def test_a_limit_of_a_snapshot_that_lends_is_that_of_whoever_borrows() -> None:
    lent = collecting([row(0, n) for n in range(5)])
    assert together(SnapshotAnswers(), lent, LIMITS).beyond is None
    assert "4 requests and more" in str(together(SnapshotAnswers(), lent, Limits(requests=3)).beyond)


def test_what_is_beyond_its_limits_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one cycle nothing more of it comes over the wire, and the other snapshot is read anew without it."""
    large = [row(1, n) for n in range(1_000)]
    first = Rows([*large[:900], row(0, 0), *large[900:]])
    rest = Rows([row(0, 0)])
    found = collected._collected(_Filtered(first, rest), {0: LIMITS, 1: LIMITS})  # type: ignore[arg-type]
    assert (first.sent, rest.sent) == (6, 1)
    assert [len(found[number].found) for number in (0, 1)] == [1, 0]
    assert len(found[1].weights) == 6
    with pytest.raises(BeyondLimit):
        LIMITS.demand("requests", len(found[1].weights), "", "")


class _Filtered(Rows):
    """The rows at first, and others once it is asked for some of them only."""

    def __init__(self, first: Rows, rest: Rows) -> None:
        super().__init__(first.rows)
        self._first, self._rest = first, rest

    def toLocalIterator(self) -> Any:
        return self._first.toLocalIterator()

    def where(self, condition: str) -> Rows:
        assert condition == "snapshot in (0)"
        return self._rest


def test_small_answers_of_many_snapshots_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows([row(number, n) for n in range(2) for number in (2, 0, 1)])
    monkeypatch.setattr(collected, "_answer_rows", lambda apart, _: apart)
    found = list(collect_answers(rows, dict.fromkeys(range(4), LIMITS), at_once=False))  # type: ignore[arg-type]
    assert [(number, len(one.found)) for number, one in found] == [(0, 2), (1, 2), (2, 2), (3, 0)]
    assert rows.asked == 1
