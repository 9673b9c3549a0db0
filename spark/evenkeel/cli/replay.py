"""`evenkeel replay`: what other strategies or settings would have decided over recorded history."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from evenkeel.cli.options import check_folder, session
from evenkeel.times import IN_UTC


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `replay`."""
    parser = commands.add_parser(
        "replay", help="decide recorded cycles by other strategies or settings, and compare (nothing is sent)"
    )
    parser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: the only one)")
    parser.add_argument(
        "--from", dest="since", metavar="TIME", help=f"from this moment or date on ({IN_UTC}; default: the first)"
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="up to this moment, or all of this date")
    parser.add_argument("--strategy", action="append", default=[], metavar="NAME", help="by this one (repeatable)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="under Pulsar's own keys, for every variant"
    )
    parser.add_argument(
        "--variant", action="append", default=[], metavar="NAME:KEY=VALUE,…", help="settings under a name (repeatable)"
    )
    parser.add_argument("--against", choices=("recorded",), default="recorded", help="what to compare with")
    parser.add_argument("--limit", type=float, metavar="PERCENT", help="broker usage that counts as over the limit")
    parser.add_argument("--out", metavar="DIR", help="write the comparison as a page into this folder")
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Replays and prints; 1 where recorded settings were decided again and came to other plans."""
    from evenkeel.replay.open_loop import asked, replay, told

    if given.out:
        check_folder(given.out, "--out")
    wanted = asked(
        given.lake,
        cluster=given.cluster,
        since=given.since,
        until=given.until,
        strategies=given.strategy,
        settings=given.set,
        variants=given.variant,
        limit_percent=given.limit,
    )
    history = wanted.history
    first, last = history.cycles[0].cycle_at, history.cycles[-1].cycle_at
    left_out = f" ({history.left_out} were not decided and are left out)" if history.left_out else ""
    print(
        f"{history.cluster}: {len(history.cycles)} cycles from {first.isoformat()} to {last.isoformat()}{left_out}",
        file=sys.stderr,
    )
    begin = time.perf_counter()

    def progress(done: int, total: int) -> None:
        seconds = time.perf_counter() - begin
        left = seconds / done * (total - done)
        print(f"[{done}/{total}] {seconds:7.1f} s, some {left:.0f} s left", file=sys.stderr, flush=True)

    with session("evenkeel replay") as spark:
        comparison = replay(spark, wanted, progress)
    if given.json:
        print(json.dumps({"replay_id": comparison.replay_id, "variants": comparison.rows()}, indent=1))
    else:
        print(told(comparison))
    if given.out:
        from evenkeel.replay.comparison import write_page

        print(write_page(comparison, Path(given.out)), file=sys.stderr)
    return int(any(tally.reproduced < tally.decided_again for tally in comparison.tallies.values()))
