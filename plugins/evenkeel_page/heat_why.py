"""The explanation of a cell of the heat map: exact figures of the cycle, and its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.explain import Moment, Times, explain
from evenkeel.lake.record import Attempt, Record, Row, clusters_of
from evenkeel.lake.record.tables import all_of, text
from evenkeel.model.bundles import BundleRange
from evenkeel.times import time_given, utc_text
from evenkeel_page.heat_words import exact
from evenkeel_page.look import sentence

LOADS = "bundle_load"
MOST_BUNDLES = 12
_TICK = timedelta(microseconds=1)
_FIGURES = (
    *("used_msg_rate_in", "used_msg_rate_out", "used_msg_throughput_in", "used_msg_throughput_out"),
    *("topics", "producers", "consumers"),
)
COLUMNS = ("bundle", "namespace", "lower", "upper", "owner", *_FIGURES)
"""Columns that are read of a bundle."""
_HIGHEST = 0xFFFFFFFF


@dataclass(frozen=True)
class CellAsked:
    """A cell of the map.

    From the range that begins at `lower` of `namespace` to the one that ends at `upper` of `last_namespace`, and the
    column from `first` to before `to`; `at`: a moment in it, if one is requested.
    """

    cluster: str
    namespace: str
    lower: int
    last_namespace: str
    upper: int
    first: datetime
    to: datetime
    at: datetime | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if a bundle's row overlaps the cell's range."""
        begin, end = _key(self.namespace), _key(self.last_namespace)
        key = _key(row["namespace"])
        if not begin <= key <= end:
            return False
        upper = row["upper"] + (row["upper"] == _HIGHEST)
        last = self.upper + (self.upper == _HIGHEST)
        return (key > begin or upper > self.lower) and (key < end or row["lower"] < last)


def _key(namespace: str) -> tuple[str, ...]:
    return namespace.partition("/")[::2]


@dataclass(frozen=True)
class BundleFigures:
    """A bundle's row in words. `figures`: name and exact value."""

    bundle: str
    namespace: str
    lower: int
    upper: int
    owner: str
    figures: tuple[tuple[str, str], ...]

    @property
    def rate(self) -> str:
        """The message rate."""
        return self.figures[0][1]


@dataclass(frozen=True)
class CellWhy:
    """The values beside the map.

    `bundles`: those of the cell's range, the busiest first; `more`: how many are left out; `moment`: the explanation,
    if there is one bundle; `gone`: exact rows are no longer kept; `missing`: why there is no explanation. `cycles`:
    number of cycles in the column; `before`, `after`: the cycles next to this one.
    """

    asked: CellAsked
    cycle: Attempt
    cycles: int
    before: datetime | None
    after: datetime | None
    bundles: tuple[BundleFigures, ...]
    more: int
    moment: Moment | None
    gone: str
    missing: str

    @property
    def single(self) -> BundleFigures | None:
        """The one bundle of the cell's range."""
        return self.bundles[0] if len(self.bundles) == 1 and not self.more else None

    @property
    def is_other(self) -> bool:
        """Return True if the only bundle has another range than the cell, from before or after a split."""
        one, asked = self.single, self.asked
        return one is not None and (one.lower, one.upper) != (asked.lower, asked.upper)


def why(lake: str, asked: CellAsked) -> CellWhy:
    """Return the record of a cell: of the cycle in force at its moment, else of the last one in its column.

    Raises NoSuchCycle for an unknown cluster, BadInput for a column without a cycle, LakeError if nothing can be read.
    """
    record = Record(lake)
    clusters_of(record, asked.cluster)
    cycles = record.cycles(asked.cluster, asked.first, asked.to - _TICK)
    if not cycles:
        raise BadInput(
            f"no cycle of {asked.cluster} is between {utc_text(asked.first)} and {utc_text(asked.to)}: the map was "
            "built from cycles that the record no longer has"
        )
    place = _place(cycles, asked.at)
    cycle = cycles[place]
    bundles, more, is_gone = _bundles(record, cycle, asked)
    gone = ""
    if is_gone:
        kept = record.dates(LOADS, asked.cluster)
        since = f"kept are those from {kept[0].isoformat()} on" if kept else "none are kept"
        gone = f"The exact rows of this cycle are no longer kept ({since}); the map's value is right within a tenth."
    moment, missing = _explained(lake, asked, cycle, bundles, more, is_gone)
    before = record.in_force(asked.cluster, cycle.cycle_at - _TICK)
    after = record.following(asked.cluster, cycle.cycle_at)
    return CellWhy(
        asked, cycle, len(cycles), None if before is None else before.cycle_at,
        None if after is None else after.cycle_at, bundles, more, moment, gone, missing,
    )  # fmt: skip


def _place(cycles: Sequence[Attempt], at: datetime | None) -> int:
    """The cycle in force at the moment, else the last one that decided anything, else the last one."""
    if at is not None:
        return max((n for n, cycle in enumerate(cycles) if cycle.cycle_at <= at), default=0)
    return max((n for n, cycle in enumerate(cycles) if cycle.decided), default=len(cycles) - 1)


def _bundles(record: Record, cycle: Attempt, asked: CellAsked) -> tuple[tuple[BundleFigures, ...], int, bool]:
    """Return the bundles of the range, how many more there are, and True if rows are past their retention."""
    name = text("namespace")
    inside = (
        name == asked.namespace
        if asked.namespace == asked.last_namespace
        else all_of(name >= asked.namespace.partition("/")[0], name <= f"{asked.last_namespace}\U0010ffff")
    )
    rows = record.rows([cycle], LOADS, columns=COLUMNS, where=inside)[cycle.attempt_id]
    if not rows and any(write.rows for write in cycle.writes_of(LOADS)):
        return (), 0, not record.counts([cycle], LOADS)[cycle.attempt_id]
    cell_rows = sorted((row for row in rows if asked.holds(row)), key=lambda row: -(_sum(row, *_FIGURES[:2]) or 0.0))
    shown = cell_rows[:MOST_BUNDLES]
    shares = broker_shares(record, cycle, shown) if len(cell_rows) == 1 else {}
    return tuple(bundle_figures(row, shares) for row in shown), len(cell_rows) - len(shown), False


def broker_shares(record: Record, cycle: Attempt, rows: Sequence[Row]) -> dict[str, float | None]:
    """Bundle -> its part of its owner's bytes."""
    shares: dict[str, float | None] = {}
    for row in rows:
        owner, traffic = row["owner"], _sum(row, *_FIGURES[2:4])
        if owner is None or traffic is None:
            shares[row["bundle"]] = None
            continue
        all_ = record.rows([cycle], LOADS, columns=_FIGURES[2:4], where=text("owner") == owner)[cycle.attempt_id]
        whole = sum(_sum(bundle, *_FIGURES[2:4]) or 0.0 for bundle in all_)
        shares[row["bundle"]] = traffic / whole if whole else 0.0
    return shares


def _sum(row: Mapping[str, Any], *names: str) -> float | None:
    values = [row[name] for name in names]
    return None if None in values else float(sum(values))


def bundle_figures(row: Row, shares: Mapping[str, float | None]) -> BundleFigures:
    """A row of `bundle_load` (COLUMNS) in words."""
    figures = [
        ("Messages", exact(_sum(row, *_FIGURES[:2]), "msg/s")), ("Bytes", exact(_sum(row, *_FIGURES[2:4]), "byte/s")),
        ("Topics", exact(row["topics"], "count")), ("Sessions", exact(_sum(row, *_FIGURES[5:]), "count")),
    ]  # fmt: skip
    if row["bundle"] in shares:
        figures.append(("Share of its broker's bytes", exact(shares[row["bundle"]], "fraction")))
    return BundleFigures(
        row["bundle"], row["namespace"], row["lower"], row["upper"], row["owner"] or "unknown", tuple(figures)
    )


def _explained(
    lake: str, asked: CellAsked, cycle: Attempt, bundles: Sequence[BundleFigures], more: int, is_gone: bool
) -> tuple[Moment | None, str]:
    """Return the explanation of the only bundle, or why there is none."""
    if len(bundles) + more > 1:
        return None, ""
    if bundles:
        bundle = bundles[0].bundle
    elif is_gone and asked.namespace == asked.last_namespace:
        bundle = f"{asked.namespace}/{BundleRange(asked.lower, asked.upper)}"
    elif not cycle.decided:
        return None, f"This cycle decided nothing: {cycle.reason or cycle.status}."
    else:
        return None, "No bundle of this range was on record in this cycle."
    when = Times(at=time_given(cycle.cycle_at.astimezone(UTC).isoformat(), "at"))
    try:
        explanation = explain(lake, bundle, cluster=asked.cluster, when=when)
    except EvenkeelError as error:
        return None, sentence(str(error))
    assert isinstance(explanation, Moment)
    return explanation, ""
