"""The order in which Pulsar's leader handles a shedder's proposals.

A shedder returns a Java hash map from broker to bundles, and `doLoadShedding` iterates over it. If each placement
counts for the next one (in turns, by average usage), that order decides the destinations, so it is reproduced. It
depends on the names alone. Bundles of one broker stay in the order in which they were selected.
"""

from __future__ import annotations

from collections.abc import Iterable

_FIRST_TABLE = 16
_MOST_FILLED = 0.75


def in_pulsars_order(unloads: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """(bundle, broker) pairs by broker in the order of Java's HashMap, else in the order given."""
    given = tuple(unloads)
    place = {broker: n for n, broker in enumerate(hash_order(broker for _, broker in given))}
    return tuple(sorted(given, key=lambda unload: place[unload[1]]))


def hash_order(names: Iterable[str], *, most: int = 0) -> list[str]:
    """Return names in the order of a Java HashMap that they were put into in ascending order."""
    ordered = sorted(set(names))
    size = _FIRST_TABLE
    while max(len(ordered), most) > size * _MOST_FILLED:
        size *= 2
    return sorted(ordered, key=lambda name: _spread(java_hash(name)) % size)


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _spread(code: int) -> int:
    """The upper half mixed into the lower one, as HashMap does."""
    return code ^ code >> 16
