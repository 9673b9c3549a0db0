"""One reading of times, in every command, DAG param and page that takes one."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from evenkeel.airflow.steps import request_from
from evenkeel.cli import main, parser
from evenkeel.errors import BadInput
from evenkeel.explain import times
from evenkeel.replay.run_params import run_params
from evenkeel.times import borne_out, bounds_given, time_given, zone
from tests.lakes.small_lake import SmallLake

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
        ("2026-10-25T02:30+02:00", BERLIN, "2026-10-25T00:30", timedelta(minutes=1)),
        ("2026-10-25T02:30+01:00", UTC, "2026-10-25T01:30", timedelta(minutes=1)),
        ("2026-11-21T03", UTC, "2026-11-21T03:00", timedelta(hours=1)),
        ("20261121T031207Z", UTC, "2026-11-21T03:12:07", timedelta(seconds=1)),
        ("2026-10-25", BERLIN, "2026-10-24T22:00", timedelta(hours=25)),
        ("2026-03-29", BERLIN, "2026-03-28T23:00", timedelta(hours=23)),
        ("2024-04-26", zone("Africa/Cairo"), "2024-04-25T22:00", timedelta(hours=23)),  # has no midnight
    ],
)
def test_a_time_stands_for_all_that_it_names(text: str, where, first: str, whole: timedelta) -> None:
    found = time_given(text, "--at", where)
    assert (found.first, found.last) == (utc(first), utc(first) + whole - timedelta(microseconds=1))


def test_a_fraction_of_a_second_is_a_moment() -> None:
    found = time_given("2026-11-21T03:12:07.5", "--at", UTC)
    assert found.first == found.last == utc("2026-11-21T03:12:07.500000")


@pytest.mark.parametrize(("text", "moments"), ODD)
def test_a_local_time_that_comes_twice_or_never_is_refused_with_the_moments(text: str, moments: str) -> None:
    with pytest.raises(BadInput) as error:
        time_given(text, "--from", BERLIN)
    assert moments in str(error.value)
    assert str(error.value).startswith("--from ")


def test_the_moments_named_are_taken_as_they_stand() -> None:
    for text in ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"):
        assert time_given(text, "--at", BERLIN).first == datetime.fromisoformat(text)


@given(at=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))
def test_every_moment_can_be_named_by_its_local_time_unless_that_comes_twice(at: datetime) -> None:
    at = at.replace(microsecond=0)
    local = at.astimezone(BERLIN).replace(tzinfo=None)
    is_twice = local.replace(tzinfo=BERLIN).utcoffset() != local.replace(tzinfo=BERLIN, fold=1).utcoffset()
    if is_twice:
        with pytest.raises(BadInput, match=at.strftime("%Y-%m-%dT%H:%M:%SZ")):
            time_given(local.isoformat(), "--at", BERLIN)
    else:
        assert time_given(local.isoformat(), "--at", BERLIN).first == at


@pytest.mark.parametrize(
    "text",
    [
        "03:12",
        "yesterday",
        "",
        "2026-13-01",
        "2026-11-21T25:00",
        "2026-11-21T08:27 CET",
        "2026-W47",
        "0001-01-01T00:00+01:00",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a time"):
        time_given(text, "--at", UTC)


def test_an_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'Europe/Berlin'"):
        zone("Europe/Berln")
    with pytest.raises(BadInput, match="not a time zone"):
        zone("../../etc/passwd")


def test_the_last_day_there_is_has_an_end_too() -> None:
    assert bounds_given(None, "9999-12-31") == (None, datetime.max.replace(tzinfo=UTC))


def test_a_range_ends_with_the_last_moment_of_its_last_time() -> None:
    whole_day = (utc("2026-11-21"), utc("2026-11-22") - timedelta(microseconds=1))
    assert bounds_given("2026-11-21", "2026-11-21") == whole_day
    assert bounds_given(None, None) == (None, None)
    assert bounds_given("2026-11-21T08:30:10", "2026-11-21T08:30") == (
        utc("2026-11-21T08:30:10"), utc("2026-11-21T08:30:59.999999"),
    )  # fmt: skip


# Every command that takes a time, with an option of each kind that it has.
SPAN = ("--from", "--to")
TAKES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "explain": (["explain", "acme/web/0x00000000_0x80000000"], ("--at", *SPAN)),
    "trace": (["trace", "acme/web/0x00000000_0x80000000"], ("--at",)),
    "trace of a broker": (["trace", "--broker", "b1:8080"], SPAN),
    "verify": (["verify"], SPAN),
    "replay": (["replay"], SPAN),
    "simulate": (["simulate"], SPAN),
    "export": (["export", "--out", "OUT"], SPAN),
    "wish split": (["wish", "split", "acme/web", "-b", "HOT", "--cluster", "lab"], ("--at",)),
    "wish unload": (
        ["wish", "unload", "acme/web", "-b", "0x00000000_0x80000000", "--cluster", "lab"], ("--at",)),
    "wish unload-topic": (["wish", "unload-topic", "acme/web/in", "--cluster", "lab"], ("--at",)),
    "wish drain": (["wish", "drain", "b1:8080", "--cluster", "lab"], ("--at",)),
    "wish undrain": (["wish", "undrain", "b1:8080", "--cluster", "lab"], ("--at",)),
    "rebalance": (["rebalance", "--recording", "demo/recordings/own-threshold"], ("--at", *SPAN)),
    "report": (["report"], ("--cycle",)),
    "data-docs": (["data-docs"], ("--cycle",)),
}  # fmt: skip
OPTIONS = [(words, option) for words, options in TAKES.values() for option in options]
RANGES = [words for words, options in TAKES.values() if set(SPAN) <= set(options)]
IDS = [f"{name} {option}" for name, (_, options) in TAKES.items() for option in options]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a cycle; whoever starts Spark all the same ends in an error about the server."""
    monkeypatch.setenv("EVENKEEL_SPARK", "sc://127.0.0.1:1")
    made = SmallLake(tmp_path / "lake")
    made.add("lab", utc("2026-11-21T08:00:13"), {})
    return made.root


def run(words: list[str], lake: Path, *more: str) -> int:
    out = [str(lake.parent / "out") if word == "OUT" else word for word in words]
    return main([*out, "--lake", str(lake), *more])


def other_end(words: list[str], option: str) -> list[str]:
    """Export wants both ends."""
    return ["--to" if option == "--from" else "--from", "2026-11-21"] if words[0] == "export" else []


@pytest.mark.parametrize(("words", "option"), OPTIONS, ids=IDS)
@pytest.mark.parametrize("text", ["yesterday", "2026-11-31", "2026-11-21T08:27 CET", ""])
def test_every_command_refuses_what_is_no_time_in_the_same_words(
    words: list[str], option: str, text: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, lake, option, text, *other_end(words, option)) == 2
    said = capsys.readouterr().err
    assert f"{option} {text!r} is not a time: write 2026-11-21T08:27:04Z, 2026-11-21T08:27 or 2026-11-21" in said
    assert "in UTC" in said


@pytest.mark.parametrize("words", RANGES, ids=lambda words: words[0])
def test_every_command_refuses_a_range_that_ends_before_it_begins(
    words: list[str], lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, lake, "--from", "2026-11-21T08:30", "--to", "2026-11-21T09:29+01:00") == 2
    said = capsys.readouterr().err
    assert "--from 2026-11-21T08:30 is after --to 2026-11-21T09:29+01:00: swap them" in said


def helps(command: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Options that take a time, here and below, with their help."""
    found = []
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [pair for one in action.choices.values() for pair in helps(one)]
        elif action.metavar == "TIME":
            found.append((f"{command.prog} {action.option_strings[0]}", action.help or ""))
    return found


def test_the_table_above_has_every_option_that_takes_a_time_and_help_says_that_it_is_utc() -> None:
    found = dict(helps(parser()))
    known = {f"evenkeel {name.removesuffix(' of a broker')} {o}" for name, (_, os) in TAKES.items() for o in os}
    assert set(found) == known
    missing = [name for name, said in found.items() if "UTC where no zone is given" not in said and SPAN[1] not in name
               and not (name.endswith(SPAN[0]) and f"{name.rsplit(' ', 1)[0]} --at" in found)]  # fmt: skip
    assert missing == []


class DagRun(SimpleNamespace):
    """What `request_from` looks at."""


def in_a_replay(text: str, name: str) -> Any:
    return run_params(None, "/nowhere", {name: text})  # type: ignore[arg-type]


def in_a_cycle(text: str, name: str) -> Any:
    run = DagRun(logical_date=None, run_after=None, dag_id="rebalance", run_id="manual__1", run_type="manual")
    return request_from({name: text}, run)


@pytest.mark.parametrize(
    ("name", "read"), [("since", in_a_replay), ("until", in_a_replay), ("at", in_a_cycle)], ids=["since", "until", "at"]
)
def test_the_params_of_dags_are_read_alike_and_named(
    name: str, read: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", "/lake")
    with pytest.raises(BadInput, match=f"^the param `{name}` 'yesterday' is not a time: write 2026"):
        read("yesterday", name)
    with pytest.raises(BadInput, match="the param `since` 2026-11-22 is after the param `until` 2026-11-21"):
        run_params(None, "/nowhere", {"since": "2026-11-22", "until": "2026-11-21"})  # type: ignore[arg-type]


def test_the_same_time_in_three_notations_is_the_same_moment_to_every_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", "/lake")
    monday = utc("2026-11-21T08:27:04")
    for text in ("2026-11-21T08:27:04", "2026-11-21T08:27:04Z", "2026-11-21T09:27:04+01:00"):
        assert times(None, text, text, None).first == times(text, None, None, None).at
        assert bounds_given(text, text)[0] == time_given(text, "--at").first == monday
        assert datetime.fromisoformat(str(in_a_cycle(text, "at").at)) == monday


DAY = timedelta(days=1)


@given(
    st.lists(st.integers(0, 20 * 24), min_size=1, max_size=60),
    st.lists(st.integers(0, 23), max_size=5),
    st.sampled_from([-400, 400]),
)
def test_what_a_clock_that_was_wrong_for_less_than_a_day_dated_far_off_is_never_the_newest(
    hours: list[int], wrong: list[int], days: int
) -> None:
    """The record before it goes on for some days; gaps in it are no longer than a day."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    record = [start + timedelta(hours=hour) for hour in {*hours, *range(0, max(hours) + 1, 24)}]
    far = [start + timedelta(days=days, hours=hour) for hour in wrong]
    lasting = max(record) - min(record) >= DAY
    event(f"{'ahead' if days > 0 else 'behind'}, {bool(far)=}, {lasting=}")
    if days > 0 or lasting or not far:
        assert borne_out([*far, *record]) == max(record)
    else:
        assert borne_out([*far, *record]) == max(far), "a record of less than a day bears nothing out"


def test_after_a_pause_moments_count_once_they_span_a_day() -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    before, after = [start, start + DAY], [start + 9 * DAY, start + 10 * DAY - timedelta(seconds=1)]
    assert borne_out([]) is None
    assert borne_out(before + after) == start + DAY
    assert borne_out([*before, *after, start + 10 * DAY]) == start + 10 * DAY
    assert borne_out(before + after, lasting=DAY / 2) == after[-1]
    assert borne_out([start, start + 2 * DAY, start + 4 * DAY], jump=2 * DAY) == start + 4 * DAY
