"""Rows of the record as the heat map takes them: loads of bundles, and marks.

Rows of `bundle_load` become arrays: a cycle's figures of each bundle, as decisions used them. Marks are moves and
splits that cycles requested, commands that guards held back, and bounces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenkeel.errors import BadInput, LakeError
from evenkeel.heat.columns import Bundle, CycleLoad, OwnerChange, bounces_among
from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS, WIDTH, in_order
from evenkeel.heat.scale import NOBODY, SEVERAL
from evenkeel.lake.outbox import with_outcomes
from evenkeel.lake.record import Attempt, Record
from evenkeel.lake.record.tables import is_in, text
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.load import RATES
from evenkeel.model.past_commands import BOUNCE_MS

if TYPE_CHECKING:
    import pyarrow as pa


LOADS = "bundle_load"
_RATES = tuple(f"used_{rate}" for rate in RATES)
COLUMNS = ("namespace", "lower", "upper", "owner", "topics", "producers", "consumers", *_RATES)
"""The columns of `bundle_load` that the heat map is made of."""


class BrokerCodes:
    """Codes of broker ids, from 1, in the order of their first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: dict[str, int] = {}

    def code(self, name: str | None) -> int:
        """Return the broker's code; 0 for None. Raises LakeError for more brokers than codes."""
        if name is None:
            return NOBODY
        if name not in self._known:
            self.names.append(name)
            self._known[name] = len(self.names)
            if len(self.names) >= SEVERAL:
                raise LakeError(f"more than {SEVERAL - 1:,} brokers own bundles of one cluster: heat counts no further")
        return self._known[name]


def loads_of(
    rows: pa.Table | None, count: int, brokers: BrokerCodes, owner_column: str = "owner"
) -> Iterator[CycleLoad | None]:
    """Yield the bundles of `count` attempts, in their order; None for one without rows.

    `rows` are rows of `Record.arrow_rows` with COLUMNS. Message and byte rates are those that decisions used, in and
    out together. The share of the broker is that of its bytes, by its bundles' sum, 0 if these are none.
    `owner_column`: `last_owner` for the last known owner.
    """
    if rows is None:
        yield from [None] * count
        return
    attempt = rows.column("attempt").to_numpy()
    namespaces = rows.column("namespace").combine_chunks().dictionary_encode()
    names = in_order(namespaces.dictionary.to_pylist())
    rank_of = {name: rank for rank, name in enumerate(names)}
    ranks = np.array([rank_of[name] for name in namespaces.dictionary.to_pylist()], np.int64)
    base = ranks[namespaces.indices.to_numpy()] << NAMESPACE_BITS if len(ranks) else np.zeros(0, np.int64)
    upper = rows.column("upper").to_numpy()
    lower, upper = base + rows.column("lower").to_numpy(), base + np.where(upper >= HIGHEST, WIDTH, upper)
    owners = rows.column(owner_column).combine_chunks().dictionary_encode()
    codes = np.array([brokers.code(name) for name in owners.dictionary.to_pylist()] + [NOBODY], np.uint16)
    owner = codes[owners.indices.fill_null(len(codes) - 1).to_numpy()]
    # Message rate, byte rate, topics and sessions of each row; NaN if a part is unknown.
    rate_in, rate_out, bytes_in, bytes_out = (_numbers(rows.column(name)) for name in _RATES)
    topics, producers, consumers = (_numbers(rows.column(name)) for name in ("topics", "producers", "consumers"))
    figures = np.vstack((rate_in + rate_out, bytes_in + bytes_out, topics, producers + consumers))
    order = np.lexsort((lower, attempt))
    ends = np.searchsorted(attempt[order], np.arange(count + 1))
    for n in range(count):
        positions = order[ends[n] : ends[n + 1]]
        if len(positions) > 1:  # the first row of a duplicate bundle counts
            apart = np.r_[True, lower[positions][1:] >= np.maximum.accumulate(upper[positions])[:-1]]
            positions = positions[apart]
        if not len(positions):
            yield None
            continue
        shares = _broker_shares(figures[1, positions], owner[positions])
        yield CycleLoad(
            names, lower[positions], upper[positions], np.vstack((figures[:, positions], shares)), owner[positions]
        )


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _broker_shares(bytes_: npt.NDArray[np.float64], owner: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    whole = np.bincount(owner, np.nan_to_num(bytes_))[owner]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(whole > 0, bytes_ / whole, np.where(np.isnan(bytes_), np.nan, 0.0))
    return np.where(owner == NOBODY, np.nan, share)


MarkRow = dict[str, Any]
BOUNCE, SPLIT, HELD, MOVE = "bounce", "split", "held", "move"
KINDS = (BOUNCE, SPLIT, HELD, MOVE)
COMMAND = (
    *("cluster", "command_id", "plan_id", "cycle_at", "step", "kind", "bundle", "from_broker", "destination", "mode"),
    "topic",
)
"""The columns of `commands` that marks and courses are made of."""
_GUARD = ("subject", "subject_kind", "position", "kind", "outcome", "rule", "broker", "destination")
_TICK = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def command_marks(record: Record, attempts: Sequence[Attempt]) -> list[MarkRow]:
    """Return marks of the requests of ordered attempts of one cluster, and of those that their guards held back.

    The text has source and destination, and the command's last outcome; of a dry run, that nothing was sent.
    """
    acting = [attempt for attempt in attempts if attempt.plan_id is not None]
    if not acting:
        return []
    plans = {(attempt.cycle_at, attempt.plan_id) for attempt in acting}
    span = (acting[0].cluster, acting[0].cycle_at, acting[-1].cycle_at)
    commands = [
        row for row in record.outbox("commands", *span, columns=COMMAND) if (row["cycle_at"], row["plan_id"]) in plans
    ]
    seen = record.outbox("outcomes", *span, columns=["command_id", "outcome", "seen_at", "detail"]) if commands else []
    marks = [_command_mark(row) for row in with_outcomes(commands, seen)]
    listing = [attempt for attempt in acting if any(write.rows for write in attempt.writes_of("guard_decisions"))]
    if listing:
        held = record.rows(listing, "guard_decisions", columns=_GUARD, where=text("outcome") == HELD)
        marks += [
            _held_mark(attempt.cycle_at, row) for attempt in listing for row in held[attempt.attempt_id] if row["kind"]
        ]
    return [mark for mark in marks if mark]


def _command_mark(row: Mapping[str, Any]) -> MarkRow:
    word = "" if row["outcome"] is None else f", {row['outcome']}"
    if row["kind"] == SPLIT:
        return _mark(row["cycle_at"], SPLIT, row["bundle"], f"split{word}")
    subject = f"topic {row['topic']} " if row.get("topic") else ""
    return _mark(row["cycle_at"], MOVE, row["bundle"], f"{subject}{way(row['from_broker'], row['destination'])}{word}")


def _held_mark(at: datetime, row: Mapping[str, Any]) -> MarkRow:
    words = way(row["broker"], row["destination"]) if row["kind"] != SPLIT else SPLIT
    return _mark(at, HELD, row["subject"], f"{words} held by {row['rule']}")


def way(source: str | None, destination: str | None) -> str:
    """Return from where to where a bundle goes, in words."""
    return f"{source or 'nobody'} → {destination or 'where Pulsar chooses'}"


def _mark(at: datetime, kind: str, bundle: str, words: str) -> MarkRow:
    """Return the mark; an empty one for a name that is not a bundle's."""
    try:
        bundle_range = range_of(bundle)
        return _row(at, kind, (namespace_of(bundle), bundle_range.lower, bundle_range.upper), words)
    except BadInput:
        return {}


def _row(at: datetime, kind: str, bundle: Bundle, words: str) -> MarkRow:
    namespace, lower, upper = bundle
    return {"at": at, "kind": kind, "namespace": namespace, "lower": lower, "upper": upper, "text": words}


def bounce_marks(record: Record, cluster: str, changes: Sequence[OwnerChange]) -> list[MarkRow]:
    """Return marks of ordered changes of owner that bring a bundle back to a broker of the hour before.

    The owners in the hour before the first change are read from the record.
    """
    if not changes:
        return []
    at = {change.at: moment_of(change.at) for change in changes}
    earlier = _owners_before(record, cluster, at[changes[0].at], {change.name for change in changes})
    return [
        _row(
            at[bounce.at],
            BOUNCE,
            bounce.bundle,
            f"{bounce.left} → {bounce.came_to}, which it left {_minutes(since)} before",
        )
        for bounce, since in bounces_among(changes, earlier)
    ]


def _owners_before(
    record: Record, cluster: str, at: datetime, bundles: Iterable[str]
) -> dict[str, list[tuple[int, str]]]:
    since = at - timedelta(milliseconds=BOUNCE_MS)
    before = record.in_force(cluster, since)
    first = since if before is None else before.cycle_at
    attempts = record.cycles(cluster, first, at - _TICK)
    rows = record.arrow_rows(attempts, LOADS, ["bundle", "owner"], is_in("bundle", sorted(bundles)))
    owners: dict[str, list[tuple[int, str]]] = {}
    if rows is not None:
        for row in rows.sort_by("attempt").to_pylist():
            if row["owner"] is not None:
                moment = microseconds(attempts[row["attempt"]].cycle_at)
                owners.setdefault(row["bundle"], []).append((moment, row["owner"]))
    return owners


def _minutes(microseconds: int) -> str:
    return f"{max(1, round(microseconds / 60_000_000))} min"


def microseconds(at: datetime) -> int:
    """Return microseconds since 1970."""
    return (at - _EPOCH) // _TICK


def moment_of(microseconds: int) -> datetime:
    """Return the moment so many microseconds after the beginning of 1970, in UTC."""
    return _EPOCH + microseconds * _TICK
