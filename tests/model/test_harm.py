"""What counts as harm: clients that did not come back, and a backlog that grows as it did not before."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.harm import Clients, clients_of, harm_of, is_watched, samples_of, together
from evenkeel.model.past_commands import Act
from evenkeel.settings import EffectiveSettings, Settings, resolve

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
SETTINGS = Settings()


def seen(minutes: float, producers: int | None = 40, consumers: int | None = 20, backlog: int | None = 100) -> Clients:
    return Clients(AT + timedelta(minutes=minutes), producers, consumers, backlog)


def harm(*samples: Clients, now: Clients, published: float | None = 100.0, **settings: Any) -> str | None:
    return harm_of(samples, now, published, replace(SETTINGS, **settings))


CASES: list[tuple[str, list[Clients], Clients, dict[str, Any], bool]] = [
    ("all are back", [seen(-1), seen(0)], seen(3), {}, False),
    ("half of them are", [seen(-1), seen(0)], seen(3, producers=20), {}, False),
    ("one fewer", [seen(-1), seen(0)], seen(3, producers=19), {}, True),
    ("no consumer", [seen(-1), seen(0)], seen(3, consumers=0), {}, True),
    ("half of many", [seen(0, producers=2_000)], seen(3, producers=1_000), {}, False),
    ("one fewer of many", [seen(0, producers=2_000)], seen(3, producers=999), {}, True),
    ("more are asked for", [seen(-1), seen(0)], seen(3, consumers=17), {"evenkeelHarmClientsBackPercent": 90.0}, True),
    ("not looked at", [seen(0)], seen(3, 0, 0), {"evenkeelHarmClientsBackPercent": 0.0}, False),
    ("there were none", [seen(0, 0, 0)], seen(3, 0, 0), {}, False),
    ("they were leaving", [seen(-1, producers=52), seen(0)], seen(3, producers=4), {}, False),
    ("few were leaving", [seen(-1, producers=41), seen(0)], seen(3, producers=4), {}, True),
    ("all were leaving", [seen(-1, producers=60), seen(0)], seen(3, producers=0), {}, False),
    ("one came, and half are back", [seen(-1, producers=39), seen(0)], seen(3, producers=20), {}, False),
    ("they were coming", [seen(-1, producers=4), seen(0)], seen(3, producers=4), {}, True),
    ("nobody knows how it was before", [seen(-1, producers=None), seen(0)], seen(3, producers=4), {}, True),
    ("the first cycle", [seen(0)], seen(3, producers=4), {}, True),
    ("nobody knows how it is", [seen(0)], seen(3, None, None, None), {}, False),
    ("nobody knows how it was", [seen(0, None, None, None)], seen(3, 0, 0, 10**9), {}, False),
    ("no samples", [], seen(3, 0, 0), {}, False),
    ("half of what came in", [seen(0)], seen(3, backlog=100 + 9_000), {}, False),
    ("and one more", [seen(0)], seen(3, backlog=100 + 9_001), {}, True),
    ("not looked at", [seen(0)], seen(3, backlog=10**9), {"evenkeelHarmBacklogGrowthPercent": 0.0}, False),
    ("it grew as before", [seen(-1, backlog=0), seen(0, backlog=6_000)], seen(3, backlog=24_000), {}, False),
    ("it shrank before", [seen(-1, backlog=9_000), seen(0)], seen(3, backlog=18_000), {}, True),
    ("few messages", [seen(0)], seen(3, backlog=1_099), {"evenkeelHarmBacklogGrowthPercent": 1.0}, False),
    ("enough of them", [seen(0)], seen(3, backlog=1_100), {"evenkeelHarmBacklogGrowthPercent": 1.0}, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "now", "settings", "is_harm"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_harm_is_what_the_command_changed(
    samples: list[Clients], now: Clients, settings: dict[str, Any], is_harm: bool
) -> None:
    assert (harm(*samples, now=now, **settings) is not None) is is_harm


def test_the_words_give_the_figures() -> None:
    assert harm(seen(-1, 4_000), seen(0, 4_000), now=seen(3, 2, 20, 20_100)) == (
        "2 of 4,000 producers are connected 180 s later, and 2,000 would be enough; its backlog grew from 100 to "
        "20,100 messages in 180 s, by 20,000 more than it did before, while 18,000 came in, of which 50 % are the most"
    )


def test_a_backlog_is_not_judged_where_nobody_knows_what_came_in() -> None:
    assert harm(seen(0), now=seen(3, backlog=10**9), published=None) is None


def test_settings_recorded_before_look_for_no_harm() -> None:
    body = json.loads(resolve(observed=None, overrides=None).to_json())
    held = {name: value for name, value in body["settings"].items() if not name.startswith("evenkeelHarm")}
    assert len(held) == len(body["settings"]) - 6
    older = EffectiveSettings.from_json(json.dumps({**body, "settings": held})).settings
    assert (older.evenkeelHarmClientsBackPercent, older.evenkeelHarmBacklogGrowthPercent) == (0.0, 0.0)
    assert older.evenkeelHarmHoldMinutes == 0
    assert harm_of([seen(0)], seen(3, 0, 0, 10**9), 100.0, older) is None


counts = st.one_of(st.none(), st.integers(0, 1_000))
samples = st.builds(lambda minutes, *figures: seen(minutes, *figures), st.floats(0.1, 30.0), counts, counts, counts)


@given(st.lists(samples, max_size=2), samples, st.one_of(st.none(), st.floats(0, 10**6)), st.floats(1, 100))
def test_more_clients_and_a_smaller_backlog_are_never_more_harm(
    given_: list[Clients], now: Clients, published: float | None, percent: float
) -> None:
    before = sorted(given_, key=lambda one: one.at)
    now = replace(now, at=now.at + timedelta(hours=1))
    held = replace(SETTINGS, evenkeelHarmClientsBackPercent=percent, evenkeelHarmBacklogMessages=1)
    better = replace(
        now,
        producers=None if now.producers is None else now.producers + 1,
        consumers=None if now.consumers is None else now.consumers + 1,
        backlog=None if now.backlog is None else max(0, now.backlog - 1),
    )
    if harm_of(before, now, published, held) is None:
        assert harm_of(before, better, published, held) is None


@given(samples, samples)
def test_what_stays_as_it_was_is_never_harmed(before: Clients, then: Clients) -> None:
    then = replace(then, at=before.at + timedelta(minutes=1))
    assert harm_of([before, then], replace(then, at=then.at + timedelta(minutes=3)), 10.0, SETTINGS) is None


@pytest.mark.parametrize(
    ("outcome", "previous", "now", "watched"),
    [
        ("done", 1, 2, True),
        ("done", 0.5, 2, True),
        ("done", 0.4, 1, False),  # the first snapshot after it
        ("done", None, 2, False),
        ("done", 14, 15.5, True),
        ("done", 14, 15.6, False),
        ("done", 10, 20, True),  # the second one, of cycles that are ten minutes apart
        ("done", 20, 30, False),
        ("done", 20, 39.5, False),  # the third one: the one before it was that which saw the command done
        ("done", 20, 39.6, True),
        ("timed_out", 1, 2, False),
        (None, 1, 2, False),
    ],
)
def test_a_command_is_watched_from_the_second_snapshot_after_it_and_for_a_while(
    outcome: str | None, previous: float | None, now: float, watched: bool
) -> None:
    act = Act("c", "unload", "a/b/0x00000000_0x80000000", "b1", "b2", AT, outcome, AT + timedelta(minutes=0.5))
    before = None if previous is None else AT + timedelta(minutes=previous)
    assert is_watched(act, AT + timedelta(minutes=now), before, SETTINGS) is watched


def row(**more: Any) -> dict[str, Any]:
    figures = {"producers": 4, "consumers": 2, "msg_backlog": 7}
    return {"ownership": "owned", **figures, **{f"{name}_before": value + 1 for name, value in figures.items()}, **more}


def test_a_command_carries_its_bundle_as_it_was_and_before() -> None:
    at, before = AT.isoformat(), (AT - timedelta(minutes=1)).isoformat()
    assert clients_of(samples_of(row(), at, before)) == (seen(-1, 5, 3, 8), seen(0, 4, 2, 7))
    assert clients_of(samples_of(row(), at, None)) == (seen(0, 4, 2, 7),)
    unknown = {f"{name}_before": None for name in ("producers", "consumers", "msg_backlog")}
    assert clients_of(samples_of(row(**unknown), at, before)) == (seen(0, 4, 2, 7),)
    assert clients_of(samples_of(None, at, before)) == clients_of(None) == ()


def test_bundles_are_summed_and_what_is_unknown_of_one_is_unknown_of_all() -> None:
    assert together([row(), row()], AT) == seen(0, 8, 4, 14)
    assert together([row(), row(producers=None)], AT) == seen(0, None, 4, 14)
    unowned = row(ownership="unowned", producers=None, consumers=None, msg_backlog=None)
    assert together([unowned], AT) == seen(0, 0, 0, None)
