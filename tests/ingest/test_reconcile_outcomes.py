"""Open outcomes, settled by the next snapshot."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.ingest.task import settled
from evenkeel.lake.outbox import as_text
from tests.steering.commands import split, unload

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
BUNDLE = "acme/orders/0x00000000_0x80000000"
A, B, C = "b1:8080", "b2:8080", "b3:8080"
LATER = AT + timedelta(minutes=5)


def act(command: dict[str, Any], outcome: str | None = None, seen_at: datetime | None = None) -> dict[str, Any]:
    times = {"cycle_at": AT, "expires_at": AT + timedelta(minutes=20), "seen_at": seen_at}
    return as_text({**command, **times, "outcome": outcome, "detail": None})


def rows(*owners: str, bounds: tuple[str, ...] = ("0x00000000", "0x80000000", "0xffffffff"), silent: str = "") -> Any:
    return {
        "namespace_bundles": [{"namespace": "acme/orders", "boundaries": list(bounds)}],
        "bundle_ownership": [{"bundle": BUNDLE, "broker": owner, "is_owned": True} for owner in owners],
        "broker_reports": [
            {"broker": b, "is_listed": True, "owned_bundles": None if b == silent else 3} for b in (A, B, C)
        ],
    }


def cycle(*acts: dict[str, Any], steered_until: datetime | None = AT + timedelta(seconds=40)) -> ClusterCycle:
    ended = None if steered_until is None else steered_until.isoformat()
    return ClusterCycle("lab", LATER.isoformat(), Snapshot("x", ""), {}, acts=acts, steered_until=ended)


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (rows(B), "done"),
        (rows(C), "overridden"),
        (rows(), "done"),
        (rows(A), "timed_out"),
        (rows(silent=B), None),
        (rows(A, B), None),
        (rows(bounds=("0x00000000", "0x40000000", "0x80000000", "0xffffffff")), "overridden"),
    ],
    ids=["there", "elsewhere", "nobody's", "untouched", "silent", "twice", "split"],
)
def test_an_open_unload_is_judged_by_what_the_next_snapshot_shows(seen: Any, outcome: str | None) -> None:
    found = settled(cycle(act(unload(BUNDLE, A, B))), seen, LATER)
    assert found.acts[0]["outcome"] == outcome
    assert [row["outcome"] for row in found.outcomes] == ([outcome] if outcome else [])
    assert all(row["cycle_at"] == AT for row in found.outcomes)


def test_a_request_that_may_still_be_under_way_is_waited_for() -> None:
    command = act(unload(BUNDLE, A, B))
    steered = cycle(command, steered_until=LATER - timedelta(seconds=60))
    assert settled(steered, rows(A), LATER).acts[0]["outcome"] is None
    assert settled(steered, rows(B), LATER).acts[0]["outcome"] == "done"


@pytest.mark.parametrize(
    ("seen", "while_it_may_be_older", "afterwards"),
    [(rows(B), "done", "done"), (rows(C), None, "overridden"), (rows(), None, "done"), (rows(A), None, "timed_out")],
    ids=["there", "elsewhere", "nobody's", "untouched"],
)
def test_load_reports_that_may_be_older_than_the_effect_only_prove_the_effect(
    seen: Any, while_it_may_be_older: str | None, afterwards: str
) -> None:
    command = act(unload(BUNDLE, A, B))
    for seconds, outcome in ((65 + 59, while_it_may_be_older), (65 + 61, afterwards)):
        steered = cycle(command, steered_until=LATER - timedelta(seconds=seconds))
        assert settled(steered, seen, LATER, lag=timedelta(seconds=60)).acts[0]["outcome"] == outcome


def test_a_bundle_that_nobody_can_tell_of_is_lost_once_its_command_has_expired() -> None:
    command = act(unload(BUNDLE, A, B), "unknown", AT)
    (one,) = settled(cycle(command), rows(silent=B), AT + timedelta(minutes=21)).outcomes
    assert one["outcome"] == "lost"


def test_an_open_split_is_seen_by_its_cuts() -> None:
    command = act(split(BUNDLE, A, 0x40000000))
    cut = rows(A, bounds=("0x00000000", "0x40000000", "0x80000000", "0xffffffff"))
    assert settled(cycle(command), cut, LATER).acts[0]["outcome"] == "done"


def test_a_re_run_comes_to_the_same_and_writes_nothing_again() -> None:
    first = settled(cycle(act(unload(BUNDLE, A, B))), rows(B), LATER)
    on_record = act(unload(BUNDLE, A, B), "done", LATER)
    again = settled(replace(cycle(), acts=(on_record,)), rows(B), LATER)
    assert [one["outcome"] for one in again.acts] == [one["outcome"] for one in first.acts] == ["done"]
    assert again.outcomes == ()


def test_what_was_seen_after_the_snapshot_is_not_known_to_its_cycle() -> None:
    late = act(unload(BUNDLE, A, B), "overridden", LATER + timedelta(minutes=1))
    found = settled(cycle(late), rows(B), LATER)
    assert found.acts[0]["outcome"] == "done"
    assert found.outcomes == ()
