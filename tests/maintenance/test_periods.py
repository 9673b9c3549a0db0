"""Periods: which go together, and that a lake's promise is not broken in passing."""

from datetime import UTC, date, datetime

import pytest

from evenkeel.errors import SettingsError
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.maintenance.expiry import MEANINGS, NAMES, Periods, kind_of, settled


def test_the_defaults_go_together_and_every_period_says_what_it_is_for() -> None:
    assert Periods().audit_days == 400
    assert set(MEANINGS) == set(NAMES)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"observed_days": 401}, ("observed_days", "audit_days")),
        ({"considered_days": 500}, ("considered_days", "audit_days")),
        ({"topics_days": 31}, ("topics_days", "observed_days")),
        ({"unlisted_days": 15}, ("unlisted_days", "topics_days")),
        ({"audit_days": 20}, ("observed_days", "considered_days")),
        ({"version_days": 6}, ("version_days",)),
        ({"topic_version_days": 0}, ("topic_version_days",)),
        ({"audit_days": 1, "observed_days": 1, "topics_days": -1}, ("audit_days", "observed_days", "topics_days")),
    ],
    ids=str,
)
def test_a_period_that_breaks_another_is_refused_and_all_of_them_named(given, named) -> None:
    with pytest.raises(SettingsError) as refused:
        settled(None, given, shorten=True)
    assert all(name in str(refused.value) for name in named)


def test_periods_on_record_hold_until_another_is_named() -> None:
    recorded = Periods(audit_days=500, topics_days=20).as_dict()
    assert settled(recorded, {}, shorten=False).as_dict() == recorded
    assert settled(recorded, {"audit_days": 600, "topics_days": None}, shorten=False) == Periods(600, topics_days=20)


def test_a_shorter_period_than_promised_is_refused_unless_it_is_meant() -> None:
    recorded = Periods().as_dict()
    with pytest.raises(SettingsError, match=r"version_days from 90 to 30.*--shorten"):
        settled(recorded, {"version_days": 30}, shorten=False)
    assert settled(recorded, {"version_days": 30}, shorten=True).version_days == 30
    assert settled(None, {"version_days": 30}, shorten=False).version_days == 30, "nothing was promised yet"


def test_the_defaults_count_as_promised_for_whoever_must_not_choose_them() -> None:
    """Else the first upkeep of a lake could be told to drop nearly all of it."""
    promised = Periods().as_dict()
    with pytest.raises(SettingsError, match="audit_days from 400 to 40; observed_days from 30 to 2"):
        settled(None, {"audit_days": 40, "observed_days": 2}, shorten=False, promised=promised)
    with pytest.raises(SettingsError, match="topics_days from 14 to 8"):
        settled({"audit_days": 40, "observed_days": 20, "considered_days": 20}, {"topics_days": 8}, shorten=False,
                promised=promised)  # fmt: skip
    recorded = promised | {"audit_days": 100}
    assert settled(recorded, {"audit_days": 100}, shorten=False, promised=promised).audit_days == 100
    assert settled(None, {"audit_days": 500}, shorten=False, promised=promised).audit_days == 500
    assert settled(None, {"audit_days": 40}, shorten=True, promised=promised).audit_days == 40


def test_an_unknown_period_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="unknown period 'audit'"):
        settled(None, {"audit": 3}, shorten=False)


def test_a_cutoff_is_the_first_date_that_is_kept() -> None:
    now = datetime(2026, 11, 22, 0, 0, 1, tzinfo=UTC)
    assert Periods().cutoff("topics", now) == date(2026, 11, 8)


def test_every_table_has_a_period_but_those_of_upkeep_itself() -> None:
    forever = {name for name in OF_RECORD if kind_of(TABLES[name]) is None}
    assert forever == {"anchors", "proofs", "upkeeps"}


def test_what_the_planner_said_goes_with_what_came_to_nothing() -> None:
    """What it did stands in the tables of the decisions, which outlast it."""
    assert {kind_of(TABLES[name]) for name in PLANNER_TABLES} == {"considered"}
