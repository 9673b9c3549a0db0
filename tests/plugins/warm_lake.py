"""A lake with a day in it for the heat map: tenants with different courses, and an hour in which one of them goes wild.

A bundle of `shop/checkout` grows hot at noon, is moved, comes back, is held by a guard, and is split at last; a
quarter of an hour has no cycles. `warm_lake` also builds the heat.
"""

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.heat import build
from evenkeel.model.bundles import BundleRange
from tests.lakes.plausible import CHECKS, broker_load, bundle_load, decision, placement, settings
from tests.lakes.small_lake import Row, SmallLake

CLUSTER = "eu-1"
BEGIN = datetime(2026, 11, 20, 0, 0, 20, tzinfo=UTC)
NAMESPACES = {
    "analytics/clicks": 16, "analytics/exports": 4, "billing/invoices": 8, "billing/payments": 16, "iot/devices": 32,
    "iot/firmware": 2, "shop/baskets": 8, "shop/checkout": 16, "shop/search": 16,
}  # fmt: skip
BROKERS = tuple(f"broker-{n}.eu.example:8080" for n in range(1, 7))
HOT = "shop/checkout"
HOT_RANGE = (0x30000000, 0x40000000)
MIDDLE = 0x38000000
GUARD = "enough_between_moves"


class _Day:
    """The bundles, who owns them, and how heavy they are at an hour of the day."""

    def __init__(self, scale: int) -> None:
        self._chance = random.Random(18)
        self.ranges: dict[tuple[str, int, int], float] = {}
        self.owner: dict[tuple[str, int, int], str] = {}
        for name, count in NAMESPACES.items():
            width = (1 << 32) // (count * scale)
            base = 30.0 * self._chance.lognormvariate(0.0, 1.0)
            for n in range(count * scale):
                key = (name, n * width, min((n + 1) * width, 0xFFFFFFFF))
                self.ranges[key] = base * self._chance.lognormvariate(0.0, 0.8)
                self.owner[key] = self._chance.choice(BROKERS)

    def rate(self, key: tuple[str, int, int], hour: float) -> float | None:
        name, lower, upper = key
        course = 0.55 + 0.45 * math.sin((hour - 8) / 24 * 2 * math.pi)
        if name.startswith("analytics"):
            course = 1.6 if 2 <= hour % 24 < 4 else 0.12
        elif name == "iot/devices":
            course = 0.8 + 0.2 * math.sin(hour * 3)
        elif name == "iot/firmware":
            course = 0.0 if hour % 24 < 18 else 1.0
        value = self.ranges[key] * course * self._chance.uniform(0.85, 1.15)
        if name == HOT and lower < HOT_RANGE[1] and upper > HOT_RANGE[0]:
            part = (upper - lower) / (HOT_RANGE[1] - HOT_RANGE[0])
            value = part * (300.0 + 24_000.0 * math.exp(-((hour - 12.6) ** 2) / 0.25))
        return value

    def split(self) -> None:
        parents = [key for key in self.ranges if key[0] == HOT and key[1] < MIDDLE < key[2]]
        for key in parents:
            name, lower, upper = key
            weight, owner = self.ranges.pop(key), self.owner.pop(key)
            for half in ((lower, MIDDLE), (MIDDLE, upper)):
                self.ranges[name, *half], self.owner[name, *half] = weight / 2, owner

    def hot(self) -> tuple[str, int, int]:
        return next(key for key in self.ranges if key[0] == HOT and key[1] <= HOT_RANGE[0] < key[2])

    def rows(self, hour: float) -> list[Row]:
        rows = []
        for key in sorted(self.ranges):
            rate = self.rate(key, hour)
            name = f"{key[0]}/{BundleRange(*key[1:])}"
            figures = {f"used_msg_rate_{way}": None if rate is None else rate / 2 for way in ("in", "out")}
            rows.append(bundle_load(name, self.owner[key], 900.0 * (rate or 0.0)) | figures)
        return rows


def _named(key: tuple[str, int, int]) -> str:
    return f"{key[0]}/{BundleRange(*key[1:])}"


def warm_lake(
    root: Path, *, hours: float = 24.0, minutes: float = 10.0, scale: int = 1, days: int = 1, as_window: bool = False
) -> Path:
    """Cycles every `minutes` for so many `hours` of each day; the heat is built. The wild hour is that of noon of the
    last day. `as_window`: cycles share their files, as those of a window do, and are written and read far sooner."""
    lake, day = SmallLake(root), _Day(scale)
    commands: list[Row] = []
    outcomes: list[Row] = []
    with lake.one_commit(of_each_table=as_window):
        steps = int((hours + 24 * (days - 1)) * 60 / minutes)
        for n in range(steps):
            at = BEGIN + timedelta(minutes=minutes * n)
            hour = minutes * n / 60
            if 15.0 <= hour % 24 < 15.3:
                continue
            _cycle(lake, day, at, hour - 24 * (days - 1), n, commands, outcomes)
    if commands:
        lake.append("commands", commands)
        lake.append("outcomes", outcomes)
    build(str(root))
    return root


_MOVES = {12.0: 1, 12.5: 2, 12.85: 1}


def _cycle(
    lake: SmallLake, day: _Day, at: datetime, hour: float, n: int, commands: list[Row], outcomes: list[Row]
) -> None:
    brokers = [broker_load(name, 0.2 + 0.05 * place) for place, name in enumerate(BROKERS)]
    tables: dict[str, list[Row]] = {
        "bundle_load": day.rows(hour), "broker_load": brokers, "validation_results": CHECKS if n == 0 else [],
        "settings": settings({}) if n == 0 else [], "unload_decisions": [], "placement_decisions": [],
        "split_decisions": [], "guard_decisions": [],
    }  # fmt: skip
    plan_id = f"{n:04x}" + "9f1c" * 15
    hot = day.hot()
    bundle, source = _named(hot), day.owner[hot]
    acts = dict.fromkeys(("splits", "unloads", "placements"), 0)
    moved = next((to for when, to in _MOVES.items() if 0 <= hour - when < 0.16), None)
    if moved is not None:
        goal = BROKERS[moved] if BROKERS[moved] != source else BROKERS[0]
        acts |= {"unloads": 1, "placements": 1}
        tables["unload_decisions"] = [
            decision(
                bundle, "bundle", "unload", "largest_first",
                f"{bundle} carries the most on {source}; it is to go.", broker=source, measured=9e6, threshold=3e6,
                unit="byte/s",
            )
        ]  # fmt: skip
        words = f"{bundle} goes to {goal}: the least long-term rate of {len(BROKERS)} candidates."
        tables["placement_decisions"] = [placement(bundle, goal, "shed", words, [], broker=source)]
        _command(commands, outcomes, at, plan_id, bundle, "unload", source, goal)
        day.owner[hot] = goal
    if 13.0 <= hour < 13.3:
        tables["guard_decisions"] = [
            decision(
                bundle, "bundle", "held", GUARD, f"{bundle} was moved 3 times in the hour before, 2 are allowed.",
                broker=source, destination=BROKERS[3], position=1, measured=3.0, threshold=2.0, unit="count",
            )
        ]  # fmt: skip
        for row in tables["guard_decisions"]:
            del row["strategy"]
            row["kind"] = "unload"
    if 13.5 <= hour < 13.65 and hot[2] > MIDDLE:
        acts["splits"] = 1
        tables["split_decisions"] = [
            decision(
                bundle, "bundle", "split", "message_rate_over_limit", f"{bundle} carries more than 10,000 msg/s.",
                broker=source, measured=12_000.0, threshold=10_000.0, unit="msg/s", strategy="BundleSplitterTask",
            ) | {"algorithm": "range_equally_divide", "cuts": [MIDDLE], "unload_children": True}
        ]  # fmt: skip
        _command(commands, outcomes, at, plan_id, bundle, "split", source, None)
        day.split()
    kept = {name: rows for name, rows in tables.items() if rows}
    lake.add(CLUSTER, at, kept, plan_id=plan_id, mode="auto", refusals=0, **acts)


def _command(
    commands: list[Row], outcomes: list[Row], at: datetime, plan_id: str, bundle: str, kind: str, source: str,
    goal: str | None,
) -> None:  # fmt: skip
    command_id = f"{len(commands):04x}" + "c0de" * 15
    stamp: dict[str, Any] = {
        "cluster": CLUSTER, "cycle_at": at, "cycle_date": at.date(), "write_id": plan_id[:32], "command_id": command_id
    }  # fmt: skip
    commands.append({
        **stamp, "plan_id": plan_id, "step": 1, "kind": kind, "bundle": bundle, "from_broker": source,
        "destination": goal, "mode": "auto", "request": f"PUT /admin/v2/namespaces/{bundle}/{kind}",
        "expires_at": at + timedelta(minutes=5),
    })  # fmt: skip
    done = {"outcome": "done", "seen_at": at + timedelta(seconds=4), "detail": "done: the owner is another broker"}
    outcomes.append({**stamp, **done})
