from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.audit.explain.moments import parse_moment, zone
from evenkeel.errors import BadInput

BERLIN = zone("Europe/Berlin")
ODD = [("2026-10-25T02:30", "2026-10-25T00:30:00Z or 2026-10-25T01:30:00Z"),
       ("2026-03-29T02:30", "2026-03-29T00:30:00Z and 2026-03-29T01:30:00Z")]  # fmt: skip


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "where", "first", "whole"),
    [
        ("2026-11-21T03:12", UTC, "2026-11-21T03:12", timedelta(minutes=1)),
        ("2026-11-21 03:12:07", UTC, "2026-11-21T03:12:07", timedelta(seconds=1)),
        ("2026-11-21", UTC, "2026-11-21", timedelta(days=1)),
        ("2026-11-21T03:12", BERLIN, "2026-11-21T02:12", timedelta(minutes=1)),
        ("2026-07-21T03:12", BERLIN, "2026-07-21T01:12", timedelta(minutes=1)),
        ("2026-11-21T03:12Z", BERLIN, "2026-11-21T03:12", timedelta(minutes=1)),
        ("2026-11-21T03:12:00+05:30", BERLIN, "2026-11-20T21:42", timedelta(seconds=1)),
    ],
)
def test_a_time_stands_for_all_that_it_names(text: str, where, first: str, whole: timedelta) -> None:
    found = parse_moment(text, where, "--at")
    assert (found.first, found.last) == (utc(first), utc(first) + whole - timedelta(microseconds=1))


def test_a_fraction_of_a_second_is_a_moment() -> None:
    found = parse_moment("2026-11-21T03:12:07.5", UTC, "--at")
    assert found.first == found.last == utc("2026-11-21T03:12:07.500000")


@pytest.mark.parametrize(("text", "moments"), ODD)
def test_a_local_time_that_comes_twice_or_never_is_refused_with_the_moments(text: str, moments: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_moment(text, BERLIN, "--from")
    assert moments in str(error.value)
    assert str(error.value).startswith("--from ")


def test_the_moments_named_are_taken_as_they_stand() -> None:
    for text in ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"):
        assert parse_moment(text, BERLIN, "--at").first == datetime.fromisoformat(text)


@given(at=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))
def test_every_moment_can_be_named_by_its_local_time_unless_that_comes_twice(at: datetime) -> None:
    at = at.replace(microsecond=0)
    local = at.astimezone(BERLIN).replace(tzinfo=None)
    is_twice = local.replace(tzinfo=BERLIN).utcoffset() != local.replace(tzinfo=BERLIN, fold=1).utcoffset()
    if is_twice:
        with pytest.raises(BadInput, match=at.strftime("%Y-%m-%dT%H:%M:%SZ")):
            parse_moment(local.isoformat(), BERLIN, "--at")
    else:
        assert parse_moment(local.isoformat(), BERLIN, "--at").first == at


@pytest.mark.parametrize("text", ["03:12", "yesterday", "", "2026-13-01", "2026-11-21T25:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no time"):
        parse_moment(text, UTC, "--at")


def test_an_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'Europe/Berlin'"):
        zone("Europe/Berln")
    with pytest.raises(BadInput, match="no time zone"):
        zone("../../etc/passwd")
