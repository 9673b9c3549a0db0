"""Which commands a cycle is told of: those of the day before it, however many cycles are asked for at once."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.lake import task_reads
from evenkeel.lake.outbox import as_text
from evenkeel.lake.task_reads import with_acts
from evenkeel.model.past_commands import HARMED

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
Act = dict[str, Any]


def act(number: int, cluster: str, at: datetime, **more: Any) -> Act:
    told = dict.fromkeys(("plan_id", "kind", "bundle", "from_broker", "destination", "cuts", "unload_children"))
    told |= dict.fromkeys(("outcome", "detail", "seen_at"))
    return {
        **told,
        "command_id": f"c{number}",
        "cluster": cluster,
        "cycle_at": at,
        "expires_at": at,
        "mode": "auto",
        **more,
    }


def cycle(cluster: str, at: datetime) -> ClusterCycle:
    moment = at.isoformat(timespec="microseconds")
    return ClusterCycle(cluster, moment, Snapshot("", moment), {}, admin={})


def by_looking_at_all(acts: list[Act], one: ClusterCycle) -> tuple[Act, ...]:
    """As a run of one cycle finds them."""
    day = timedelta(days=1)
    return tuple(
        as_text(each)
        for each in acts
        if each["cluster"] == one.cluster and each["mode"] != "dry_run" and one.at - day <= each["cycle_at"] < one.at
    )


def test_each_cycle_of_a_window_is_told_what_it_would_be_told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    minutes = sorted(chance.randrange(0, 4_000, 5) for _ in range(300))
    acts = [
        act(n, chance.choice("ab"), BEGIN + timedelta(minutes=at), mode=chance.choice(["auto", "approve", "dry_run"]))
        for n, at in enumerate(minutes)
    ]
    acts.sort(key=lambda each: (each["cluster"], each["cycle_at"]))
    acts += [{**each, "outcome": HARMED} for each in acts[::7]]
    asked: list[tuple[datetime, datetime]] = []

    def read(*_: Any, since: datetime, until: datetime) -> list[Act]:
        asked.append((since, until))
        return acts

    monkeypatch.setattr(task_reads, "recent_acts", read)
    monkeypatch.setattr(task_reads, "leases", lambda *_: {})
    monkeypatch.setattr(task_reads, "pauses", lambda *_: {})
    cycles = [cycle(name, BEGIN + timedelta(minutes=at)) for name in "ab" for at in range(0, 5_000, 95)]
    told = with_acts(None, cycles)  # type: ignore[arg-type]
    assert [one.acts for one in told] == [by_looking_at_all(acts, one) for one in cycles]
    assert any(one.acts for one in told)
    assert asked == [(cycles[0].at - timedelta(days=1), cycles[-1].at)], "one read for all of them"
