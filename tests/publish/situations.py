"""A small cluster in which nothing speaks against any command, and ways to change it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.model.past_commands import Move
from evenkeel.publish.guards.hold_back import Guarded, hold_back, sentence
from evenkeel.publish.guards.situation import Broker, Command, Situation
from evenkeel.settings import Settings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
B1, B2, B3 = (f"b{n}:8080" for n in (1, 2, 3))
BROKERS = {
    B1: Broker(True, 30.0, usage=0.60, traffic=600.0),
    B2: Broker(True, 30.0, usage=0.30, traffic=300.0),
    B3: Broker(True, 30.0, usage=0.10, traffic=100.0),
}


def bundle(n: int, namespace: str = "acme/web") -> str:
    """The n-th of sixteen."""
    upper = (n + 1) << 28 if n < 15 else 0xFFFFFFFF
    return f"{namespace}/0x{n << 28:08x}_0x{upper:08x}"


def unload(
    n: int, source: str = B1, destination: str | None = B2, traffic: float | None = 10.0, **more: Any
) -> Command:
    return Command("unload", bundle(n), source, destination, traffic, **more)


def split(n: int, cuts: int = 1, source: str | None = B1, **more: Any) -> Command:
    return Command("split", bundle(n), source, cuts=cuts, **more)


def topic(n: int, name: str = "t", source: str = B1, **more: Any) -> Command:
    return Command("unload_topic", bundle(n), source, topic=f"persistent://acme/web/{name}", wished=True, **more)


def situation(*commands: Command, **more: Any) -> Situation:
    """Three brokers that have just reported, 1000 byte/s in 16 bundles."""
    found = Situation("lab", NOW, commands, BROKERS, traffic=1000.0, bundle_counts={"acme/web": 16})
    return replace(found, **more)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


def moved(n: int, source: str, **time: float) -> Move:
    return Move(bundle(n), source, ago(**time))


def guarded(found: Situation, **settings: Any) -> Guarded:
    return hold_back(found, Settings(**settings))


def rules(found: Situation, **settings: Any) -> list[tuple[int, str, str]]:
    """(position, outcome, rule) of every verdict."""
    return [(v.position, v.outcome, v.objection.rule) for v in guarded(found, **settings).verdicts]


def words(found: Situation, position: int = 1, **settings: Any) -> str:
    """The sentence of the first verdict on a command, or on the cluster (0)."""
    (verdict, *_) = [v for v in guarded(found, **settings).verdicts if v.position == position]
    return sentence(verdict, "lab")
