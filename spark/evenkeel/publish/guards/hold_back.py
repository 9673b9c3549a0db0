"""All guards over the commands of one cluster in one cycle, and one plain English sentence for each verdict.

Key: evenkeelGuardsEnabled. Guards come after the strategies and do not change their decisions. They only hold decided
commands back, each with its rule. The cause of a rule is defined beside the guard. A sentence adds the outcome: a
command held back, one that passes in spite of the rule, or a cluster without any command. A rule without a cause still
gets a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.publish.guards import budgets, bundle_guards, cluster_wide
from evenkeel.publish.guards.budgets import FITTING_FIRST, Budgets, too_heavy
from evenkeel.publish.guards.bundle_guards import (
    bounces,
    firsts,
    frozen,
    futile,
    harmed,
    is_worth_it,
    orphaned,
    repeated,
)
from evenkeel.publish.guards.cluster_wide import doubts, refusals
from evenkeel.publish.guards.situation import Cause, Command, Objection, Situation, Verdict
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Guarded:
    """`allowed`: which commands are asked, by their index in the plan, ascending. `verdicts`: the cluster's first, then
    by position; a command that no guard objected to has none."""

    allowed: tuple[int, ...]
    verdicts: tuple[Verdict, ...] = ()


def hold_back(situation: Situation, settings: Settings) -> Guarded:
    """Return the commands that pass, and the objections to the others.

    An objection to the whole cluster holds every command back. Else each command is checked in the order of the plan,
    manual requests first: a request is used up by the cycle that takes it, while a strategy repeats its commands.
    Bundles of emptied brokers come next, since a strategy that always has something to move would hold them up. Of
    several objections the first one is named, in this order: splits that change nothing, freezes, past harm, other
    commands of the plan, uncertain data, bounces, and then budgets. A command that by itself exceeds the traffic
    budget is checked last, unless evenkeelMovedTrafficOrder differs: it may go alone if nothing else has a place.
    """
    commands = situation.commands
    if not settings.evenkeelGuardsEnabled or not commands:
        return Guarded(tuple(range(len(commands))))
    whole = refusals(situation, settings)
    if whole:
        every = (Verdict("held", whole[0], command, n) for n, command in enumerate(commands, start=1))
        return Guarded((), (*(Verdict("held", objection) for objection in whole), *every))
    return _Review(situation, settings).at_all()


@dataclass(frozen=True, slots=True)
class _Found:
    """Objections to the command of that index: all but the budgets, and the first budget without room.

    `excused`: a bounce with enough gain.
    """

    index: int
    objections: list[Objection]
    full: Objection | None
    excused: Objection | None

    @property
    def is_too_large(self) -> bool:
        """Return True if the traffic budget has no room; while no unload has a place in it, for this command by
        itself."""
        return self.full is not None and self.full.rule == "moved_traffic"


class _Review:
    """One check of all commands, with the passed ones and the used budgets so far."""

    def __init__(self, situation: Situation, settings: Settings) -> None:
        self._situation, self._settings = situation, settings
        self._budgets = Budgets(situation, settings)
        self._first = firsts(situation.commands)
        self._splits = [command.bundle for command in situation.commands if command.kind == "split"]
        self._asked_splits: set[str] = set()
        self._allowed: list[int] = []
        self._verdicts: list[Verdict] = []
        self._too_large: list[_Found] = []

    def at_all(self) -> Guarded:
        commands = self._situation.commands
        for index in sorted(range(len(commands)), key=lambda index: commands[index].turn):
            command = self._situation.commands[index]
            bounce = bounces(command, self._situation, self._settings)
            excused = bounce if bounce is not None and is_worth_it(bounce) else None
            objections = self._objections(index, None if excused else bounce)
            full = self._budgets.objection(command)
            reviewed = _Found(index, objections, full, excused)
            if reviewed.is_too_large and self._budgets.lets_one_exceed and self._in_order_of_fit:
                self._too_large.append(reviewed)
            else:
                self._settle(reviewed)
        for too_large in self._too_large:
            self._settle(too_large)
        verdicts = sorted(self._verdicts, key=lambda verdict: verdict.position)
        return Guarded(tuple(sorted(self._allowed)), tuple(verdicts))

    @property
    def _in_order_of_fit(self) -> bool:
        return self._settings.evenkeelMovedTrafficOrder == FITTING_FIRST

    def _objections(self, index: int, bounce: Objection | None) -> list[Objection]:
        """Everything but the budgets, in the order in which it is named."""
        commands = self._situation.commands
        command = commands[index]
        objections = (
            futile(command),
            frozen(command, self._settings),
            harmed(command, self._situation, self._settings),
            repeated(index, commands, self._first),
            orphaned(command, self._splits, self._asked_splits),
            *doubts(command, self._situation, self._settings),
            too_heavy(command, self._situation, self._settings),
            bounce,
        )
        return [objection for objection in objections if objection is not None]

    def _settle(self, reviewed: _Found) -> None:
        command, position = self._situation.commands[reviewed.index], reviewed.index + 1
        goes_alone = reviewed.is_too_large and self._budgets.lets_one_exceed
        full = None if goes_alone else reviewed.full
        if full is None and all(objection.keeps_place for objection in reviewed.objections):
            self._budgets.take(command)
        objections = [*reviewed.objections, *([full] if full else [])]
        if objections:
            self._verdicts.append(Verdict("held", objections[0], command, position))
            return
        exception = reviewed.excused or (reviewed.full if goes_alone else None)
        self._allowed.append(reviewed.index)
        if command.kind == "split":
            self._asked_splits.add(command.bundle)
        if exception is not None:
            self._verdicts.append(Verdict("allowed", exception, command, position))


CAUSES: Mapping[str, Cause] = {**cluster_wide.CAUSES, **bundle_guards.CAUSES, **budgets.CAUSES}
"""Every rule by which something is held back, with its cause in words."""

EXCEPTIONS: Mapping[str, Cause] = {**bundle_guards.EXCEPTIONS, **budgets.EXCEPTIONS}
"""Rules that objected to a command and let it pass by their own exception."""


def sentence(verdict: Verdict, cluster: str) -> str:
    """Return the outcome of the command, or of all commands of the cluster, and the cause; it ends with a full stop."""
    cause = (CAUSES if verdict.outcome == "held" else EXCEPTIONS).get(verdict.objection.rule, _plain)
    why = cause(verdict.objection)
    if verdict.command is None:
        return f"No command is sent to {cluster}: {why}."
    if verdict.outcome == "held":
        return f"{_wanted(verdict.command)} and is held back: {why}."
    return f"{_wanted(verdict.command)} and is let through: {why}."


def _wanted(command: Command) -> str:
    """Return the act that the plan wants for the bundle."""
    if command.kind == "split":
        return f"{command.bundle} would be split" + (f" on {command.source}" if command.source else "")
    if command.kind == "unload_topic":
        return f"{command.topic} would be unloaded on {command.source}"
    start = f" from {command.source}" if command.source else ""
    return f"{command.bundle} would be unloaded{start}" + (f" to {command.destination}" if command.destination else "")


def _plain(objection: Objection) -> str:
    text = f"the rule {objection.rule.replace('_', ' ')} says so"
    if objection.measured is None or objection.threshold is None:
        return text
    unit = f" {objection.unit}" if objection.unit else ""
    return f"{text} (measured {objection.measured:g}{unit}, limit {objection.threshold:g}{unit})"
