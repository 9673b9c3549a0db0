"""A long record is looked at some dates at a time, and nothing is left out or looked at twice."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from evenkeel.lake.record import Record
from evenkeel.verify.chain import Span, Stretch, attempts_in, dates_of, in_stretches
from tests.lakes.small_lake import SmallLake, moment

FIRST = moment("2026-11-20T22:00:00")
EVERY = timedelta(hours=3)
CYCLES = [FIRST + n * EVERY for n in range(17)]  # one on the first date, eight on each of the next two
CLUSTERS = ("lab", "other")
WHOLE = Span()


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Two clusters; each cycle rests on the one before it."""
    small = SmallLake(tmp_path_factory.mktemp("stretches"))
    with small.one_commit():
        for at in CYCLES:
            for cluster in CLUSTERS:
                small.add(cluster, at, {}, predecessor_cycle_at=at - EVERY)
    return Record(small.root)


def looked_at(record: Record, span: Span = WHOLE) -> list[Stretch]:
    links = [record.links(name) for name in CLUSTERS]
    dates = dates_of(links[0], span) + dates_of(links[1], span)
    return [*in_stretches(record, CLUSTERS, dates, span)]


@pytest.mark.parametrize("most", [1, 40, 10_000])
def test_every_attempt_comes_once(record: Record, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("evenkeel.verify.chain._MANIFESTS_AT_ONCE", most)
    found = looked_at(record)
    assert len(found) == {1: 3, 40: 2, 10_000: 1}[most]
    attempts = [(one.cluster, one.cycle_at) for stretch in found for one in stretch.attempts]
    assert sorted(attempts) == [(cluster, at) for cluster in CLUSTERS for at in CYCLES]
    assert sum(len(stretch.rows) for stretch in found) == 2 * len(attempts)


@pytest.mark.parametrize(
    ("first", "last", "cycles", "dates"),
    [(1, 8, 8, {21}), (0, 0, 1, {20}), (8, 9, 2, {21, 22}), (3, 2, 0, {21})],
)
def test_a_span_has_both_its_ends(record: Record, first: int, last: int, cycles: int, dates: set[int]) -> None:
    span = Span(CYCLES[first], CYCLES[last])
    links = record.links("lab")
    assert attempts_in(links, span) == cycles
    assert {day.day for day in dates_of(links, span)} == dates
    found = looked_at(record, span)
    assert [a.cycle_at for s in found for a in s.attempts if a.cluster == "lab"] == CYCLES[first : last + 1]
    assert {row["cycle_at"] for stretch in found for row in stretch.rows} == {*CYCLES[first : last + 1]}


def test_the_dates_of_the_attempts_and_of_their_predecessors_are_near(record: Record) -> None:
    (stretch,) = looked_at(record, Span(CYCLES[9], CYCLES[9]))  # the first one of its date
    near = {(one.cluster, one.cycle_at) for one in stretch.near}
    assert near == {(cluster, at) for cluster in CLUSTERS for at in CYCLES[1:]}


def test_links_come_in_the_order_of_the_chain(record: Record) -> None:
    links = record.links("other").to_pylist()
    assert [row["sequence"] for row in links] == [*range(1, 2 * len(CYCLES) + 1)]
    moments: list[datetime] = [row["cycle_at"] for row in links if row["row_kind"] == "planned"]
    assert moments == CYCLES == record.moments("other").to_pylist()
