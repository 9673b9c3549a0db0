"""A bundle that goes back to a broker it just left, or that moves again and again, has to gain something by it.

Keys: evenkeelBounceWindowMinutes, evenkeelFreeMovesPerBundlePerDay, evenkeelBounceGainPoints. The gain of a move is how
far the usage of the busier of its two brokers falls, in percentage points, if the bundle takes along the part of its
broker's usage that it has of the broker's traffic. An operator's wish is not asked for a gain.
"""

from __future__ import annotations

from datetime import timedelta

from evenkeel.decisions.guards.objection import Objection, Unit
from evenkeel.decisions.guards.situation import Command, Situation
from evenkeel.settings import Settings

_DAY = timedelta(days=1)
_POINTS: Unit = "points"
SETTING = "evenkeelBounceGainPoints"


def bounces(command: Command, situation: Situation, settings: Settings) -> Objection | None:
    """The rule by which the command is a bounce, with its gain as measured; whether that is enough: `is_worth_it`."""
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
    """Whether the gain is known and large enough."""
    return bounce.measured is not None and bounce.threshold is not None and bounce.measured >= bounce.threshold


def _bounce(command: Command, situation: Situation, settings: Settings) -> tuple[str, dict[str, float]]:
    window = timedelta(minutes=settings.evenkeelBounceWindowMinutes)
    moves = situation.moves_of(command.bundle)
    ago = [situation.at - one.at for one in moves if one.source is not None and one.source == command.destination]
    latest = min((age for age in ago if age < window), default=None)
    if latest is not None:
        return "returns", {"seconds_ago": latest.total_seconds(), "window_seconds": window.total_seconds()}
    free = settings.evenkeelFreeMovesPerBundlePerDay
    today = sum(situation.at - one.at < _DAY for one in moves)
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
