"""The verdict on one delivery: which rule comes before which."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.steering.agent.admission import (
    AdmissionFacts,
    CarryOut,
    LedgerEntry,
    LookAgain,
    Refuse,
    Reject,
    ReportAgain,
    judge,
    judge_unsent,
)
from evenkeel.steering.queue.messages import deed
from tests.steering.queue.examples import command

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
CYCLE = NOW - timedelta(minutes=5)
LONGEST = timedelta(seconds=65)
ROW = command(cycle_at=CYCLE, expires_at=NOW + timedelta(minutes=5))


def at(now: datetime = NOW, paused: str | None = None, newest: datetime = CYCLE) -> AdmissionFacts:
    return AdmissionFacts(now, paused, newest, LONGEST)


def entry(state: str, sending_at: datetime | None = None) -> LedgerEntry:
    return LedgerEntry(state, deed(ROW), sending_at)  # type: ignore[arg-type]


moments = st.datetimes(NOW.replace(tzinfo=None) - timedelta(days=1), NOW.replace(tzinfo=None) + timedelta(days=1))
aware = moments.map(lambda moment: moment.replace(tzinfo=UTC))
circumstances = st.builds(AdmissionFacts, aware, st.none() | st.text(max_size=3), aware, st.just(LONGEST))


def test_a_new_command_is_carried_out() -> None:
    assert judge(ROW, entry("received"), at()) == CarryOut()


@pytest.mark.parametrize(
    ("circumstances", "outcome", "words"),
    [
        (at(now=ROW["expires_at"]), "stale", "expired at 2026-11-21T09:05:00Z"),
        (at(newest=CYCLE + timedelta(microseconds=1)), "stale", "superseded"),
        (at(paused="paused by olga"), "withheld", "paused by olga"),
        (at(now=ROW["expires_at"], paused="x"), "stale", "expired"),
    ],
)
def test_what_must_not_be_sent_is_refused(circumstances: AdmissionFacts, outcome: str, words: str) -> None:
    verdict = judge(ROW, entry("received"), circumstances)
    assert isinstance(verdict, Refuse)
    assert verdict.outcome == outcome
    assert verdict.detail.startswith(words)


@given(circumstances)
def test_a_settled_command_is_only_reported_again_whatever_happens(found: AdmissionFacts) -> None:
    assert judge(ROW, entry("settled"), found) == ReportAgain()


@given(circumstances, st.none() | aware)
def test_what_may_be_under_way_is_waited_for_and_looked_at_before_anything_else(
    found: AdmissionFacts, sending_at: datetime | None
) -> None:
    verdict = judge(ROW, entry("sending", sending_at), found)
    assert isinstance(verdict, LookAgain)
    assert timedelta(0) <= verdict.wait <= LONGEST
    if sending_at is not None and sending_at <= found.now:
        assert found.now + verdict.wait >= sending_at + LONGEST or verdict.wait == timedelta(0)
        assert (verdict.wait == timedelta(0)) == (found.now - sending_at >= LONGEST)
    else:  # by a clock that was set back: nobody knows how long ago it was
        assert verdict.wait == LONGEST


@given(circumstances, st.sampled_from(["received", "sending", "settled"]))
def test_another_command_under_the_same_id_is_none_of_it(found: AdmissionFacts, state: str) -> None:
    assert isinstance(judge(ROW | {"destination": "b9:8080"}, entry(state), found), Reject)


@given(circumstances)
def test_nothing_is_sent_that_is_expired_superseded_or_paused(found: AdmissionFacts) -> None:
    may = found.now < ROW["expires_at"] and found.newest_cycle_at <= CYCLE and found.paused is None
    assert isinstance(judge_unsent(ROW, found), CarryOut if may else Refuse)
