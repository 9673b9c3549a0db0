"""Guards for one bundle: bounces, freezes, harm in its namespace, and one command per bundle.

Keys: evenkeelBounceWindowMinutes, evenkeelFreeMovesPerBundlePerDay, evenkeelBounceGainPoints. The gain of a move is the
fall of usage of the busier of its two brokers, in percentage points. The bundle is assumed to take along a part of its
broker's usage equal to its part of the broker's traffic. A manual request needs no gain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from evenkeel.model.amounts import counted
from evenkeel.model.bundles import broker_of, namespace_of
from evenkeel.publish.guards.situation import (
    Cause,
    Command,
    Objection,
    Situation,
    Unit,
    duration,
    is_part_of,
    overlaps,
    points,
)
from evenkeel.settings import Settings

_DAY = timedelta(days=1)
_POINTS: Unit = "points"
SETTING = "evenkeelBounceGainPoints"
WORDS: Mapping[str, str] = {"split": "split", "unload": "unload", "unload_topic": "unload of a topic"}


def bounces(command: Command, situation: Situation, settings: Settings) -> Objection | None:
    """Return the rule by which the command is a bounce, with its measured gain; `is_worth_it` judges the gain."""
    if command.kind != "unload" or command.wished:
        return None
    rule, numbers = _bounce(command, situation, settings)
    if not rule:
        return None
    gain = gain_points(command, situation)
    least = settings.evenkeelBounceGainPoints
    words = {"broker": command.destination or ""}
    return Objection(rule, SETTING, gain, least, _POINTS, numbers, words, keeps_place=gain is None)


def is_worth_it(bounce: Objection) -> bool:
    """Return True if the gain is known and large enough."""
    return bounce.measured is not None and bounce.threshold is not None and bounce.measured >= bounce.threshold


def _bounce(command: Command, situation: Situation, settings: Settings) -> tuple[str, dict[str, float]]:
    window = timedelta(minutes=settings.evenkeelBounceWindowMinutes)
    moves = situation.moves_of(command.bundle)
    ago = [situation.at - move.at for move in moves if move.source is not None and move.source == command.destination]
    latest = min((age for age in ago if age < window), default=None)
    if latest is not None:
        return "returns", {"seconds_ago": latest.total_seconds(), "window_seconds": window.total_seconds()}
    free = settings.evenkeelFreeMovesPerBundlePerDay
    today = sum(situation.at - move.at < _DAY for move in moves)
    if 0 <= free <= today:
        return "moved_often", {"moves": float(today), "free_moves": float(free)}
    return "", {}


def gain_points(command: Command, situation: Situation) -> float | None:
    """The gain of a move in percentage points; None where a usage or the bundle's traffic is not known."""
    source, destination = (situation.brokers.get(name or "") for name in (command.source, command.destination))
    if source is None or destination is None or command.traffic is None:
        return None
    if source.usage is None or destination.usage is None:
        return None
    share = min(command.traffic / source.traffic, 1.0) if source.traffic > 0 else 0.0
    part = source.usage * share
    before = max(source.usage, destination.usage)
    return 100.0 * (before - max(source.usage - part, destination.usage + part))


def futile(command: Command) -> Objection | None:
    """Object to a split of a broker's own namespace: its bundles stay with the broker, and its load is the broker's."""
    owner = broker_of(namespace_of(command.bundle)) if command.kind == "split" else None
    return None if owner is None else Objection("own_namespace", words={"broker": owner})


# Freezes by an operator: namespaces, bundles and brokers.
#
# Keys: evenkeelFrozenNamespaces, evenkeelFrozenBundles, evenkeelFrozenBrokers. A frozen bundle may have been split
# meanwhile, or be split soon. So all bundles that share hashes with it are frozen too.


def frozen(command: Command, settings: Settings) -> Objection | None:
    """Object if anything that the command touches is frozen. A frozen command uses no budget."""
    namespace = namespace_of(command.bundle)
    if namespace in settings.evenkeelFrozenNamespaces:
        return Objection("frozen_namespace", "evenkeelFrozenNamespaces", words={"namespace": namespace})
    named = next(
        (frozen for frozen in sorted(settings.evenkeelFrozenBundles) if overlaps(command.bundle, frozen)),
        None,
    )
    if named is not None:
        return Objection("frozen_bundle", "evenkeelFrozenBundles", words={"bundle": named})
    touched = (command.source, command.destination)
    broker = next((subject for subject in touched if subject in settings.evenkeelFrozenBrokers), None)
    if broker is not None:
        return Objection("frozen_broker", "evenkeelFrozenBrokers", words={"broker": broker})
    return None


# Harm of past commands: the next move in the namespace may hit the same clients.
#
# Keys: evenkeelHarmHoldMinutes, evenkeelHarmLiftedNamespaces. A manual request passes in spite of it.


def harmed(command: Command, situation: Situation, settings: Settings) -> Objection | None:
    """Object if a move in the namespace recently did harm. A command held back for that uses no budget."""
    namespace = namespace_of(command.bundle)
    if command.kind != "unload" or command.wished or namespace in settings.evenkeelHarmLiftedNamespaces:
        return None
    hold = timedelta(minutes=settings.evenkeelHarmHoldMinutes)
    harms = [
        harm for harm in situation.harms if namespace_of(harm.bundle) == namespace and situation.at - harm.at < hold
    ]
    if not harms:
        return None
    last = max(harms, key=lambda harm: (harm.at, harm.bundle, harm.kind))
    since = (situation.at - last.at).total_seconds()
    words = {"namespace": namespace, "bundle": last.bundle, "kind": last.kind}
    return Objection("harmed_namespace", "evenkeelHarmHoldMinutes", since, hold.total_seconds(), "s", words=words)


# One command per bundle and cycle, and none for part of a bundle before the bundle is split.
#
# Two simultaneous commands for one bundle can both be lost. The extensible manager lets a split time out beside an
# unload. The modular manager may keep the destination of the unload that it refused.


def firsts(commands: Sequence[Command]) -> dict[str, int]:
    """Bundle to the index of the first command that the plan has for it, and topic to that of the first one for it."""
    first_of: dict[str, int] = {}
    for index, command in enumerate(commands):
        first_of.setdefault(command.topic or command.bundle, index)
    return first_of


def repeated(index: int, commands: Sequence[Command], first: Mapping[str, int]) -> Objection | None:
    """Object if the plan has an earlier command for the same bundle or topic, held back or not.

    Topics of one bundle may be unloaded together, but not topics of a bundle that has its own command.
    """
    command = commands[index]
    earlier = first.get(command.bundle, first[command.topic or command.bundle])
    if earlier == index:
        return None
    return Objection("one_command_per_bundle", words={"kind": commands[earlier].kind})


def orphaned(command: Command, split: Sequence[str], asked: Collection[str]) -> Objection | None:
    """Object if the bundle comes out of a split that is not requested before it. It keeps its place in the budgets.

    `split`: bundles that the plan splits; `asked`: bundles whose split passed so far.
    """
    parents = (parent for parent in split if is_part_of(command.bundle, parent))
    missing = min((parent for parent in parents if parent not in asked), default=None)
    return None if missing is None else Objection("parent_not_split", words={"parent": missing}, keeps_place=True)


def _gain(o: Objection) -> str:
    """Return the gain that a bounce needs, and the gain that it has."""
    noun = "point" if o.threshold == 1 else "points"
    needs = f"needs a gain of {points(o.threshold)} {noun}"
    return f"{needs}, and this one's is not known" if o.measured is None else f"{needs}, this is {points(o.measured)}"


def _left(o: Objection) -> str:
    return f"it left {o.words['broker']} {duration(o.numbers.get('seconds_ago'))} ago"


def _moved(o: Objection) -> str:
    moves, free = o.numbers.get("moves"), o.numbers.get("free_moves")
    return f"it moved {counted(moves, 'time')} in 24 hours, and {points(free)} are free"


def _verb(o: Objection) -> str:
    return "split" if o.words["kind"] == "split" else "unload"


CAUSES: Mapping[str, Cause] = {
    "own_namespace": lambda o: f"it belongs to the broker {o.words['broker']} itself, and its parts would stay there",
    "frozen_namespace": lambda o: f"the namespace {o.words['namespace']} is frozen",
    "frozen_bundle": lambda o: f"the bundle {o.words['bundle']} is frozen",
    "frozen_broker": lambda o: f"the broker {o.words['broker']} is frozen",
    "one_command_per_bundle": lambda o: f"the plan has a command for it already, to {_verb(o)} it",
    "parent_not_split": lambda o: f"it is part of {o.words['parent']}, whose split does not come before it",
    "harmed_namespace": lambda o: (
        f"the {WORDS[o.words['kind']]} of {o.words['bundle']} did harm, seen {duration(o.measured)} ago, and moves of "
        f"{o.words['namespace']} are held for {duration(o.threshold)}"
    ),
    "returns": lambda o: f"{_left(o)}; moving it back {_gain(o)}",
    "moved_often": lambda o: f"{_moved(o)}; moving it again {_gain(o)}",
}
"""Rule -> why the command is held back."""

EXCEPTIONS: Mapping[str, Cause] = {rule: CAUSES[rule] for rule in ("returns", "moved_often")}
"""Rule -> why a command is let through all the same."""
