"""The record as tasks read it: manifests of their own cycles, attempts whose state they take over, recent commands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from evenkeel.handover import ClusterCycle, CycleKey, Predecessor
from evenkeel.lake.controls import leases, pauses
from evenkeel.lake.manifest import DECIDED_STATUSES, writes_of
from evenkeel.lake.outbox import LOOKBACK, as_text, harmed, is_steered, with_outcomes
from evenkeel.lake.plain_rows import read_file, with_cluster
from evenkeel.lake.record import Record, Row
from evenkeel.lake.record.known_files import FIRST_MOMENT
from evenkeel.lake.record.tables import ROUNDING, as_rows, between, damaged, is_in, text
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.times import utc_text

_NEAR = timedelta(days=1)
_TICK = timedelta(microseconds=1)
_FEW = 32
"""The most files that are opened one by one: for more of them a dataset is faster."""
_CYCLES = "cycles"
_COLUMNS = ("cluster", "cycle_at", "row_kind", "status", "kind", "attempt", "attempt_id", "writes", "files")


def manifests_within(
    record: Record, cluster: str, first: datetime, last: datetime, columns: Sequence[str], where: Any = None
) -> list[Row]:
    """Return the rows of `cycles` from one moment to another, both included, with these columns.

    `where`: a condition on these columns, which have `cycle_at`. Raises LakeError for a file that cannot be read.
    """
    files = record.files(_CYCLES).between(cluster, first, last)
    if len(files) > _FEW:
        return record.manifests(cluster, first, last, columns, where)
    place, nothing, rows = files_of(Lake(str(record.lake)).path(_CYCLES)), dict.fromkeys(columns), list[Row]()
    condition = between("cycle_at", first, last) if where is None else between("cycle_at", first, last) & where
    inside = [name for name in columns if name != "cluster"]
    for file in files:
        try:
            read = with_cluster(read_file(place.full(file.path), _CYCLES, inside), cluster).filter(condition)
        except (OSError, ValueError, KeyError) as error:
            raise damaged(record.lake, _CYCLES, error) from error
        rows += ({**nothing, **row} for row in as_rows(read))
    return rows


def find_predecessors(
    lake: Lake, cycles: Sequence[tuple[str, str, str | None]], *, kind: str
) -> dict[CycleKey, Predecessor]:
    """Return for each (cluster, cycle_at, expected previous cycle_at) the recorded attempt whose state is taken over.

    A live cycle takes state from attempts that are not a backfill. A backfill takes it from a backfill's attempt at the
    predecessor, else from the live one. If the expected cycle is not on record the newest older one serves, and the
    status says so. All cycles of a window may be wanted at once. Each gets the attempts on record before it, as if it
    were decided alone; `Handover.within` names those for which a cycle of the window itself comes first.
    """
    record, wanted = Record(lake.root), dict[str, list[datetime]]()
    for cluster, at, _ in cycles:
        wanted.setdefault(cluster, []).append(datetime.fromisoformat(at))
    candidates = {
        cluster: _candidates(record, cluster, min(moments), max(moments), kind) for cluster, moments in wanted.items()
    }
    return {(cluster, at): _predecessor(_before(candidates[cluster], at), expected) for cluster, at, expected in cycles}


def _candidates(record: Record, cluster: str, first: datetime, last: datetime, kind: str) -> list[Row]:
    """Return the rows to take over from, oldest first: of the newest cycle before `first`, and of each before `last`.

    Nearly always the newest row before is of the cycle a minute or so ago, and the log leads to its file.
    """
    decided = (text("row_kind") == "planned") & is_in("status", DECIDED_STATUSES)
    where = decided if kind == "backfill" else decided & (text("kind") != "backfill")

    def rows(begin: datetime, end: datetime) -> list[Row]:
        return manifests_within(record, cluster, begin, end, _COLUMNS, where)

    before = first - _TICK
    known = record.files(_CYCLES).last_known(cluster, before)
    found = [] if known is None else rows(known - ROUNDING, before)
    for begin in () if found or known is None else (first - _NEAR, FIRST_MOMENT):
        if len(moments := record.moments(cluster, where, first=begin, last=before)):
            newest = moments[-1].as_py()
            found = rows(newest, newest)
            break
    found += rows(first, last - _TICK) if first < last else []
    return sorted(found, key=lambda row: (row["cycle_at"], row["kind"] == "backfill", row["attempt"]))


def _before(rows: Sequence[Row], at: str) -> Row | None:
    """Return the last of some rows, oldest first, that is of a cycle before `at`; None if there is none."""
    place = bisect_left(rows, datetime.fromisoformat(at), key=lambda row: row["cycle_at"])
    return rows[place - 1] if place else None


def _predecessor(row: Row | None, expected: str | None) -> Predecessor:
    if row is None:
        return Predecessor(status="none" if expected is None else "missing", expected_at=expected)
    cycle_at = utc_text(row["cycle_at"])
    status = "used" if expected in (None, cycle_at) else "older"
    return Predecessor(
        status, cycle_at, row["attempt_id"], expected, writes_of(row["cluster"], row["writes"], row["files"])
    )


_COMMAND = (
    *("command_id", "plan_id", "cluster", "step", "kind", "bundle", "from_broker", "destination", "algorithm", "cuts"),
    *("unload_children", "mode", "request", "clients", "topic", "cycle_at", "expires_at"),
)
_OUTCOME = ("cluster", "command_id", "outcome", "seen_at", "detail")


def recent_acts(lake: Lake, clusters: Sequence[str], *, since: datetime, until: datetime) -> list[Row]:
    """Return commands of cycles in a span of time, each with its last `outcome`, `seen_at` and `detail`, if any.

    They are ordered by cluster, cycle and step; duplicate rows of one id are one command. Times are aware datetimes. A
    command that did harm has another entry, after all others, with the outcome `harmed`.
    """
    # An outcome has cluster and cycle of its command, so one span covers both.
    record, span = Record(lake.root), (since, until)
    commands = [row for name in clusters for row in record.outbox("commands", name, *span, _COMMAND)]
    outcomes = [row for name in clusters for row in record.outbox("outcomes", name, *span, _OUTCOME)]
    ids = {(command["cluster"], command["command_id"]) for command in commands}
    # An outcome under another cluster than the command's does not count (`publish.dispatch`).
    seen = [outcome for outcome in outcomes if (outcome["cluster"], outcome["command_id"]) in ids]
    acts = with_outcomes(commands, seen)
    return [*acts, *harmed(acts, seen)]


def with_acts(lake: Lake, cycles: list[ClusterCycle]) -> list[ClusterCycle]:
    """Return the cycles, each steered cluster's with the commands of the day before it; the others unchanged.

    The tables are read once, however many cycles there are.
    """
    steered = [cycle for cycle in cycles if is_steered(cycle)]
    if not steered:
        return cycles
    clusters = sorted(cycle.cluster for cycle in steered)
    since, until = min(cycle.at for cycle in steered) - LOOKBACK, max(cycle.at for cycle in steered)
    acts = recent_acts(lake, clusters, since=since, until=until)
    before = _Acts(acts)
    ends, held = leases(lake, clusters), pauses(lake, clusters)
    return [
        replace(
            cycle,
            acts=before.of(cycle),
            steered_until=ends[cycle.cluster].until.isoformat() if cycle.cluster in ends else None,
            pauses=tuple({"by": row["by"], "reason": row["reason"]} for row in [held.get(cycle.cluster)] if row),
        )
        if is_steered(cycle)
        else cycle
        for cycle in cycles
    ]


class _Acts:
    """Acts of clusters, in the order of their cycles, so that those of a day are found by bisection."""

    def __init__(self, acts: Iterable[Mapping[str, Any]]) -> None:
        by_cluster: dict[str, list[tuple[datetime, int]]] = {}
        self._texts: list[dict[str, Any]] = []
        for act in acts:
            if act["mode"] != "dry_run":
                by_cluster.setdefault(act["cluster"], []).append((act["cycle_at"], len(self._texts)))
                self._texts.append(as_text(act))
        self._places = {cluster: sorted(places) for cluster, places in by_cluster.items()}

    def of(self, cycle: ClusterCycle) -> tuple[dict[str, Any], ...]:
        """Return the acts of the day before a cycle, in the order in which they were read."""
        places = self._places.get(cycle.cluster, [])
        first, end = (bisect_left(places, (moment, -1)) for moment in (cycle.at - LOOKBACK, cycle.at))
        return tuple(self._texts[place] for place in sorted(place for _, place in places[first:end]))
