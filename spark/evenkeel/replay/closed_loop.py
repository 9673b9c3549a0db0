"""Closed loop: what a strategy asks for takes effect in a model of the cluster, and the next cycle sees what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.cycle import whole
from evenkeel.publish.plan import GUARD_TABLE, Forecast
from evenkeel.replay.fold import (
    CYCLES,
    DECISIONS,
    FormerOwners,
    Made,
    bounces,
    goes_to,
    load_figures,
    told_of,
    told_of_held,
)
from evenkeel.replay.model import Cluster
from evenkeel.replay.scenarios import Scenario
from evenkeel.rounds import reading
from evenkeel.rounds.memo import SharedRows
from evenkeel.settings import EffectiveSettings

UNTOUCHED = "untouched"
"""The variant that does nothing: what the cluster comes to by itself."""
CLUSTER = "model"


@dataclass(frozen=True, slots=True)
class Steering:
    """Who steers the model: settings in force, and the usage that counts as over the limit."""

    name: str
    settings: EffectiveSettings
    limit: float
    cluster: str = CLUSTER


def simulate(scenario: Scenario, steering: Steering) -> Iterator[Made]:
    """The rows of `replay_cycles` and `replay_decisions`, cycle by cycle.

    Usage before and after are both what the brokers have at that moment: a closed loop needs no forecast.
    """
    settings = steering.settings.settings
    cluster = Cluster(
        name=steering.cluster,
        fits=scenario.fits,
        topics=scenario.topics,
        boundaries=dict(scenario.boundaries),
        owner=dict(scenario.owners),
        manager=settings.manager,
    )
    text, former = steering.settings.to_json(), FormerOwners()
    state: list[Any] = []
    for n, at in enumerate(scenario.moments):
        cluster.observe(at, scenario.throughputs(n), scenario.down(n), settings)
        cycle = reading.cycle_row(
            steering.cluster,
            at,
            text,
            steering.settings.digest,
            manager=settings.manager,
            mode="auto",
            acts=cluster.acts,
        )
        made = whole.decide(SharedRows(cluster.rows(settings), acts_only=True), cycle, state)
        state = list(made.rows[whole.STATE])
        yield from _told(steering, cluster, made, former)
        destinations = [goes_to(one) for one in made.plan.asked]
        lost = [
            (row["subject"], row["destination"])
            for row in made.rows["placement_decisions"]
            if row["cause"] == "no_owner" and row["outcome"] == "placed"
        ]
        cluster.carry_out(zip(_unique(made, n), destinations, strict=True), lost)


def _unique(made: whole.DecidedCycle, n: int) -> list[Mapping[str, Any]]:
    """The commands with ids of their own: a plan of acts alone has no id that theirs could rest on."""
    return [{**row, "command_id": f"{n:06d}-{row['step']:04d}"} for row in made.rows["commands"]]


def _told(steering: Steering, cluster: Cluster, made: whole.DecidedCycle, former: FormerOwners) -> Iterator[Made]:
    assert cluster.at is not None
    at = round(cluster.at.timestamp() * 1_000)
    former.forget(at)
    asked = made.plan.asked
    moves = [one for one in asked if one.command["kind"] == "unload"]
    back = bounces(((m.command["bundle"], m.command["from_broker"], goes_to(m)) for m in moves), former, at)
    usage = cluster.usage()
    stamp = {"cluster": steering.cluster, "cycle_at": cluster.at, "variant": steering.name}
    held = [row for row in made.rows[GUARD_TABLE] if row["outcome"] == "held" and row["subject_kind"] == "bundle"]
    yield (
        CYCLES,
        {
            **stamp,
            "plan_id": None,
            "reproduced": None,
            "splits": len(asked) - len(moves),
            "moves": len(moves),
            "held": int(made.plan.figures["held"]),
            "refusals": made.plan.figures["refusals"],
            "bounces": len(back),
            **load_figures(Forecast(usage, usage, made.plan.change.moved_share), steering.limit),
            "only_here": None,
            "only_recorded": None,
        },
    )
    for one in asked:
        yield DECISIONS, {**stamp, **told_of(one), "on_record": False, "bounce": one.command["bundle"] in back}
    for row in held:
        yield DECISIONS, {**stamp, **told_of_held(row), "on_record": False, "bounce": False}
