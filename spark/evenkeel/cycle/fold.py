"""The fold: the cycles of a cluster in order, each decided by its rounds, on the state of the previous cycle.

A run of one cycle is a fold over one. The state consists of rows of `strategy_state`: values that strategies remember.
A cycle takes it over under the moment of its predecessor (`predecessor_cycle_at`), whether the predecessor is on record
or was just decided in this process.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import cells

log = logging.getLogger(__name__)

FRAME = "frame"
THE_CLUSTER = "cluster"
SHED_AT = "shed_at"
ASSUMED_UNLOADED = "assumed_unloaded"
LOAD_AVERAGE = "weighted_max_ema"
PLANNER = "Planner"
"""The strategy name of the planner's remembered values and requests; a stored name."""


def state_row(strategy: str, subject: str, name: str, *, value: float | None = None, at: datetime | None = None) -> Row:
    """Return one remembered value as a row."""
    return {"strategy": strategy, "subject": subject, "name": name, "value": value, "at": at}


def shedder_state(rows: Iterable[Row], shedder: str) -> dict[str, dict[str, float]]:
    """Return the shedder's remembered values: name -> broker -> value. Those of another shedder do not count."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["strategy"] == shedder:
            values.setdefault(row["name"], {})[row["subject"]] = row["value"]
    return values


def shed_at(rows: Iterable[Row]) -> int | None:
    """Return when a strategy last ran, epoch ms."""
    times = [_milliseconds(row["at"]) for row in rows if row["strategy"] == FRAME and row["name"] == SHED_AT]
    return max(times, default=None)


def assumed_unloaded(rows: Iterable[Row]) -> dict[str, int]:
    """Return bundle -> when its unload was assumed to have succeeded, epoch ms (evenkeelAssumeUnloadsSucceed)."""
    unloaded_at: dict[str, int] = {}
    for row in rows:
        if row["strategy"] == FRAME and row["name"] == ASSUMED_UNLOADED:
            # Shedding hands on the entries within the grace period, placement adds this cycle's: the later one counts.
            unloaded_at[row["subject"]] = max(_milliseconds(row["at"]), unloaded_at.get(row["subject"], 0))
    return unloaded_at


def state_rows(
    shedder: str, remembered: Mapping[str, Mapping[str, float]], last: int | None, recent: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the state after a shedding round, for the next cycle."""
    rows = [
        state_row(shedder, broker, name, value=value)
        for name, values in sorted(remembered.items())
        for broker, value in sorted(values.items())
    ]
    if last is not None:
        rows.append(state_row(FRAME, THE_CLUSTER, SHED_AT, at=_moment(last)))
    rows += [state_row(FRAME, bundle, ASSUMED_UNLOADED, at=_moment(at)) for bundle, at in sorted(recent.items())]
    return [dict(row) for row in rows]


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


STATE = "state"
"""Input of a round: the remembered values of its predecessor's strategies."""
REMEMBERED = "strategy_state"
"""Table in which a round stores the remembered values of its strategies."""
FAILURES = "failures"
"""The output of `fold` that names the cycle whose round raised an error."""
FAILURES_TYPE = "cluster string, cycle_at string, error string"


@dataclass(frozen=True, slots=True)
class Round:
    """A round of one cycle: rows in, rows of its tables out.

    `decide` is called with the key of the cluster and the rows of the cycle. `tables` are those of its rows that the
    later rounds of the cycle read. They are as the lake would return them (`is_read_back`), or unchanged if the round
    gives them in that form. `carries`: input of the next cycle -> the table of this round that it comes from.
    `ahead_of`: the task that decides and writes this round; the fold runs it only if a later cycle needs its rows, and
    returns none of them.
    """

    decide: Callable[[Row, SharedRows], Decided]
    tables: tuple[str, ...] = ()
    is_read_back: bool = True
    carries: Mapping[str, str] = field(default_factory=lambda: {STATE: REMEMBERED})
    ahead_of: str | None = None


def fold(rounds: Sequence[Round], key: Row, rows: Rows, *, as_recorded: bool = False) -> Decided:
    """Return the rows that the rounds decide for every cycle of `rows["cycle"]`; rows without a `cycle_at` get it.

    It takes the arguments of `cycles_decided`. An error ends the fold with a row of `FAILURES`: later cycles rest on
    the failed one, other clusters do not.
    """
    decided: Decided = {}
    moments, done = sorted(str(cycle["cycle_at"]) for cycle in rows["cycle"]), 0
    try:
        for at, of_cycle in cycles_decided(rounds, key, rows, as_recorded=as_recorded):
            for table, cycle_rows in of_cycle.items():
                decided.setdefault(table, []).extend(
                    row if "cycle_at" in row else {**row, "cycle_at": at} for row in cycle_rows
                )
            done += 1
    except Exception as error:
        log.exception("%s at %s", key["cluster"], moments[done])
        decided[FAILURES] = [{"cycle_at": moments[done], "error": _error_line(error)}]
    return decided


def cycles_decided(
    rounds: Sequence[Round], key: Row, rows: Rows, *, as_recorded: bool = False
) -> Iterator[tuple[str, Decided]]:
    """Decide the cycles of a cluster in order of time; yield the moment of each and the rows of its rounds.

    A cycle gets its own rows, as if there were no other. The inputs that rounds carry on are only the rows of its
    predecessor: those in `rows`, and those that the rounds have left in this process. With `as_recorded`, every round
    goes on from the recorded rows in `rows` of the rounds and of the previous cycle, whatever these decide now.
    """
    carried = {name for each_round in rounds for name in each_round.carries}
    rows_by_moment = {kind: by_moment(given) for kind, given in rows.items() if kind not in carried}
    recorded = {kind: by_moment(rows.get(kind, ())) for kind in carried}
    ordered = sorted(rows["cycle"], key=lambda row: str(row["cycle_at"]))
    texts = {row["settings_digest"]: row["settings"] for row in ordered if row["settings"] is not None}
    cycles = [
        row if row["settings"] is not None else {**row, "settings": texts.get(row["settings_digest"])}
        for row in ordered
    ]
    followers = Counter[str | None]() if as_recorded else Counter(cycle["predecessor_cycle_at"] for cycle in cycles)
    left: dict[str | None, Mapping[str, Sequence[Row]]] = {}
    for cycle in cycles:
        at, before_at = str(cycle["cycle_at"]), cycle["predecessor_cycle_at"]
        before = left.get(before_at, {})
        followers[before_at] -= 1
        if followers[before_at] <= 0:
            left.pop(before_at, None)
        given: dict[str, Sequence[Row]] = {kind: moments.get(at, ()) for kind, moments in rows_by_moment.items()}
        given |= {kind: [*recorded[kind].get(before_at, ()), *before.get(kind, ())] for kind in carried}
        given["cycle"] = [cycle]
        is_followed = followers[at] > 0
        going = [each_round for each_round in rounds if is_followed or each_round.ahead_of is None]
        decided = decide_cycle(going, key, SharedRows(given), as_recorded=as_recorded)
        if is_followed:
            left[at] = {name: _as_left(name, carried_rows) for name, carried_rows in decided.carried.items()}
        yield at, decided.made


class DecidedRounds(NamedTuple):
    """Results of a cycle's rounds.

    These are the rows of all tables; the rows of the cycle with those that rounds passed on; and the rows for the next
    cycle, by input.
    """

    made: Decided
    rows: SharedRows
    carried: Mapping[str, Sequence[Row]]


def decide_cycle(rounds: Sequence[Round], key: Row, rows: SharedRows, *, as_recorded: bool = False) -> DecidedRounds:
    """Run one cycle's rounds, each on the rows of the earlier ones, or with `as_recorded` on those in `rows`."""
    decided: Decided = {}
    carried: dict[str, list[Row]] = {}
    for each_round in rounds:
        try:
            round_rows = each_round.decide(key, rows)
        except Exception as error:
            if each_round.ahead_of is not None:
                error.add_note(f"in the rule of {each_round.ahead_of}")
            raise
        if each_round.tables and not as_recorded:
            of_tables: Rows = {table: round_rows.get(table, []) for table in each_round.tables}
            if each_round.is_read_back:
                of_tables = {table: read_back(table, table_rows) for table, table_rows in of_tables.items()}
            rows = rows.having(of_tables)
        for name, table in each_round.carries.items():
            carried.setdefault(name, []).extend(round_rows.get(table, ()))
        if each_round.ahead_of is None:
            for table, table_rows in round_rows.items():
                decided[table] = [*decided[table], *table_rows] if table in decided else table_rows
    return DecidedRounds(decided, rows, carried)


def _as_left(name: str, rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows as the next cycle would read them back; inputs other than the state are in that form already."""
    if name != STATE:
        return rows
    read = (as_read(REMEMBERED, row) for row in rows)
    return sorted(read, key=lambda row: (row["strategy"], row["subject"], row["name"]))


def by_moment(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows by their `cycle_at`."""
    by_cycle: dict[str, list[Row]] = {}
    for row in rows:
        by_cycle.setdefault(row["cycle_at"], []).append(row)
    return by_cycle


def read_back(table: str, rows: Iterable[Row]) -> list[Row]:
    """Return rows as the next task's round gets them: read back, in order of their content (`spark.row_order`)."""
    plain_rows: list[Row] = [as_read(table, row) for row in rows]
    if len(plain_rows) < 2:
        return plain_rows
    columns = {name: kind for name, kind in types_of(table).items() if name in plain_rows[0]}
    return [plain_rows[place] for place in content_order(columns, cells(plain_rows, tuple(columns)))]


def _error_line(error: Exception) -> str:
    """Return an error's first line with its kind, as `FAILURES` has it; if a round looked ahead, after its name."""
    text = (str(error).strip().splitlines() or [""])[0][:500]
    kind = type(error).__name__
    return "".join((*(f"{note}: " for note in getattr(error, "__notes__", ())), f"{kind}: {text}" if text else kind))
