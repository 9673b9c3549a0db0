"""Whether what a command rests on is known well enough: settled figures, fresh reports, a clear owner, a known size.

Keys: evenkeelMaxReportAgeSeconds, evenkeelMaxMovedTrafficPercent. After a command the figures of what it touched are
missing, doubled or inflated for two periods of the brokers' statistics; a listed broker may be dead until its session
in the metadata store ends, and an unload that names it leaves clients without an owner meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from evenkeel.decisions.guards.cluster_wide import is_usable
from evenkeel.decisions.guards.objection import Objection
from evenkeel.decisions.guards.situation import Command, Situation, Unsettled
from evenkeel.settings import Settings


def doubts(command: Command, situation: Situation, settings: Settings) -> Iterator[Objection]:
    """Everything about the command that is not known well enough. It keeps its place in the budgets."""
    yield from _unsettled(command, situation)
    if command.bundle in situation.unclear:
        yield Objection("owner_unclear", keeps_place=True)
    for broker in (command.source, command.destination):
        if broker is not None:
            yield from _report(broker, situation, settings)
    bounded = settings.evenkeelMaxMovedTrafficPercent < 100 or settings.evenkeelMaxBundleTrafficPercent < 100
    if command.kind == "unload" and command.traffic is None and bounded:
        yield Objection("traffic_unknown", "evenkeelMaxMovedTrafficPercent", keeps_place=True)


def _unsettled(command: Command, situation: Situation) -> Iterator[Objection]:
    """A split touches the bundle alone; an unload both brokers too."""
    yield from _longest("unsettled_bundle", [*situation.unsettled_at(command.bundle)], situation.at)
    if command.kind == "unload":
        for broker in (command.source, command.destination):
            yield from _longest("unsettled_broker", [*situation.unsettled_at(broker or "")], situation.at)


def _longest(rule: str, found: list[Unsettled], at: datetime) -> Iterator[Objection]:
    """The objection of the one that takes longest."""
    if not found:
        return
    last = max(found, key=lambda one: (one.until is None, one.until or at, one.why, one.subject))
    words = {"subject": last.subject, "why": last.why}
    if last.until is None:
        yield Objection(rule, words=words, keeps_place=True)
    else:
        left = (last.until - at).total_seconds()
        yield Objection(rule, measured=left, threshold=0.0, unit="s", words=words, keeps_place=True)


def _report(name: str, situation: Situation, settings: Settings) -> Iterator[Objection]:
    broker, most = situation.brokers.get(name), settings.evenkeelMaxReportAgeSeconds
    if is_usable(broker, settings):
        return
    words = {"broker": name}
    if broker is None or not broker.reported or broker.report_age is None:
        yield Objection("no_report", words=words, keeps_place=True)
        return
    setting = "evenkeelMaxReportAgeSeconds"
    yield Objection("report_too_old", setting, broker.report_age, most, "s", words=words, keeps_place=True)
