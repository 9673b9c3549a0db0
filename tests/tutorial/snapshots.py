"""Writes the moments of the tutorial's cluster as snapshots. The brokers' configuration is in the first one and in the
first one after the change: others borrow it."""

from collections.abc import Iterator
from pathlib import Path

from devtools.week.documents import GeneratedMoment, Teller
from tests.tutorial.thrash import CHANGED_AT, CLUSTER, MESSAGE_BYTES, NAMESPACES, boundaries, course, topics_of

NOTE = "generated: tests/tutorial/thrash.py"


def write(folder: Path) -> list[Path]:
    """The recording, a file per moment."""
    return Teller(CLUSTER, NOTE, MESSAGE_BYTES, packed=9).write(folder, _moments())


def _moments() -> Iterator[GeneratedMoment]:
    edges = dict.fromkeys(NAMESPACES, boundaries())
    known = topics_of()
    for one in course():
        settings = one.settings if one.number in (0, CHANGED_AT) else None
        yield GeneratedMoment(one.number, one.at, one.owners, one.traffic, one.usage, edges, known, settings)
