"""`evenkeel upkeep`, `storage` and `heat`: retention of a lake's tables, their sizes, and those behind the heat map."""

from __future__ import annotations

import argparse
import json
import sys
import time

from evenkeel.maintenance.expiry import MEANINGS, NAMES, Periods, settled

_NAME = "evenkeel upkeep"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of all three."""
    upkeep = commands.add_parser("upkeep", help="drop what is past its period, compact the rest, free the space")
    upkeep.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    defaults = Periods().as_dict()
    for name in NAMES:
        words = f"keep {MEANINGS[name]} so long (default: as the lake was promised before, at first {defaults[name]})"
        upkeep.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="DAYS", help=words)
    upkeep.add_argument("--shorten", action="store_true", help="allow periods shorter than the lake was promised")
    upkeep.add_argument("--by", metavar="NAME", help="author of the upkeep, recorded beside the login of this shell")
    upkeep.add_argument("--json", action="store_true", help="one JSON object per table on standard output")
    upkeep.set_defaults(run=run_upkeep)
    storage = commands.add_parser("storage", help="bytes and files per table and per cycle, and what makes them grow")
    storage.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    storage.add_argument("--json", action="store_true", help="one JSON object per table on standard output")
    storage.set_defaults(run=run_storage)
    heat = commands.add_parser("heat", help="build the tables behind the heat map, up to the newest cycle")
    heat.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    heat.add_argument("--cluster", metavar="NAME", help="only this cluster (default: all on record)")
    heat.add_argument("--json", action="store_true", help="one JSON object per cluster on standard output")
    heat.set_defaults(run=run_heat)


def run_upkeep(given: argparse.Namespace) -> int:
    """Maintain the lake and print the result per table."""
    from evenkeel.cli.options import said_by, session
    from evenkeel.cli.output import course_of
    from evenkeel.lake.record import Record, read_table_if_any
    from evenkeel.maintenance.upkeep import UPKEEPS, Request, keep, newest_promise, upkeep_as_json, upkeep_as_text

    periods = {name: getattr(given, name) for name in NAMES}
    request = Request(given.lake, said_by(given), periods, given.shorten)
    # NoLake and SettingsError are raised before Spark is started.
    Record(request.lake).clusters()
    promised = newest_promise(read_table_if_any(request.lake, UPKEEPS))
    settled(promised, request.given, shorten=request.shorten)
    with session(_NAME, given.lake, writes=True) as spark, course_of("steps") as course:
        done = keep(spark, request, course.say, course=course)
    lines = map(json.dumps, upkeep_as_json(done)) if given.json else upkeep_as_text(done)
    print("\n".join(lines))
    return 0


def run_storage(given: argparse.Namespace) -> int:
    """Report the sizes of the tables; needs no Spark."""
    from evenkeel.maintenance.inventory import measure
    from evenkeel.maintenance.upkeep import storage_as_json, storage_as_text

    stored = measure(given.lake)
    lines = map(json.dumps, storage_as_json(stored)) if given.json else storage_as_text(stored)
    print("\n".join(lines))
    return 0


def run_heat(given: argparse.Namespace) -> int:
    """Build missing or outdated columns, and report the amount per cluster."""
    from evenkeel.cli.output import QUIET_S, ProgressLine, course_text
    from evenkeel.heat import as_json, as_text, build

    line, begun = ProgressLine(sys.stderr, quiet=QUIET_S), time.monotonic()

    def progress(cluster: str, done: int, of: int) -> None:
        line.show(f"{cluster}: {course_text(done, of, done / max(of, 1), time.monotonic() - begun)}")

    try:
        built = build(given.lake, given.cluster, progress)
    finally:
        line.end()
    print("\n".join(map(json.dumps, as_json(built)) if given.json else as_text(built, given.lake)))
    return 0
