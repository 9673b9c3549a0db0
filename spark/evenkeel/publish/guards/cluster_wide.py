"""Guards on the cluster as a whole, and on the data of a command.

Keys: evenkeelMaintenanceWindows, evenkeelMinReportedBrokersPercent, evenkeelMaxSilentBrokers,
evenkeelMaxUnclearOwnershipPercent, evenkeelMaxReportAgeSeconds. Too many silent brokers at once point to a deeper fault
than load, and moving bundles would make it worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from evenkeel.model.amounts import counted
from evenkeel.publish.guards.situation import (
    Broker,
    Cause,
    Command,
    Objection,
    Situation,
    Unsettled,
    because,
    duration,
    percent,
    points,
)
from evenkeel.settings import Settings
from evenkeel.settings.parsing import is_within


def refusals(situation: Situation, settings: Settings) -> tuple[Objection, ...]:
    """Every reason not to act on the cluster at all, the weightiest first."""
    objections = (
        _paused(situation),
        _outside_window(situation, settings),
        _too_few_reports(situation, settings),
        _too_many_silent(situation, settings),
        _ownership(situation, settings),
    )
    return tuple(objection for objection in objections if objection is not None)


def is_usable(broker: Broker | None, settings: Settings) -> bool:
    """Return True if a broker is listed and has a report that is known not to be too old."""
    if broker is None or not broker.reported or broker.report_age is None:
        return False
    return broker.report_age <= settings.evenkeelMaxReportAgeSeconds


def _paused(situation: Situation) -> Objection | None:
    if not situation.pauses:
        return None
    first = min(situation.pauses, key=lambda pause: (pause.by, pause.reason))
    return Objection("paused", words={"by": first.by, "reason": first.reason})


def _outside_window(situation: Situation, settings: Settings) -> Objection | None:
    windows = settings.evenkeelMaintenanceWindows
    at = situation.at.astimezone(UTC)
    if not windows or is_within(at.hour * 60 + at.minute, windows):
        return None
    words = {"at": f"{at:%H:%M}", "windows": ", ".join(windows)}
    return Objection("outside_maintenance_windows", "evenkeelMaintenanceWindows", words=words)


def _too_few_reports(situation: Situation, settings: Settings) -> Objection | None:
    """Object if too few brokers have reported; without brokers, none has."""
    least, listed = settings.evenkeelMinReportedBrokersPercent, len(situation.brokers)
    usable = listed - _silent(situation, settings)
    share = 100.0 * usable / listed if listed else 0.0
    if least <= 0 or share >= least:
        return None
    numbers = {"brokers": float(listed), "usable": float(usable)}
    return Objection("too_few_reports", "evenkeelMinReportedBrokersPercent", share, least, "percent", numbers)


def _too_many_silent(situation: Situation, settings: Settings) -> Objection | None:
    most, silent = settings.evenkeelMaxSilentBrokers, _silent(situation, settings)
    if most < 0 or silent <= most:
        return None
    numbers = {"brokers": float(len(situation.brokers))}
    return Objection("too_many_silent_brokers", "evenkeelMaxSilentBrokers", silent, most, "count", numbers)


def _silent(situation: Situation, settings: Settings) -> int:
    return sum(not is_usable(broker, settings) for broker in situation.brokers.values())


def _ownership(situation: Situation, settings: Settings) -> Objection | None:
    """Object if too many bundles have an unclear owner.

    Bundles known to be moving are not counted, since an unclear owner is expected of them.
    """
    most = settings.evenkeelMaxUnclearOwnershipPercent
    unclear = sum(not any(situation.unsettled_at(bundle)) for bundle in situation.unclear)
    share = 100.0 * unclear / situation.bundles if situation.bundles else 0.0
    if share <= most:
        return None
    numbers = {"bundles": float(situation.bundles), "unclear": float(unclear)}
    return Objection("ownership_unclear", "evenkeelMaxUnclearOwnershipPercent", share, most, "percent", numbers)


# Guards on the data of a command: settled figures, fresh reports, a clear owner, a known size.
#
# Keys: evenkeelMaxReportAgeSeconds, evenkeelMaxMovedTrafficPercent. After a command, the figures of what it touched are
# missing, doubled or inflated for two periods of the brokers' statistics. A listed broker may be dead until its session
# in the metadata store ends. An unload that names it leaves clients without an owner until then.


def doubts(command: Command, situation: Situation, settings: Settings) -> Iterator[Objection]:
    """Return all facts about the command that are not known well enough. It keeps its place in the budgets."""
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
    """Object to unsettled figures of the command's subjects.

    A split touches the bundle alone; an unload also both brokers. A topic's unload needs no figure: it waits only while
    the outcome of the last command for its bundle is unknown.
    """
    unsettled = situation.unsettled_at(command.bundle)
    rests_on = [event for event in unsettled if command.kind != "unload_topic" or event.until is None]
    yield from _longest("unsettled_bundle", rests_on, situation.at)
    if command.kind == "unload":
        for broker in (command.source, command.destination):
            yield from _longest("unsettled_broker", [*situation.unsettled_at(broker or "")], situation.at)


def _longest(rule: str, unsettled: list[Unsettled], at: datetime) -> Iterator[Objection]:
    """Yield the objection that lasts longest, if any."""
    if not unsettled:
        return
    last = max(unsettled, key=lambda event: (event.until is None, event.until or at, event.why, event.subject))
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


def _paused_words(o: Objection) -> str:
    by = f" by {o.words['by']}" if o.words.get("by") else ""
    return f"it is paused{by}{because(o.words.get('reason', ''))}"


def _too_few_reports_words(o: Objection) -> str:
    usable, listed = points(o.numbers.get("usable")), counted(o.numbers.get("brokers"), "listed broker")
    have = "has" if usable == "1" else "have"
    return (
        f"{usable} of {listed} {have} a report that is not too old, {percent(o.measured)}, and "
        f"{percent(o.threshold)} are required"
    )


def _too_many_silent_words(o: Objection) -> str:
    silent, listed = points(o.measured), counted(o.numbers.get("brokers"), "listed broker")
    are = "is" if silent == "1" else "are"
    return f"{silent} of {listed} {are} silent, and the limit is {points(o.threshold)}"


def _ownership_words(o: Objection) -> str:
    unclear, bundles = points(o.numbers.get("unclear")), counted(o.numbers.get("bundles"), "bundle")
    have = "has" if unclear == "1" else "have"
    most = percent(o.threshold)
    return f"{unclear} of {bundles} {have} two owners or an unknown one, {percent(o.measured)}, and the limit is {most}"


def _unsettled_words(subject: str) -> Cause:
    def text(o: Objection) -> str:
        left = ", for an unknown time" if o.measured is None else f" for another {duration(o.measured)}"
        return f"{subject.format(**o.words)} cannot be trusted{left}{because(o.words.get('why', ''))}"

    return text


CAUSES: Mapping[str, Cause] = {
    "paused": _paused_words,
    "outside_maintenance_windows": lambda o: (
        f"it is {o.words['at']} UTC, and commands are allowed at {o.words['windows']} only"
    ),
    "too_few_reports": _too_few_reports_words,
    "too_many_silent_brokers": _too_many_silent_words,
    "ownership_unclear": _ownership_words,
    "unsettled_bundle": _unsettled_words("the figures of {subject}"),
    "unsettled_broker": _unsettled_words("the figures of {subject}"),
    "owner_unclear": lambda o: "it has two owners, or an unknown one",
    "no_report": lambda o: f"{o.words['broker']} has not reported its load",
    "report_too_old": lambda o: (
        f"the report of {o.words['broker']} is {duration(o.measured)} old, and the limit is {duration(o.threshold)}"
    ),
    "traffic_unknown": lambda o: "its traffic is not known, so no budget can be checked for it",
}
"""Rule -> why the cluster, or the command, is held back."""
