"""A simulation as an operator asks for it, from a shell or from Airflow: checked, played in this process, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.lake.store import Lake
from evenkeel.model.amounts import plural
from evenkeel.pulsar.snapshot import CLASSES, EXTENSIBLE
from evenkeel.replay.closed_loop import (
    CLUSTER,
    MEANINGS,
    UNTOUCHED,
    ModelSteering,
    Scenario,
    Size,
    check_scenario,
    scenario,
    simulate,
)
from evenkeel.replay.comparison import CLOSED_LOOP, VariantComparison, planner_word
from evenkeel.replay.fold import CYCLES, Made
from evenkeel.replay.history import CLOSED_LOOP as KIND
from evenkeel.replay.history import TABLES_OF_REPLAYS, Played, append, put_on_record, read_history
from evenkeel.replay.recorded_traffic import error_of, read_seen, recorded_rows, recorded_scenario
from evenkeel.replay.variants import RECORDED, Variant, check_limit, notes_on, settings_of, variants_of
from evenkeel.settings import EffectiveSettings, resolve
from evenkeel.settings.key import Value
from evenkeel.settings.keys.balancing import SHEDDERS_OF
from evenkeel.times import FROM_TO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USUAL_SCENARIO = "zipf"
GENERATED_MANAGER = "modular"
OFF = {"evenkeelSheddingEnabled": False, "evenkeelSplitEnabled": False}
OPTIONS = {"since": FROM_TO[0], "until": FROM_TO[1]}
"""Names of a request's fields on a command line, if they are not `--` and the field's name."""
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A request.

    `scenario`: generated traffic by its name, or `recorded`; None means recorded traffic if a lake is named, else
    `zipf`. `seed` to `bundles` are of generated traffic, `cluster` to `until` of recorded. `called`: names of the
    fields as the user gave them.
    """

    lake: str | None = None
    scenario: str | None = None
    cluster: str | None = None
    since: str | None = None
    until: str | None = None
    seed: int = 1
    cycles: int = 240
    every_s: float = 60.0
    brokers: int = 3
    bundles: int = 96
    strategies: Sequence[str] = ()
    settings: Sequence[str] = ()
    variants: Sequence[str] = ()
    limit_percent: float = 85.0
    called: Callable[[str], str] = field(default=lambda name: OPTIONS.get(name, f"--{name}"))

    @property
    def is_recorded(self) -> bool:
        """Return True if the traffic is the recorded one."""
        return self.scenario == RECORDED or (self.scenario is None and bool(self.lake))

    def size(self) -> Size:
        """Return the size of generated traffic. BadInput as `check`."""
        if not 0 < self.every_s <= _DAY_S:
            raise BadInput(
                f"{self.called('every')} {self.every_s}: the time between two cycles is above 0 seconds, and a day at "
                "most"
            )
        return Size(self.brokers, self.bundles, self.cycles, timedelta(seconds=self.every_s))

    def check(self) -> None:
        """Raise BadInput and SettingsError for faults that do not depend on the record."""
        check_limit(self.limit_percent, self.called("limit"))
        if self.is_recorded:
            if not self.lake:
                raise BadInput(f"recorded traffic needs a lake: name it by {self.called('lake')}")
            return
        if self.since or self.until or self.cluster:
            names = ", ".join(map(self.called, ("since", "until")))
            raise BadInput(
                f"{names} and {self.called('cluster')} go with recorded traffic, which needs a lake: leave them out"
            )
        check_scenario(self.scenario or USUAL_SCENARIO, self.size())


@dataclass(frozen=True, slots=True)
class Stage:
    """The inputs of a simulation: the scenario, the settings in force without a variant, and notes.

    `in_force`: settings of each cycle and the load manager, a single pair if they are the same. `scenario_row`: the
    scenario as in `replay_runs`. `recorded`: rows of what happened, none for generated traffic.
    """

    scenario: Scenario
    in_force: Sequence[tuple[EffectiveSettings, str]]
    cluster: str
    note: str
    scenario_row: Mapping[str, Any]
    recorded: Sequence[Made] = ()


@dataclass(frozen=True, slots=True)
class Simulation:
    """A checked request: the stage, the steering, and the usage (fraction) over the limit."""

    stage: Stage
    steerings: tuple[tuple[Variant, ModelSteering], ...]
    limit: float


def asked_simulation(request: SimulationRequest) -> Simulation:
    """Return the checked request; recorded traffic is read. Errors as `SimulationRequest.check` and `read_history`."""
    request.check()
    stage = _recorded(request) if request.is_recorded else _generated(request)
    limit = request.limit_percent / 100.0
    steerings = []
    for variant in simulated_variants(request, stage.in_force[-1][1]):
        chosen = {
            (recorded.digest, manager): settings_of(variant, recorded, manager, stage.cluster)
            for recorded, manager in stage.in_force
        }
        settings = tuple(chosen[recorded.digest, manager] for recorded, manager in stage.in_force)
        steerings.append((variant, ModelSteering(variant.name, settings, limit, stage.cluster)))
    return Simulation(stage, tuple(steerings), limit)


def default_settings() -> EffectiveSettings:
    """The settings in force in a generated cluster."""
    return resolve(observed=None, overrides={})


def _generated(request: SimulationRequest) -> Stage:
    name, size = request.scenario or USUAL_SCENARIO, request.size()
    scenario_made = scenario(name, size, request.seed)
    note = (
        f"{name}: {MEANINGS[name]}. Generated with seed {request.seed}: {plural(size.brokers, 'broker')}, "
        f"{plural(size.bundles, 'bundle')}, {plural(size.cycles, 'cycle')}, one each {request.every_s:g} s."
    )
    row = {
        "name": name,
        "seed": request.seed,
        "every_s": request.every_s,
        "brokers": size.brokers,
        "bundles": size.bundles,
        "model": _model(scenario_made),
    }
    return Stage(scenario_made, ((default_settings(), GENERATED_MANAGER),), CLUSTER, note, row)


def _model(scenario: Scenario) -> dict[str, Any]:
    """Each broker's usage: a base, and so much per byte/s."""
    return {broker: {"base": fit.base, "per_byte": fit.per_byte} for broker, fit in sorted(scenario.fits.items())}


def _recorded(request: SimulationRequest) -> Stage:
    options = request.called("since"), request.called("until")
    history = read_history(str(request.lake), request.cluster, request.since, request.until, options=options)
    seen = read_seen(history)
    planned = [cycle.planned for cycle in history.cycles]
    in_force = [(history.settings[str(row["settings_digest"])], str(row["manager"])) for row in planned]
    error, scenario = error_of(history, seen), recorded_scenario(history, seen)
    note = f"Traffic as recorded of {history.cluster} in {plural(len(seen), 'cycle')}. {error.sentence()}"
    row = {"name": RECORDED, "seed": None, "model": _model(scenario), "error": asdict(error)}
    rows = [*recorded_rows(history, seen, request.limit_percent / 100.0)]
    return Stage(scenario, in_force, history.cluster, note, row, rows)


def simulated_variants(request: SimulationRequest, manager: str) -> tuple[Variant, ...]:
    """Return the cluster left to itself, and the named variants, else all shedders (of the recorded manager)."""
    generated, strategies = not request.is_recorded, list(request.strategies)
    if not strategies and not request.variants:
        managers = [*SHEDDERS_OF] if generated else [manager]
        strategies = [name for one in managers for name in SHEDDERS_OF[one]]  # type: ignore[index]
    variants = (Variant(UNTOUCHED, OFF), *variants_of(strategies, request.settings, request.variants))
    return tuple(_with_manager(variant) for variant in variants) if generated else variants


def _with_manager(variant: Variant) -> Variant:
    """Return the settings for brokers that run the strategy's load manager, as in a generated cluster.

    A broker whose report names another class than the settings is no candidate (Pulsar: BrokerLoadManagerClassFilter).
    """
    shedder = variant.overrides.get("loadBalancerLoadSheddingStrategy")
    if shedder not in SHEDDERS_OF["extensible"] or "evenkeelManager" in variant.overrides:
        return variant
    manager: dict[str, Value] = {"evenkeelManager": EXTENSIBLE, "loadManagerClassName": CLASSES[EXTENSIBLE]}
    return Variant(variant.name, {**manager, **variant.overrides})


def play(asked: Simulation, played: Played | None, progress: Callable[[int, int], None]) -> VariantComparison:
    """Play every variant to its end; `played` keeps their rows. `progress` gets variants done, and variants in all."""
    words = {steering.name: variant.described() for variant, steering in asked.steerings}
    planner = {
        steering.name: planner_word({in_force.settings.evenkeelPlanner for in_force in steering.settings})
        for _, steering in asked.steerings
    }
    replay_id, cluster = played.replay_id if played else "", asked.stage.cluster
    generation = asked.steerings[0][1].settings[-1].settings.generation
    caveats = notes_on((variant.overrides for variant, _ in asked.steerings[1:]), generation)
    comparison = VariantComparison(
        replay_id, cluster, words, asked.limit, columns=CLOSED_LOOP, planner=planner, caveats=caveats
    )
    steered = (simulate(asked.stage.scenario, steering) for _, steering in asked.steerings)
    for number, made in enumerate((asked.stage.recorded, *steered)):
        rows = list(made)
        for table, row in rows:
            if table == CYCLES:
                comparison.add(row)
        if played is not None:
            played.add(rows)
        progress(number, len(asked.steerings))
    return comparison


def keep(spark: SparkSession, root: str, played: Played, comparison: VariantComparison, asked: Simulation) -> None:
    """Append the rows of a simulation that was played, and then record it, with its model, its traffic and the seed."""
    lake, moments = Lake(root), asked.stage.scenario.moments
    lake.ensure_tables(spark, TABLES_OF_REPLAYS)
    writes = append(spark, lake, "simulate", comparison, moments[0], played.frames(spark))
    put_on_record(spark, lake, KIND, comparison, moments, writes, asked.stage.scenario_row)
