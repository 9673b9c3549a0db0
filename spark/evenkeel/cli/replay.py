"""`evenkeel replay` and `evenkeel simulate`: what other strategies or settings come to, over recorded history and in a
model of a cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import check_folder, session
from evenkeel.cli.output import VERSION
from evenkeel.cli.progress import course_of
from evenkeel.errors import BadInput
from evenkeel.model.amounts import plural
from evenkeel.settings import EffectiveSettings, resolve
from evenkeel.settings.keys.balancing import SHEDDERS_OF
from evenkeel.times import IN_UTC

if TYPE_CHECKING:
    from evenkeel.replay.closed_loop import ModelSteering, Scenario
    from evenkeel.replay.comparison import VariantComparison
    from evenkeel.replay.history import Played
    from evenkeel.replay.variants import Variant


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
    """Replays and prints; 1 where recorded settings were decided again and came to other plans."""
    from evenkeel.replay.open_loop import asked, comparison_text, replay

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
    cycles = plural(len(history.cycles), "cycle")
    print(f"{history.cluster}: {cycles} from {first.isoformat()} to {last.isoformat()}{left_out}", file=sys.stderr)
    with session("evenkeel replay", given.lake) as spark, course_of("cycles") as progress:
        comparison = replay(spark, wanted, progress)
    if given.json:
        print(
            json.dumps({"version": VERSION, "replay_id": comparison.replay_id, "variants": comparison.rows()}, indent=1)
        )
    else:
        print(comparison_text(comparison))
    if given.out:
        from evenkeel.replay.comparison import write_page

        print(write_page(comparison, Path(given.out)), file=sys.stderr)
    return int(any(tally.reproduced < tally.decided_again for tally in comparison.tallies.values()))


# `evenkeel simulate`: strategies steer a model of a cluster, where what they ask for takes effect.

RECORDED = "recorded"
_DAY_S = 86_400.0
_MOST_PERCENT = 1_000.0


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


@dataclass(frozen=True, slots=True)
class Stage:
    """What is played: the scenario, the settings in force without a variant, whose rules, and what to say of it.

    `scenario_row`: the scenario as `replay_runs` has it.
    """

    scenario: Scenario
    settings: EffectiveSettings
    manager: str
    cluster: str
    note: str
    scenario_row: dict[str, Any]


def run_simulate(given: argparse.Namespace) -> int:
    """Simulates and prints, and keeps the results where a lake is named."""
    from evenkeel.replay.history import Played, keep_closed_loop

    if not 0 < given.limit <= _MOST_PERCENT:
        raise BadInput(f"--limit {given.limit} is not a usage in percent: give one above 0, such as 85")
    for option, folder in (("--lake", given.lake), ("--out", given.out)):
        if folder:
            check_folder(folder, option)
    is_recorded = given.scenario == RECORDED or (given.scenario is None and given.lake)
    stage = _recorded(given) if is_recorded else _generated(given)
    played = Played(uuid.uuid4().hex) if given.lake else None
    comparison = _compared(stage, _steerings(given, stage), given.limit / 100.0, played)
    if given.json:
        summary = {
            "version": VERSION,
            "scenario": stage.scenario.name,
            "note": stage.note,
            "variants": comparison.rows(),
        }
        print(json.dumps({**summary, "replay_id": comparison.replay_id or None}, indent=1))
    else:
        print("\n".join((comparison.table(), "", *comparison.notes(), stage.note)))
    if given.out:
        from evenkeel.replay.comparison import write_page

        print(write_page(comparison, Path(given.out), note=stage.note), file=sys.stderr)
    if played is not None:
        with session("evenkeel simulate", given.lake) as spark:
            keep_closed_loop(spark, given.lake, played, comparison, stage.scenario.moments, stage.scenario_row)
        print(f"kept in {given.lake} as replay {played.replay_id}", file=sys.stderr)
    return 0


def _generated(given: argparse.Namespace) -> Stage:
    from evenkeel.replay.closed_loop import CLUSTER, MEANINGS, Size, scenario

    if given.since or given.until or given.cluster:
        raise BadInput("--from, --to and --cluster go with recorded traffic, which lies in a lake: leave them out")
    if not 0 < given.every <= _DAY_S:
        raise BadInput(f"--every {given.every}: the time between two cycles is above 0 seconds, and a day at most")
    name = given.scenario or "zipf"
    size = Size(given.brokers, given.bundles, given.cycles, timedelta(seconds=given.every))
    made = scenario(name, size, given.seed)
    note = (
        f"{name}: {MEANINGS[name]}. Generated with seed {given.seed}: {plural(size.brokers, 'broker')}, "
        f"{plural(size.bundles, 'bundle')}, {plural(size.cycles, 'cycle')}, one each {given.every:g} s."
    )
    row = {"name": name, "seed": given.seed, "every_s": given.every, "brokers": size.brokers, "bundles": size.bundles}
    row["model"] = _model(made)
    return Stage(made, resolve(observed=None, overrides={}), "modular", CLUSTER, note, row)


def _model(scenario: Scenario) -> dict[str, Any]:
    """Each broker's usage: a base, and so much per byte/s."""
    return {broker: {"base": fit.base, "per_byte": fit.per_byte} for broker, fit in sorted(scenario.fits.items())}


def _recorded(given: argparse.Namespace) -> Stage:
    from evenkeel.replay.history import read_history
    from evenkeel.replay.recorded_traffic import error_of, read_seen, recorded_scenario

    if not given.lake:
        raise BadInput("recorded traffic lies in a lake: name it by --lake")
    history = read_history(given.lake, given.cluster, given.since, given.until)
    seen = read_seen(history)
    last = history.cycles[-1].planned
    settings = history.settings[str(last["settings_digest"])]
    error, made = error_of(history, seen), recorded_scenario(history, seen)
    note = f"Traffic as recorded of {history.cluster} in {plural(len(seen), 'cycle')}. {error.sentence()}"
    row = {"name": RECORDED, "seed": None, "model": _model(made), "error": asdict(error)}
    return Stage(made, settings, str(last["manager"]), history.cluster, note, row)


def _steerings(given: argparse.Namespace, stage: Stage) -> list[tuple[Variant, ModelSteering]]:
    """The variants with their settings, and before them the cluster left to itself."""
    from evenkeel.replay.closed_loop import UNTOUCHED, ModelSteering
    from evenkeel.replay.variants import Variant, settings_of, variants_of

    generated = stage.scenario.name != RECORDED
    strategies = list(given.strategy)
    if not strategies and not given.variant:
        managers = [*SHEDDERS_OF] if generated else [stage.manager]
        strategies = [name for manager in managers for name in SHEDDERS_OF[manager]]  # type: ignore[index]
    off = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
    found = [Variant(UNTOUCHED, off), *variants_of(strategies, given.set, given.variant)]
    steerings = []
    for variant in found:
        chosen = _with_manager(variant) if generated else variant
        settings = settings_of(chosen, stage.settings, stage.manager, stage.cluster)
        steerings.append((chosen, ModelSteering(variant.name, settings, given.limit / 100.0, stage.cluster)))
    return steerings


def _with_manager(variant: Variant) -> Variant:
    """In a generated cluster the brokers run the load manager that the strategy belongs to."""
    from evenkeel.replay.variants import Variant

    shedder = variant.overrides.get("loadBalancerLoadSheddingStrategy")
    if shedder not in SHEDDERS_OF["extensible"] or "evenkeelManager" in variant.overrides:
        return variant
    return Variant(variant.name, {**variant.overrides, "evenkeelManager": "extensible"})


def _compared(
    stage: Stage, steerings: list[tuple[Variant, ModelSteering]], limit: float, played: Played | None
) -> VariantComparison:
    """Plays them all; their rows are kept where somebody wants them."""
    from evenkeel.replay.closed_loop import simulate
    from evenkeel.replay.comparison import CLOSED_LOOP, VariantComparison
    from evenkeel.replay.fold import CYCLES

    words = {steering.name: variant.described() for variant, steering in steerings}
    comparison = VariantComparison(played.replay_id if played else "", stage.cluster, words, limit, columns=CLOSED_LOOP)
    with course_of("variants") as progress:
        for number, (_, steering) in enumerate(steerings, start=1):
            rows = list(simulate(stage.scenario, steering))
            for table, row in rows:
                if table == CYCLES:
                    comparison.add(row)
            if played is not None:
                played.add(rows)
            progress(number, len(steerings))
    return comparison
