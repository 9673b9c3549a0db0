"""The fold: the cycles of a cluster in their order, each decided by its rounds, on the state that the one before left.

A run of one cycle is a fold over one. What a cycle takes over stands under the moment of its predecessor
(`predecessor_cycle_at`), whether that is on record or has just been decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import cells

STATE = "state"
"""The input of a round: what its predecessor's strategies remember."""
REMEMBERED = "strategy_state"
"""The table in which a round leaves what its strategies remember."""
FAILURES = "failures"
"""The output of `fold` that names the cycle whose round raised an error."""
FAILURES_TYPE = "cluster string, cycle_at string, error string"


@dataclass(frozen=True, slots=True)
class Round:
    """A round of one cycle: rows in, rows of its tables out.

    `decide`: called with the key of the cluster and the rows of the cycle. `tables`: those of its rows that the later
    rounds of the cycle read, as they would be read from the lake (`is_read_back`), or as they are where the round gives
    them in that form. `carries`: input of the next cycle -> the table of this round that it comes from. `ahead_of`: the
    task that decides and writes this round; the fold runs it only where a later cycle goes on from its rows, and
    returns none of them.
    """

    decide: Callable[[Row, SharedRows], Decided]
    tables: tuple[str, ...] = ()
    is_read_back: bool = True
    carries: Mapping[str, str] = field(default_factory=lambda: {STATE: REMEMBERED})
    ahead_of: str | None = None


def fold(
    rounds: Sequence[Round], key: Row, rows: Rows, *, is_window: bool = True, as_recorded: bool = False
) -> Decided:
    """Return the rows that the rounds decide for every cycle of `rows["cycle"]`; rows without a `cycle_at` get it.

    Takes what `cycles_decided` takes. In a window, an error ends the fold with a row of `FAILURES`, since later cycles
    rest on the one that failed. Where the run has one cycle per cluster, the error is raised.
    """
    made: Decided = {}
    moments, done = sorted(str(cycle["cycle_at"]) for cycle in rows["cycle"]), 0
    try:
        for at, found in cycles_decided(rounds, key, rows, as_recorded=as_recorded):
            for table, own in found.items():
                made.setdefault(table, []).extend(row if "cycle_at" in row else {**row, "cycle_at": at} for row in own)
            done += 1
    except Exception as error:
        if not is_window:
            raise
        made[FAILURES] = [{"cycle_at": moments[done], "error": _error_line(error)}]
    return made


def cycles_decided(
    rounds: Sequence[Round], key: Row, rows: Rows, *, as_recorded: bool = False
) -> Iterator[tuple[str, Decided]]:
    """Decide the cycles of a cluster in order of time; yield the moment of each and the rows of its rounds.

    A cycle is given its own rows, as if there were no other. The inputs that rounds carry on are the rows of its
    predecessor alone: those in `rows`, and those that the rounds have left for it here. With `as_recorded`, every round
    goes on from what `rows` hold of the rounds and of the cycle before it, whatever these come to now.
    """
    carried = {name for one in rounds for name in one.carries}
    own = {kind: by_moment(given) for kind, given in rows.items() if kind not in carried}
    recorded = {kind: by_moment(rows.get(kind, ())) for kind in carried}
    cycles = _with_settings(rows["cycle"])
    followers = Counter[str | None]() if as_recorded else Counter(cycle["predecessor_cycle_at"] for cycle in cycles)
    left: dict[str | None, Mapping[str, Sequence[Row]]] = {}
    for cycle in cycles:
        at, before_at = str(cycle["cycle_at"]), cycle["predecessor_cycle_at"]
        before = left.get(before_at, {})
        followers[before_at] -= 1
        if followers[before_at] <= 0:
            left.pop(before_at, None)
        given: dict[str, Sequence[Row]] = {kind: moments.get(at, ()) for kind, moments in own.items()}
        given |= {kind: [*recorded[kind].get(before_at, ()), *before.get(kind, ())] for kind in carried}
        given["cycle"] = [cycle]
        is_followed = followers[at] > 0
        going = [one for one in rounds if is_followed or one.ahead_of is None]
        decided = decide_cycle(going, key, SharedRows(given), as_recorded=as_recorded)
        if is_followed:
            left[at] = {name: _as_left(name, found) for name, found in decided.carried.items()}
        yield at, decided.made


class DecidedRounds(NamedTuple):
    """What the rounds of a cycle come to: the rows of all tables; the rows of the cycle with those that rounds passed
    on; and what they carry to the next cycle, by input."""

    made: Decided
    rows: SharedRows
    carried: Mapping[str, Sequence[Row]]


def decide_cycle(rounds: Sequence[Round], key: Row, rows: SharedRows, *, as_recorded: bool = False) -> DecidedRounds:
    """Run the rounds of one cycle, each on what the ones before it left, or with `as_recorded` on what `rows` hold of
    them."""
    made: Decided = {}
    carried: dict[str, list[Row]] = {}
    for one in rounds:
        try:
            found = one.decide(key, rows)
        except Exception as error:
            if one.ahead_of is not None:
                error.add_note(f"in the rule of {one.ahead_of}")
            raise
        if one.tables and not as_recorded:
            read = read_back if one.is_read_back else _as_it_is
            rows = rows.having({table: read(table, found.get(table, [])) for table in one.tables})
        for name, table in one.carries.items():
            carried.setdefault(name, []).extend(found.get(table, ()))
        if one.ahead_of is None:
            for table, own in found.items():
                made[table] = [*made[table], *own] if table in made else own
    return DecidedRounds(made, rows, carried)


def _as_it_is(_table: str, rows: Sequence[Row]) -> Sequence[Row]:
    return rows


def _as_left(name: str, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows as the next cycle would read them back; of other inputs than the state they are in that form."""
    if name != STATE:
        return rows
    read = (as_read(REMEMBERED, row) for row in rows)
    return sorted(read, key=lambda row: (row["strategy"], row["subject"], row["name"]))


def _with_settings(cycles: Sequence[Row]) -> list[Row]:
    """A cluster's cycle rows in order of time, each with its settings."""
    ordered = sorted(cycles, key=lambda row: str(row["cycle_at"]))
    texts = {row["settings_digest"]: row["settings"] for row in ordered if row["settings"] is not None}
    return [
        row if row["settings"] is not None else {**row, "settings": texts.get(row["settings_digest"])}
        for row in ordered
    ]


def by_moment(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows by their `cycle_at`."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cycle_at"], []).append(row)
    return found


def read_back(table: str, rows: Iterable[Row]) -> list[Row]:
    """Rows of a table as the round of the next task is given them: read back, in the order of their content (see
    `spark.row_order`)."""
    found: list[Row] = [as_read(table, row) for row in rows]
    if len(found) < 2:
        return found
    columns = {name: kind for name, kind in types_of(table).items() if name in found[0]}
    return [found[place] for place in content_order(columns, cells(found, tuple(columns)))]


def _error_line(error: Exception) -> str:
    """The first line of an error with its kind, as `FAILURES` has it; after where it arose, if a round looked ahead."""
    text = (str(error).strip().splitlines() or [""])[0][:500]
    kind = type(error).__name__
    return "".join((*(f"{note}: " for note in getattr(error, "__notes__", ())), f"{kind}: {text}" if text else kind))
