"""What the planner remembers, as rows of `strategy_state` and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from evenkeel.planner.memory import BrokerMemory, PlannerMemory, Promise, WantedSplit
from evenkeel.planner.usage_model import SUM_NAMES, UsageSums
from evenkeel.rounds.reading import Row
from evenkeel.rounds.state import PLANNER, THE_CLUSTER, state_row

STRATEGY = PLANNER
MESSAGE_BYTES = "message_bytes"
_FIGURES = (MESSAGE_BYTES, "above", "is_acting", "reversals", "changes", "unsteady", "misses")
_OF_BROKER = ("bundles", "load", "change")
_OF_PROMISE = ("gain", "before", "load")
_OF_SPLIT = ("alone", "level", "is_stuck")
_SEEN, _FELL_BACK, _SINCE, _PROMISED = "seen", "fell_back", "bundles since", "promised"
_SPLIT, _ROOM = "split", "split room of "
_SPLIT_SINCE, _SPLIT_REFUSED = f"{_SPLIT} since", f"{_SPLIT} refused"


def rows_of(memory: PlannerMemory) -> list[dict[str, Any]]:
    """The rows, by subject and name."""
    return sorted((dict(row) for row in _rows(memory)), key=lambda row: (row["subject"], row["name"]))


def _rows(memory: PlannerMemory) -> Iterator[Row]:
    yield from _moment(THE_CLUSTER, _SEEN, memory.at)
    yield from _moment(THE_CLUSTER, _FELL_BACK, memory.fell_back)
    for name in _FIGURES:
        yield _figure(THE_CLUSTER, name, getattr(memory, name))
    for broker, own in memory.brokers.items():
        yield from _moment(broker, _SINCE, own.since)
        for name in _OF_BROKER:
            yield _figure(broker, name, getattr(own, name))
    for (resource, broker), sums in memory.sums.items():
        for name in SUM_NAMES:
            yield _figure(broker, f"{resource} {name}", getattr(sums, name))
    for broker, one in memory.promises.items():
        yield from _moment(broker, f"{_PROMISED} {one.resource} at", one.at)
        for name in _OF_PROMISE:
            yield _figure(broker, f"{_PROMISED} {one.resource} {name}", getattr(one, name))
    yield from _split_rows(memory.splits)


def _split_rows(splits: Mapping[str, WantedSplit]) -> Iterator[Row]:
    for bundle, one in splits.items():
        yield from _moment(bundle, _SPLIT_SINCE, one.since)
        yield from _moment(bundle, _SPLIT_REFUSED, one.refused_at)
        yield _figure(bundle, f"{_ROOM}{one.resource}", one.room)
        for name in _OF_SPLIT:
            yield _figure(bundle, f"{_SPLIT} {name}", getattr(one, name))


def _figure(subject: str, name: str, value: float) -> Row:
    return state_row(STRATEGY, subject, name, value=float(value))


def _moment(subject: str, name: str, at: datetime | None) -> Iterator[Row]:
    if at is not None:
        yield state_row(STRATEGY, subject, name, at=at)


def memory_of(rows: Iterable[Row]) -> PlannerMemory:
    """What the rows of the cycle before say; nothing where there are none. What cannot be read is left out."""
    values: dict[str, dict[str, float]] = {}
    times: dict[str, dict[str, datetime]] = {}
    for row in rows:
        if row["strategy"] != STRATEGY:
            continue
        if row["at"] is not None:
            times.setdefault(row["subject"], {})[row["name"]] = datetime.fromisoformat(row["at"])
        elif row["value"] is not None and math.isfinite(row["value"]):
            values.setdefault(row["subject"], {})[row["name"]] = row["value"]
    whole, at = values.pop(THE_CLUSTER, {}), times.pop(THE_CLUSTER, {})
    return PlannerMemory(
        at=at.get(_SEEN),
        message_bytes=whole.get(MESSAGE_BYTES, 0.0),
        above=int(whole.get("above", 0.0)),
        is_acting=bool(whole.get("is_acting", 0.0)),
        reversals=whole.get("reversals", 0.0),
        changes=whole.get("changes", 0.0),
        unsteady=int(whole.get("unsteady", 0.0)),
        misses=int(whole.get("misses", 0.0)),
        fell_back=at.get(_FELL_BACK),
        brokers={
            broker: BrokerMemory(own["bundles"], own["load"], own["change"], times.get(broker, {}).get(_SINCE))
            for broker, own in sorted(values.items())
            if own.keys() >= set(_OF_BROKER)
        },
        sums=dict(_sums(values)),
        promises=dict(_promises(values, times)),
        splits=dict(_splits(values, times)),
    )


def wanted_splits_of(rows: Iterable[Row]) -> tuple[dict[str, WantedSplit], float]:
    """The splits that the rows of the cycle before want, and what a message counts as (bytes)."""
    kept = [
        row
        for row in rows
        if row["strategy"] == STRATEGY and (row["name"].startswith(_SPLIT) or row["name"] == MESSAGE_BYTES)
    ]
    memory = memory_of(kept)
    return dict(memory.splits), memory.message_bytes


def bundles_wanted_split(rows: Iterable[Row]) -> list[str]:
    """The bundles that the planner wants, or wanted of late, to be split, by name."""
    return [row["subject"] for row in rows if row["strategy"] == STRATEGY and row["name"] == _SPLIT_SINCE]


def _sums(values: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[tuple[str, str], UsageSums]]:
    for broker, own in sorted(values.items()):
        for resource in sorted(name.removesuffix(" weight") for name in own if name.endswith(" weight")):
            names = [f"{resource} {name}" for name in SUM_NAMES]
            if own.keys() >= set(names):
                yield (resource, broker), UsageSums(*(own[name] for name in names))


def _promises(
    values: Mapping[str, Mapping[str, float]], times: Mapping[str, Mapping[str, datetime]]
) -> Iterator[tuple[str, Promise]]:
    for broker, own in sorted(times.items()):
        for name, at in sorted(own.items()):
            if name.startswith(f"{_PROMISED} ") and name.endswith(" at"):
                resource = name.removeprefix(f"{_PROMISED} ").removesuffix(" at")
                figures = [values.get(broker, {}).get(f"{_PROMISED} {resource} {each}") for each in _OF_PROMISE]
                gain, before, load = figures
                if gain is not None and before is not None and load is not None:
                    yield broker, Promise(at, resource, gain, before, load)


def _splits(
    values: Mapping[str, Mapping[str, float]], times: Mapping[str, Mapping[str, datetime]]
) -> Iterator[tuple[str, WantedSplit]]:
    for bundle, own in sorted(values.items()):
        since, refused_at = (times.get(bundle, {}).get(name) for name in (_SPLIT_SINCE, _SPLIT_REFUSED))
        for name in sorted(name for name in own if name.startswith(_ROOM)):
            alone, level, is_stuck = (own.get(f"{_SPLIT} {each}") for each in _OF_SPLIT)
            if since is not None and alone is not None and level is not None:
                resource = name.removeprefix(_ROOM)
                yield bundle, WantedSplit(since, resource, own[name], alone, level, bool(is_stuck), refused_at)
