"""`evenkeel replay` and `evenkeel simulate`: other strategies or settings, over recorded history and in a model."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import check_folder, session, warn_without_effect
from evenkeel.cli.output import VERSION, course_of
from evenkeel.model.amounts import plural
from evenkeel.replay.variants import check_limit
from evenkeel.times import IN_UTC

if TYPE_CHECKING:
    from evenkeel.replay.comparison import VariantComparison


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `replay` and of `simulate`."""
    _add_replay(commands)
    _add_simulate(commands)


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.set_defaults(run=run_replay)


def run_replay(given: argparse.Namespace) -> int:
    """Replay and print; return 1 if recorded settings were decided again with other plans."""
    from evenkeel.replay.open_loop import asked, replay

    if given.out:
        check_folder(given.out, "--out")
    warn_without_effect((*given.set, *given.variant))
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
    cycles = plural(len(history.cycles), "cycle")
    print(f"{history.cluster}: {cycles} from {first.isoformat()} to {last.isoformat()}{left_out}", file=sys.stderr)
    with session("evenkeel replay", given.lake) as spark, course_of("cycles") as progress:
        comparison = replay(spark, wanted, progress)
    _show(given, comparison, {"replay_id": comparison.replay_id, "variants": comparison.rows()})
    return int(any(tally.reproduced < tally.decided_again for tally in comparison.tallies.values()))


def _show(given: argparse.Namespace, comparison: VariantComparison, result: Mapping[str, Any], note: str = "") -> None:
    """Print the comparison, with a note on its traffic, and write its page if that is asked for."""
    from evenkeel.replay.comparison import write_page

    text = comparison.text(*([note] if note else []))
    print(json.dumps({"version": VERSION, **result}, indent=1) if given.json else text)
    if given.out:
        print(write_page(comparison, Path(given.out), note=note), file=sys.stderr)


# `evenkeel simulate`: strategies steer a model of a cluster, where their commands take effect.


def _add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `simulate`."""
    parser = commands.add_parser("simulate", help="let strategies steer a model of a cluster, and compare")
    parser.add_argument("--scenario", metavar="NAME", help="zipf (default), diurnal, flash-crowd, …; or recorded")
    parser.add_argument("--seed", type=int, default=1, help="of generated traffic; the same seed gives the same run")
    parser.add_argument("--cycles", type=int, default=240, help="of generated traffic (default: 240)")
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="between cycles (default: 60)")
    parser.add_argument("--brokers", type=int, default=3, help="default: 3")
    parser.add_argument("--bundles", type=int, default=96, help="default: 96")
    parser.add_argument("--lake", metavar="DIR", help="where the tables are: recorded traffic, and where results go")
    parser.add_argument("--cluster", metavar="NAME", help="recorded: of this cluster (default: the only one)")
    parser.add_argument(
        "--from", dest="since", metavar="TIME", help=f"recorded: from this moment or date on ({IN_UTC})"
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="recorded: up to this moment, or all of this date")
    parser.add_argument("--strategy", action="append", default=[], metavar="NAME", help="by this one (default: all)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every variant")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME:KEY=VALUE,…", help="under a name")
    parser.add_argument("--limit", type=float, default=85.0, metavar="PERCENT", help="usage over the limit (85)")
    parser.add_argument("--out", metavar="DIR", help="write the comparison as a page into this folder")
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    parser.set_defaults(run=run_simulate)


def run_simulate(given: argparse.Namespace) -> int:
    """Simulate and print, and keep the results where a lake is named."""
    from evenkeel.replay.history import Played
    from evenkeel.replay.simulation import SimulationRequest, asked_simulation, keep, play

    request = SimulationRequest(
        lake=given.lake,
        scenario=given.scenario,
        cluster=given.cluster,
        since=given.since,
        until=given.until,
        seed=given.seed,
        cycles=given.cycles,
        every_s=given.every,
        brokers=given.brokers,
        bundles=given.bundles,
        strategies=given.strategy,
        settings=given.set,
        variants=given.variant,
        limit_percent=given.limit,
    )
    check_limit(given.limit)
    warn_without_effect((*given.set, *given.variant))
    for option, folder in (("--lake", given.lake), ("--out", given.out)):
        if folder:
            check_folder(folder, option)
    wanted = asked_simulation(request)
    played = Played(uuid.uuid4().hex) if given.lake else None
    with course_of("variants") as course:
        comparison = play(wanted, played, course)
    note = wanted.stage.note
    summary = {"scenario": wanted.stage.scenario.name, "note": note, "variants": comparison.rows()}
    _show(given, comparison, {**summary, "replay_id": comparison.replay_id or None}, note)
    if played is not None:
        with session("evenkeel simulate", given.lake) as spark:
            keep(spark, given.lake, played, comparison, wanted)
        print(f"kept in {given.lake} as replay {played.replay_id}", file=sys.stderr)
    return 0
