"""The hand-over from one task to the next: the cycles of a run, and the writes that hold their rows.

A hand-over is small: ids, versions, settings. It travels as JSON through Airflow's XCom, or in memory. A task knows
nothing else of the tasks before it: it reads exactly the writes named in it, never "the newest rows".

Write ids, the stamp of every row, are unique per task try and cycle. A try that writes one cycle of each cluster stamps
all rows with its own id. A try that writes a window makes an id for each cycle: the first digits of its own, and the
moment of the cycle. So the ids of a try sort together, statistics of files lead to them, and they are known without
reading rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.json_text import parse_json

if TYPE_CHECKING:
    from pyspark.sql import Column


OPEN = "open"
SKIPPED = "skipped"
FAILED = "failed"
RECORDING = "recording"
"""Source of a cycle whose snapshot comes from a folder of recorded snapshots."""
PULSAR_ADMIN = "pulsar-admin"
"""Source of a cycle whose snapshot was read from the cluster's brokers."""


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a cycle belongs to. `kind` is live, backfill or rerun; `mode` is dry_run, approve or auto.

    `triggered_by` is the login of the user who started it; None for a schedule and on the command line.
    """

    dag_id: str
    run_id: str
    kind: str = "live"
    mode: str = "dry_run"
    triggered_by: str | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A committed file of rows: `path` below the table's folder, `size` in bytes, SHA-256 `digest` (hex) of its
    bytes."""

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class CodeId:
    """The code that made a hand-over: the `version` for people, and the `digest` of the deciding code (`code_digest`).

    Outside of Airflow one process runs all tasks, and both are "".
    """

    version: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a table's Delta log.

    `digest` is the SHA-256 (hex) of the bytes of its JSON; `files` are the data files that it added, by path.
    """

    table: str
    version: int
    digest: str
    files: tuple[DataFile, ...] = ()


CycleKey = tuple[str, str]
"""Key of a cycle within its run: cluster, and `cycle_at` as in `ClusterCycle`."""


@dataclass(frozen=True, slots=True)
class Write:
    """One cycle's share of an append: rows of `table` that carry `write_id`, committed as `version`.

    `commit` is the SHA-256 (hex) of that commit's JSON. `files` are the data files of the commit that hold rows of the
    cycle, by path. `cycle_at` is as in `ClusterCycle`, "" where a manifest lists the write.
    """

    table: str
    write_id: str
    version: int
    rows: int
    commit: str
    cluster: str = ""
    files: tuple[DataFile, ...] = field(default=(), compare=False)
    # It follows from the write id.
    cycle_at: str = field(default="", compare=False)


def commits_of(writes: Iterable[Write]) -> tuple[Commit, ...]:
    """Return the commits behind writes, by table and version; the writes of one commit share its files."""
    files: dict[tuple[str, int, str], dict[DataFile, None]] = {}
    for write in writes:
        files.setdefault((write.table, write.version, write.commit), {}).update(dict.fromkeys(write.files))
    return tuple(
        Commit(*commit, tuple(sorted(added, key=lambda file: file.path))) for commit, added in sorted(files.items())
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A landed snapshot. `path` is its file, see `sources.snapshot_files`.

    `configuration_path` is the latest snapshot up to this one that holds the brokers' configuration and topic lists.
    """

    path: str
    cycle_at: str
    configuration_path: str | None = None
    configuration_at: str | None = None
    previous_at: str | None = None


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The previous cycle, whose state this one continues. `status` is used, none, missing or older; see `cycles`."""

    status: str = "none"
    cycle_at: str | None = None
    attempt_id: str | None = None
    expected_at: str | None = None
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterCycle:
    """One cluster's part of a run.

    `cycle_at` is ISO-8601 UTC with microseconds. `settings` is the JSON text of the effective settings, which ingest
    resolves; `overrides` are the operator's values. `unreadable` are snapshot files (file, place, reason) between the
    previous cycle and this one that cannot be read; ingest records them. `status` is open, skipped or failed. The
    deciding tasks pass over a cluster that is not open, and `reason` goes into its manifest. `wishes` are the rows of
    `wishes` that this cycle takes, chosen once when it is opened. `source` is the origin of the snapshot: recording,
    pulsar-admin or s3; a cluster without a source has a snapshot without a path. `admin` is the configuration, without
    secrets, for reaching the cluster's brokers. `queues` are the URLs of the queues of an agent that steers it. A
    cluster with neither is only observed. `acts` are the commands of the day before that went out, or may have, with
    their observed results (times as text). `steered_until` is the end of the last publisher's lease. `pauses` are those
    in force when the cycle was opened. `limits` bound how much is read of the cluster, None for the defaults.
    `attempt_id` names the attempt under which a published cycle is on record.
    """

    cluster: str
    cycle_at: str
    snapshot: Snapshot
    overrides: dict[str, Any]
    settings: str | None = None
    settings_digest: str | None = None
    manager: str | None = None
    predecessor: Predecessor = Predecessor()
    status: str = OPEN
    reason: str | None = None
    unreadable: tuple[tuple[str, str, str], ...] = ()
    wishes: tuple[dict[str, Any], ...] = ()
    admin: dict[str, Any] | None = None
    queues: dict[str, str] | None = None
    acts: tuple[dict[str, Any], ...] = ()
    steered_until: str | None = None
    pauses: tuple[dict[str, Any], ...] = ()
    source: str = RECORDING
    limits: dict[str, int] | None = None
    attempt_id: str | None = None

    @property
    def key(self) -> CycleKey:
        """Key of the cycle within its run."""
        return self.cluster, self.cycle_at

    @property
    def at(self) -> datetime:
        """The time of the cycle (`cycle_at`) as a datetime."""
        return datetime.fromisoformat(self.cycle_at)


@dataclass(frozen=True, slots=True)
class Handover:
    """All that a task gets from the tasks before it.

    A run holds one cycle of each cluster, or a *window*: any number of them, the `cycles` of a cluster in the order of
    `cycle_at`. `commits` are those of tables outside manifests, for the transparency log. `awaiting`: cluster ->
    `plan_id`, `summary`, `splits` (how many it asks for) and `expires_at` (ISO-8601) of a plan that waits for an
    approval. `code` is that of the process that made the hand-over.
    """

    lake: str
    run: Run
    cycles: tuple[ClusterCycle, ...]
    writes: tuple[Write, ...] = ()
    commits: tuple[Commit, ...] = ()
    awaiting: dict[str, dict[str, str]] = field(default_factory=dict)
    code: CodeId = field(default=CodeId(), compare=False)

    def open_cycles(self) -> tuple[ClusterCycle, ...]:
        """Return the cycles that still take part in this run."""
        return tuple(cycle for cycle in self.cycles if cycle.status == OPEN)

    def is_window(self) -> bool:
        """Return True if the run holds several cycles of a cluster."""
        return len({cycle.cluster for cycle in self.cycles}) < len(self.cycles)

    def writes_of(self, table: str) -> tuple[Write, ...]:
        """Return the writes that hold rows of one table."""
        return tuple(write for write in self.writes if write.table == table)

    def open_writes(self, table: str) -> tuple[Write, ...]:
        """Return the writes that hold rows of one table, of cycles that still take part in this run."""
        taking_part = {cycle.key for cycle in self.open_cycles()}
        return tuple(write for write in self.writes_of(table) if (write.cluster, write.cycle_at) in taking_part)

    def writes_by_cycle(self) -> dict[CycleKey, tuple[Write, ...]]:
        """Return each cycle's writes in their order, for every cycle of the run."""
        writes: dict[CycleKey, list[Write]] = {}
        for write in self.writes:
            writes.setdefault((write.cluster, write.cycle_at), []).append(write)
        return {cycle.key: tuple(writes.get(cycle.key, ())) for cycle in self.cycles}

    def within(self) -> dict[CycleKey, CycleKey]:
        """Return for each cycle the cycle of this run that is its predecessor.

        The predecessor is the newest earlier cycle of the cluster that still takes part: a skipped cycle has no state
        to continue. A recorded attempt of a later moment than that cycle comes first; one of the same moment is older
        than this run's. Skipped cycles have entries too, since their manifests name a predecessor. A cycle has no entry
        if no earlier cycle of this run serves, or if it has a recorded predecessor that comes first.
        """
        predecessors: dict[CycleKey, CycleKey] = {}
        newest: dict[str, ClusterCycle] = {}
        for cycle in sorted(self.cycles, key=lambda cycle: cycle.cycle_at):
            before, recorded = newest.get(cycle.cluster), cycle.predecessor.cycle_at
            if before is not None and (recorded is None or recorded <= before.cycle_at):
                predecessors[cycle.key] = before.key
            if cycle.status == OPEN:
                newest[cycle.cluster] = cycle
        return predecessors

    def with_writes(self, writes: Iterable[Write]) -> Handover:
        """Return a copy with further writes appended."""
        return replace(self, writes=(*self.writes, *writes))

    def with_cycles(self, cycles: Iterable[ClusterCycle]) -> Handover:
        """Return a copy with other cycles."""
        return replace(self, cycles=tuple(cycles))

    def leave_out(self, reasons: Mapping[CycleKey, str], status: str = SKIPPED) -> Handover:
        """Return a copy in which some cycles (`ClusterCycle.key`) are left out of the rest of this run, each for a
        reason."""
        return self.with_cycles(
            replace(cycle, status=status, reason=reasons[cycle.key])
            if cycle.key in reasons and cycle.status == OPEN
            else cycle
            for cycle in self.cycles
        )

    def only(self, cluster: str) -> Handover:
        """Return the hand-over of one cluster alone, without plans that wait for an approval."""
        kept = tuple(cycle for cycle in self.cycles if cycle.cluster == cluster)
        writes = tuple(write for write in self.writes if write.cluster == cluster)
        return replace(self, cycles=kept, writes=writes, commits=(), awaiting={})

    def to_json(self) -> str:
        """Return the hand-over as JSON text, members sorted; `from_json` reads it.

        Shared values are written once: the texts of settings by digest, and files, which writes name by their place in
        the list.
        """
        body = asdict(self)
        settings: dict[str, str] = {}
        files: dict[DataFile, int] = {}
        for cycle, known in zip(body["cycles"], self.cycles, strict=True):
            text, digest = known.settings, known.settings_digest
            # Equal digests cover equal values. The texts may still differ in the sources of the values.
            if text is not None and digest is not None and settings.setdefault(digest, text) == text:
                del cycle["settings"]
            _number_files(cycle["predecessor"]["writes"], known.predecessor.writes, files)
        _number_files(body["writes"], self.writes, files)
        _number_files(body["commits"], self.commits, files)
        shared = {"settings": settings, "files": [asdict(file) for file in files]}
        return json.dumps({**body, **shared}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Handover:
        """Read the hand-over from a text that `to_json` wrote."""
        body = parse_json(text)
        lake, run = body["lake"], Run(**body["run"])
        files = [DataFile(**file) for file in body["files"]]
        settings = body["settings"]
        return cls(
            lake=lake,
            run=run,
            cycles=tuple(_cycle(cycle, settings, files) for cycle in body["cycles"]),
            writes=tuple(_write(write, files) for write in body["writes"]),
            commits=tuple(
                Commit(**{**commit, "files": tuple(files[number] for number in commit["files"])})
                for commit in body["commits"]
            ),
            awaiting=body["awaiting"],
            code=CodeId(**body["code"]),
        )


def _number_files(
    bodies: Iterable[dict[str, Any]], writes: Iterable[Write | Commit], files: dict[DataFile, int]
) -> None:
    """Replace files by numbers, and add each file with its number to `files`."""
    for body, write in zip(bodies, writes, strict=True):
        body["files"] = [files.setdefault(file, len(files)) for file in write.files]


def _write(body: dict[str, Any], files: Sequence[DataFile]) -> Write:
    return Write(**{**body, "files": tuple(files[number] for number in body["files"])})


def _cycle(body: dict[str, Any], settings: Mapping[str, str], files: Sequence[DataFile]) -> ClusterCycle:
    predecessor = body["predecessor"]
    writes = tuple(_write(write, files) for write in predecessor["writes"])
    return ClusterCycle(
        **{
            **body,
            "settings": body["settings"] if "settings" in body else settings[body["settings_digest"]],
            "snapshot": Snapshot(**body["snapshot"]),
            "predecessor": Predecessor(**{**predecessor, "writes": writes}),
            "wishes": tuple(body["wishes"]),
            "acts": tuple(body["acts"]),
            "pauses": tuple(body["pauses"]),
            "unreadable": tuple((file, place, reason) for file, place, reason in body["unreadable"]),
        }
    )


# Together as long as an id without a moment: the log's statistics keep no longer texts. Microseconds since 1970 need no
# more digits before the year 2112.
_OF_THE_TRY, _OF_THE_MOMENT = 19, 13
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def new_try() -> str:
    """Return the id of a task try, 32 hex digits; the part used in ids of cycles is practically unique."""
    return uuid.uuid4().hex


def try_of(write_id: str) -> str:
    """Return the common beginning of the ids of one try."""
    return write_id[:_OF_THE_TRY]


def ids_of(handover: Handover, try_id: str) -> dict[CycleKey, str]:
    """Return cycle -> the id under which a try writes its rows."""
    if not handover.is_window():
        return {cycle.key: try_id for cycle in handover.cycles}
    return {cycle.key: _of_cycle(try_id, cycle.at) for cycle in handover.cycles}


def _of_cycle(try_id: str, at: datetime) -> str:
    moment = f"{(at - _BEGIN) // timedelta(microseconds=1):0{_OF_THE_MOMENT}x}"
    if len(moment) != _OF_THE_MOMENT or moment.startswith("-"):
        raise ValueError(f"a cycle at {at.isoformat()} cannot be part of a window")
    return try_of(try_id) + moment


def id_column(handover: Handover, try_id: str) -> Column:
    """Return the write id of a row by its `cycle_at`, in SQL; the ids are those of `ids_of`."""
    from pyspark.sql import functions as F

    if not handover.is_window():
        return F.lit(try_id)
    moment = F.lpad(F.lower(F.hex(F.unix_micros(F.col("cycle_at").cast("timestamp")))), _OF_THE_MOMENT, "0")
    return F.concat(F.lit(try_of(try_id)), moment)
