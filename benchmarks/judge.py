"""Pulsar's five shedders and Evenkeel's planner on the judge's clusters: how even they get them, and at what price.

`python -m benchmarks judge [--size small] [--seeds 1 2] [--scenario NAME ...] [--series FILE] [--cloudwatch FOLDER]
[--planner-alone]` prints Markdown: a table of all scenarios for each way to set the shedders, then one of each scenario
with tuned settings. With `--tune` they are tuned on other seeds instead, and their settings kept in
`judged_tuned.json`; with `--planner-alone` no shedder plays, and the planner is held against none. Goals: every
scenario but `unmendable` and `zipf` has a placement within its target (found by placing the heaviest bundle first), and
`unmendable` has none; `hot-bundle` has one only after splits; and the planner keeps what is listed in `judged_goals`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import repeat

from benchmarks.judged_goals import missed
from benchmarks.judged_knowing import CHANGING, heaviest_first, play_at_will, play_knowing
from benchmarks.judged_run import Measure, Outcome, measure, play
from benchmarks.judged_scenarios import MEANINGS, SIZES, JudgedScenario, judged_scenario
from benchmarks.judged_series import PublicFiles
from benchmarks.judged_target import MARGIN
from benchmarks.judged_variants import (
    NOBODY,
    SHEDDERS,
    TUNED_FILE,
    TUNING_SEEDS,
    JudgedVariant,
    settings_with,
    tune,
    variants_for,
)
from benchmarks.machine import description

COLUMNS = (
    "variant", "max/U*", "max/mean", "moves", "splits", "placed", "moved load", "÷ floor", "÷ kept", "bounces",
    "returns", "absorbed", "after", "rounds", "last", "too far", "over budget", "held",
)  # fmt: skip
Found = Mapping[tuple[str, str], Sequence[Outcome]]
"""Shedder and how it is set -> what it came to, by seed."""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the tables; 0 if all scenarios but the one that nobody can mend can be balanced, and all goals are met."""
    given = _given(arguments)
    began = time.process_time()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {description()}", flush=True)
    public = PublicFiles.given(given)
    names = public.scenarios(given.scenario, MEANINGS)
    if given.tune:
        return _tune(names, public, began)
    judged, faults = {}, []
    for name in names:
        made = [judged_scenario(name, SIZES[given.size], seed, public) for seed in given.seeds]
        faults += [
            f"{name}, seed {seed}: {fault}"
            for seed, one in zip(given.seeds, made, strict=True)
            if (fault := fault_of(one))
        ]
        asked = [measure(one, settings_with(NOBODY)) for one in made]
        variants = [one for one in variants_for(name) if not given.planner_alone or one.shedder not in SHEDDERS]
        judged[name] = made, asked, _played(made, asked, variants)
        if name in CHANGING:
            nobody = settings_with(NOBODY)
            for who, played in (("who knows", play_knowing), ("who moves at will", play_at_will)):
                judged[name][2][who, ""] = [played(*one) for one in zip(made, repeat(nobody), asked)]
        faults += missed(name, asked, judged[name][2])
        print(f"{name} {time.process_time() - began:.0f} CPU s", file=sys.stderr, flush=True)
    print(
        f"size {given.size}, seeds {', '.join(map(str, given.seeds))}; tuned on small clusters of seeds "
        f"{', '.join(map(str, TUNING_SEEDS))}\n"
    )
    print(_overview({name: found for name, (_, _, found) in judged.items()}))
    for name, (made, asked, found) in judged.items():
        print(f"\n### {name}\n\n{_about(name, made, asked)}\n\n{_table(found)}")
    print(f"\n{time.process_time() - began:.0f} CPU s")
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0


def _given(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks judge")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--scenario", nargs="+", choices=MEANINGS, default=[])
    PublicFiles.add_to(parser)
    parser.add_argument("--tune", action="store_true", help="tune the shedders on other seeds, and keep what is best")
    parser.add_argument("--planner-alone", action="store_true", help="leave the shedders out")
    given = parser.parse_args(list(arguments))
    if set(given.seeds) & set(TUNING_SEEDS):
        parser.error(f"seeds {TUNING_SEEDS} are those of tuning: judge on others")
    return given


def _tune(names: Iterable[str], public: PublicFiles, began: float) -> int:
    """Tunes the shedders for these scenarios, and keeps their settings beside those of the others."""
    for name in names:
        best = tune(partial(_drawn, name, public))
        known = json.loads(TUNED_FILE.read_text(encoding="utf-8")) if TUNED_FILE.exists() else {}
        known[name] = best
        TUNED_FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        chosen = ", ".join(f"{shedder} {found['ratio']:.2f}" for shedder, found in best.items())
        print(f"{name}: {chosen} ({time.process_time() - began:.0f} CPU s)", flush=True)
    return 0


def _drawn(name: str, public: PublicFiles, seed: int) -> JudgedScenario:
    return judged_scenario(name, SIZES["small"], seed, public)


def _played(
    made: Sequence[JudgedScenario], asked: Sequence[Measure], variants: Iterable[JudgedVariant]
) -> dict[tuple[str, str], list[Outcome]]:
    return {
        (one.shedder, one.how): [play(scenario, one.effective, m) for scenario, m in zip(made, asked, strict=True)]
        for one in variants
    }


def fault_of(scenario: JudgedScenario) -> str | None:
    """What is wrong with a scenario at its start: it cannot be balanced, or it can though nobody should."""
    targets = scenario.targets(0)
    placed = replace(scenario, owners=heaviest_first(scenario, 0)).cluster("placed", "modular")
    placed.alive = frozenset(scenario.machines) - scenario.down(0)
    demand = placed.demand_with(scenario.mean_factors(0))
    reached = all(max(own.values()) <= targets[resource].usage for resource, own in demand.items())
    if scenario.name == "zipf":
        return None
    if scenario.name == "hot-bundle":
        return "it can be balanced without a split" if reached else None
    if scenario.name != "unmendable":
        return None if reached else "heaviest first, its bundles come to more than the target"
    within = all(found.usage <= MARGIN * found.even * 1.000_001 for found in targets.values())
    return "it can be balanced" if within else None


def _overview(judged: Mapping[str, Found]) -> str:
    """max/U* and moves of every shedder in every scenario, a table for each way to set them."""
    hows = dict.fromkeys(how for found in judged.values() for _, how in found if how)
    texts = []
    for how in hows:
        lines = [f"**{how}**: max/U*, moves", "", f"| scenario | nobody | planner | {' | '.join(SHEDDERS)} |"]
        lines.append(f"|---{'|---' * (len(SHEDDERS) + 2)}|")
        for name, found in judged.items():
            cells = [f"{_mean([one.ratio for one in found['nobody', '']]):.2f}"]
            for shedder in ("planner", *SHEDDERS):
                outcomes = found.get((shedder, how), found.get((shedder, "")))
                cells.append(
                    "–" if outcomes is None else f"{_ratio(outcomes):.2f}, {_count(o.moves for o in outcomes)}"
                )
            lines.append(f"| {name} | {' | '.join(cells)} |")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _about(name: str, made: Sequence[JudgedScenario], asked: Sequence[Measure]) -> str:
    """A scenario in words and figures."""
    highest = _mean([_mean([aim / even for aim, even in zip(m.aim, m.even, strict=True)]) for m in asked])
    scored = _mean([sum(m.scored) for m in asked])
    even = _mean([_mean(m.even) for m in asked])
    first = made[0]
    minutes = round(first.every.total_seconds() / 60)
    return (
        f"{MEANINGS[name][0].upper()}{MEANINGS[name][1:]}. {len(first.machines)} brokers, {len(first.owners)} bundles, "
        f"{first.cycles} cycles of {minutes} min, of which {scored:.0f} are scored; shocks at "
        f"{', '.join(map(str, first.shocks))}. U* is {even:.2f} on average, the target {highest:.2f} × U*."
    )


def _table(found: Found) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [_line(shedder, how, outcomes) for (shedder, how), outcomes in found.items() if how in ("", "tuned")]
    return "\n".join(lines)


def _line(shedder: str, how: str, outcomes: Sequence[Outcome]) -> str:
    shocks = [one for outcome in outcomes for one in outcome.absorbed]
    within = [one for one in shocks if one is not None]
    moved, floor, kept = (_mean([one.moved_over_floor[n] for one in outcomes]) for n in range(3))
    unserved = _mean([one.unserved for one in outcomes])
    cells = [
        shedder + (f" ({100 * unserved / max(1, len(outcomes[0].ratios)):.1f} % unserved)" if unserved > 0.001 else ""),
        f"{_ratio(outcomes):.3f}",
        f"{_mean([one.max_over_mean for one in outcomes]):.3f}",
        _count(one.moves for one in outcomes),
        _count(one.splits for one in outcomes),
        _count(one.placed for one in outcomes),
        f"{100 * moved:.0f} %",
        *(f"{moved / least:.1f}" if least > 0 and moved > 0 else "–" for least in (floor, kept)),
        _count(one.bounces for one in outcomes),
        _count(one.returns for one in outcomes),
        f"{len(within)} of {len(shocks)}",
        f"{statistics.median(m for m, _ in within):.0f} min, {statistics.median(a for _, a in within):.0f}"
        if within
        else "–",
        _count(one.rounds for one in outcomes),
        f"{statistics.median(minutes for one in outcomes for minutes in one.last_round):.0f} min",
        _count(one.over_unloaded for one in outcomes),
        _count(one.over_budget for one in outcomes),
        _count(one.held for one in outcomes),
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(outcomes: Sequence[Outcome]) -> float:
    return _mean([one.ratio for one in outcomes])


def _count(values: Iterable[float]) -> str:
    """The mean of counts over seeds; no digits after the point from ten on."""
    mean = _mean([*values])
    return f"{mean:.0f}" if mean >= 10 or mean == round(mean) else f"{mean:.1f}"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


if __name__ == "__main__":
    raise SystemExit(main())
