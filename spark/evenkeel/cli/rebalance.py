"""`evenkeel rebalance`: cycles over a recording, or over all clusters of a configuration, without Airflow."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import add_source, check_folder, overrides_of, session
from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.handover import Handover
from evenkeel.ingest.open_run import CycleRequest, check
from evenkeel.model.amounts import plural
from evenkeel.pipeline import run_cycle
from evenkeel.record.read import Attempt, find_cycles
from evenkeel.sources.recordings import Recording
from evenkeel.times import IN_UTC, moment_given
from evenkeel.validate.suites import load_great_expectations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `rebalance`."""
    parser = commands.add_parser(
        "rebalance", help="decide one cycle, or all of a recording, and carry it out if told to"
    )
    add_source(parser)
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are; made if missing")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--at", metavar="TIME", help=f"the newest snapshot up to this moment ({IN_UTC}; default: the newest)"
    )
    which.add_argument("--all", action="store_true", help="every snapshot, in the order of time")
    parser.add_argument(
        "--mode",
        choices=("dry_run", "approve", "auto"),
        default="dry_run",
        help="dry_run (default) sends nothing; approve waits for `evenkeel approve`, auto sends to running clusters",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per cycle on standard output")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Runs the cycles; 1 if any failed, though the ones after it still ran."""
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
    check_folder(given.lake, "--lake")
    check(request)
    requests = list(_every_snapshot(request)) if given.all else [request]
    _import_ahead()
    failed = 0
    with session("evenkeel rebalance") as spark:
        for number, one in enumerate(requests, start=1):
            failed += not _run_one(spark, one, number, len(requests), as_json=given.json)
    return 1 if failed else 0


def _every_snapshot(request: CycleRequest) -> Iterator[CycleRequest]:
    """One request per snapshot: cluster by cluster, each in the order of time."""
    for source in request.sources():
        for snapshot in Recording(source.recording, source.limits).snapshots:
            clusters = request.clusters if request.source else (str(source.cluster),)
            yield replace(request, clusters=clusters, at=snapshot.cycle_at)


def _import_ahead() -> None:
    """Great Expectations takes seconds to import: that happens while the first task waits for Spark."""
    Thread(target=load_great_expectations, daemon=True).start()


def _run_one(spark: SparkSession, request: CycleRequest, number: int, total: int, *, as_json: bool) -> bool:
    from evenkeel.publish.dispatch import Sending, reach_with

    begin = time.perf_counter()
    label = f"[{number}/{total}] {request.at or 'newest snapshot'}"

    def progress(task: str, seconds: float) -> None:
        print(f"{label}  {task:<12}{seconds:6.1f} s", file=sys.stderr, flush=True)

    try:
        handover = run_cycle(spark, request, progress, Sending(reach_with()))
    except EvenkeelError as error:
        print(f"{label}  failed: {error}", file=sys.stderr, flush=True)
        if isinstance(error, BadInput) and total == 1:
            raise
        return False
    for cluster, one in sorted(handover.awaiting.items()):
        said = f"evenkeel approve {one['plan_id'][:12]} --lake {request.lake}"
        print(
            f"{label}  {cluster}: {one['summary']} To carry it out: {said}, and run this cycle again", file=sys.stderr
        )
    for summary in _summaries(request.lake, handover, time.perf_counter() - begin):
        print(json.dumps(summary) if as_json else _line(summary), flush=True)
    return True


def _summaries(lake: str, handover: Handover, seconds: float) -> Iterator[dict[str, Any]]:
    for cycle in handover.cycles:
        (attempt,) = find_cycles(lake, cluster=cycle.cluster, cycle=cycle.at)
        yield _summary(attempt, seconds)


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
