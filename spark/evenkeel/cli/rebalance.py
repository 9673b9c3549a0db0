"""`evenkeel rebalance`: cycles over a recording, or over all clusters of a configuration, without Airflow.

One moment is one run. A range of time, or all landed snapshots, is decided in windows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import add_source, check_folder, overrides_of, session
from evenkeel.cli.output import QUIET_S, ProgressLine, course_text
from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.handover import FAILED, ClusterCycle, Handover
from evenkeel.ingest.chunks import Chunk, landed_bytes, landed_in
from evenkeel.ingest.open_run import CycleRequest, check
from evenkeel.lake.record import Attempt, Record
from evenkeel.model.amounts import plural
from evenkeel.pipeline import LARGE_SNAPSHOT_BYTES, WindowProgress, is_large, run_cycle, run_window
from evenkeel.times import IN_UTC, bounds_given, moment_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BACKFILL = "backfill"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `rebalance`."""
    parser = commands.add_parser(
        "rebalance", help="decide one cycle, or all of a recording, and carry it out if --mode allows it"
    )
    add_source(parser)
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are; made if missing")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--at", metavar="TIME", help=f"the newest snapshot up to this moment ({IN_UTC}; default: the newest)"
    )
    which.add_argument("--all", action="store_true", help="every landed snapshot, in the order of time")
    parser.add_argument(
        "--from", dest="since", metavar="TIME", help=f"every landed snapshot from then on ({IN_UTC}); sends nothing"
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="… and up to then; a date is its whole day")
    parser.add_argument(
        "--anew",
        action="store_true",
        help="with --all, --from or --to: also what is on record already, decided by this code under these settings",
    )
    parser.add_argument(
        "--mode",
        choices=("dry_run", "approve", "auto"),
        default="dry_run",
        help="dry_run (default) sends nothing; approve waits for `evenkeel approve`, auto sends to running clusters",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per cycle on standard output")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the cycles; 1 if any failed, though the ones after it still ran."""
    request = CycleRequest(
        lake=given.lake,
        source=f"recording:{given.recording}" if given.recording else "",
        configuration=given.config,
        clusters=tuple(given.cluster or ()),
        at=None if given.at is None else moment_given(given.at, "--at").isoformat(),
        mode=given.mode,
        overrides=overrides_of(given),
        run_id=f"cli__{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}",
    )
    if given.all or given.since is not None or given.until is not None:
        return _run_window(given, request)
    if given.anew:
        raise BadInput("--anew goes with --all, --from or --to: one moment is always decided again")
    check_folder(given.lake, "--lake")
    check(request)
    with session("evenkeel rebalance", given.lake, writes=True, brief=_is_small(given.recording)) as spark:
        return 0 if _run_one(spark, request, as_json=given.json) else 1


def _run_window(given: argparse.Namespace, request: CycleRequest) -> int:
    """Decide all landed snapshots of a range; 1 if any cycle failed."""
    if given.at is not None:
        raise BadInput("--at is one moment, --from and --to are a range: leave one of them away")
    since, until = bounds_given(given.since, given.until)
    window = replace(
        request,
        every=True,
        since=None if since is None else since.isoformat(),
        until=None if until is None else until.isoformat(),
        kind=BACKFILL if any(source.live or source.zone for source in request.sources()) else request.kind,
    )
    check_folder(given.lake, "--lake")
    cycles = landed_in(window, lambda line: print(line, file=sys.stderr, flush=True))
    brief = not is_large(cycle for cycle in cycles if cycle.snapshot.path)
    with session("evenkeel rebalance", given.lake, writes=True, brief=brief) as spark:
        return _decide(spark, window, cycles, anew=given.anew, as_json=given.json)


def _decide(spark: SparkSession, window: CycleRequest, cycles: list[ClusterCycle], *, anew: bool, as_json: bool) -> int:
    line, begin, failures = ProgressLine(sys.stderr, quiet=QUIET_S), time.monotonic(), 0

    def progress(course: WindowProgress) -> None:
        if not course.task and course.decided_before:
            known = plural(len(course.decided_before), "cycle")
            with line.aside():
                print(
                    f"{known} on record already, decided by this code under these settings (--anew: decide them again)",
                    file=sys.stderr,
                    flush=True,
                )
                if as_json:
                    before = {(cluster, datetime.fromisoformat(at)) for cluster, at in course.decided_before}
                    _tell((_summary(cycle, 0.0) for cycle in Record(window.lake).cycles_at(before)), as_json=True)
        text = course_text(course.cycles, course.of, course.share, time.monotonic() - begin)
        line.show(f"{text}  {course.task}".rstrip())

    def failed(chunk: Chunk, error: EvenkeelError) -> None:
        nonlocal failures
        failures += 1
        span = chunk[0].cycle_at if len(chunk) == 1 else f"{chunk[0].cycle_at} to {chunk[-1].cycle_at}"
        with line.aside():
            print(f"{span}  failed: {error}", file=sys.stderr, flush=True)

    lap = begin
    try:
        for handover in run_window(spark, window, progress, failed, cycles=cycles, anew=anew):
            took, lap = time.monotonic() - lap, time.monotonic()
            failures += sum(cycle.status == FAILED for cycle in handover.cycles)
            with line.aside():
                _tell(_summaries(window.lake, handover, took / len(handover.cycles)), as_json=as_json)
    finally:
        line.end()
    return 1 if failures else 0


def _is_small(recording: str | None) -> bool:
    """Return True if each snapshot of a recording is so small that a cycle over it is done before Java has compiled it
    well; no one knows it of other sources."""
    if recording is None or not Path(recording).is_dir():
        return False
    return all(landed_bytes(str(path)) <= LARGE_SNAPSHOT_BYTES for path in Path(recording).iterdir())


def _run_one(spark: SparkSession, request: CycleRequest, *, as_json: bool) -> bool:
    from evenkeel.publish.dispatch import Sending, reach_with

    begin = time.perf_counter()
    label = f"[1/1] {request.at or 'newest snapshot'}"

    def progress(task: str, seconds: float) -> None:
        print(f"{label}  {task:<12}{seconds:6.1f} s", file=sys.stderr, flush=True)

    try:
        handover = run_cycle(spark, request, progress, Sending(reach_with()))
    except EvenkeelError as error:
        print(f"{label}  failed: {error}", file=sys.stderr, flush=True)
        if isinstance(error, BadInput):
            raise
        return False
    for cluster, plan in sorted(handover.awaiting.items()):
        command = f"evenkeel approve {plan['plan_id'][:12]} --lake {request.lake}"
        print(
            f"{label}  {cluster}: {plan['summary']} To carry it out: {command}, and run this cycle again",
            file=sys.stderr,
        )
    _tell(_summaries(request.lake, handover, time.perf_counter() - begin), as_json=as_json)
    return True


def _tell(summaries: Iterable[dict[str, Any]], *, as_json: bool) -> None:
    for summary in summaries:
        print(json.dumps(summary) if as_json else _line(summary), flush=True)


def _summaries(lake: str, handover: Handover, seconds: float) -> Iterator[dict[str, Any]]:
    """Return one summary for each cycle of the run, in order, of its resulting attempt; `seconds` are a cycle's."""
    record = Record(lake)
    by_cluster: dict[str, list[ClusterCycle]] = {}
    for cycle in handover.cycles:
        by_cluster.setdefault(cycle.cluster, []).append(cycle)
    attempts: dict[str, Attempt] = {}
    for cluster, cycles in by_cluster.items():
        span = min(cycle.at for cycle in cycles), max(cycle.at for cycle in cycles)
        attempts |= {attempt.attempt_id: attempt for attempt in record.attempts(cluster, *span)}
    for cycle in handover.cycles:
        yield _summary(attempts[str(cycle.attempt_id)], seconds)


def _summary(attempt: Attempt, seconds: float) -> dict[str, Any]:
    names = ("splits", "unloads", "placements", "refusals", "rejected_records", "predecessor_status")
    ratios = ("before_max_over_mean", "after_max_over_mean", "moved_traffic_share")
    return {
        "cluster": attempt.cluster,
        "cycle_at": attempt.cycle_at.isoformat(),
        "status": attempt.status,
        "reason": attempt.reason,
        "plan_id": attempt.plan_id,
        "attempt": attempt.number,
        **{name: attempt.planned[name] for name in (*names, *ratios)},
        "seconds": round(seconds, 2),
    }


def _line(summary: dict[str, Any]) -> str:
    head = f"{summary['cycle_at']}  {summary['cluster']}  {summary['status']}"
    if summary["plan_id"] is None:
        return f"{head}: {summary['reason']}"
    acts = ", ".join(plural(summary[f"{act}s"], act) for act in ("split", "unload"))
    counts = f"{acts}, {summary['refusals']} refused"
    return f"{head}  {counts}  plan {summary['plan_id'][:12]}  {summary['seconds']:.1f} s"
