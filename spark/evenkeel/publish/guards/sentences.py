"""One plain English sentence for every verdict of a guard.

A cause per rule, put into the frame of what became of it: a command held back, one let through all the same, or a
cluster of which nothing is asked. A rule that has none (rows of another version) still gets a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evenkeel.publish.guards.objection import Objection, Verdict
from evenkeel.publish.guards.situation import Command

Cause = Callable[[Objection], str]


def sentence(verdict: Verdict, cluster: str) -> str:
    """What became of the command, or of all commands of the cluster, and why; it ends with a full stop."""
    cause = (CAUSES if verdict.outcome == "held" else EXCEPTIONS).get(verdict.objection.rule, _plain)
    why = cause(verdict.objection)
    if verdict.command is None:
        return f"Nothing is asked of {cluster}: {why}."
    if verdict.outcome == "held":
        return f"{_wanted(verdict.command)} and is held back: {why}."
    return f"{_wanted(verdict.command)} and is let through: {why}."


def _wanted(command: Command) -> str:
    """What the plan wants with the bundle."""
    if command.kind == "split":
        return f"{command.bundle} would be split" + (f" on {command.source}" if command.source else "")
    start = f" from {command.source}" if command.source else ""
    return f"{command.bundle} would be unloaded{start}" + (f" to {command.destination}" if command.destination else "")


def duration(seconds: float | None) -> str:
    """`40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds is None:
        return "an unknown time"
    if seconds < 120:
        return _plural(seconds, "second")
    if seconds < 7200:
        return _plural(seconds / 60, "minute")
    hours = round(seconds / 3600, 1)
    return _plural(hours, "hour") if hours == int(hours) else f"{hours:.1f} hours"


def _plural(count: float | None, noun: str) -> str:
    text = "an unknown number of" if count is None else f"{round(count):,}"
    return f"{text} {noun}" if count is not None and round(count) == 1 else f"{text} {noun}s"


def _percent(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.1f} %"


def _points(value: float | None) -> str:
    if value is None:
        return "unknown"
    rounded = round(value, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"


def _number(objection: Objection, name: str) -> float | None:
    return objection.numbers.get(name)


def _because(text: str) -> str:
    """An operator's or another cycle's own words, as an end of a sentence without a second full stop."""
    words = " ".join(text.split()).rstrip(".")
    return f" ({words})" if words else ""


def _plain(objection: Objection) -> str:
    text = f"the rule {objection.rule.replace('_', ' ')} says so"
    if objection.measured is None or objection.threshold is None:
        return text
    unit = f" {objection.unit}" if objection.unit else ""
    return f"{text} (measured {objection.measured:g}{unit}, limit {objection.threshold:g}{unit})"


# The cluster as a whole


def _paused(o: Objection) -> str:
    by = f" by {o.words['by']}" if o.words.get("by") else ""
    return f"it is paused{by}{_because(o.words.get('reason', ''))}"


def _too_few_reports(o: Objection) -> str:
    usable, listed = _points(_number(o, "usable")), _plural(_number(o, "brokers"), "listed broker")
    have = "has" if usable == "1" else "have"
    return (
        f"{usable} of {listed} {have} a report that is not too old, {_percent(o.measured)}, and it takes "
        f"{_percent(o.threshold)}"
    )


def _too_many_silent(o: Objection) -> str:
    silent, listed = _points(o.measured), _plural(_number(o, "brokers"), "listed broker")
    are = "is" if silent == "1" else "are"
    return f"{silent} of {listed} {are} silent, and {_points(o.threshold)} may be"


def _ownership(o: Objection) -> str:
    unclear, bundles = _points(_number(o, "unclear")), _plural(_number(o, "bundles"), "bundle")
    have = "has" if unclear == "1" else "have"
    most = _percent(o.threshold)
    return f"{unclear} of {bundles} {have} two owners or an unknown one, {_percent(o.measured)}, and {most} may have"


# What is not known well enough


def _unsettled(what: str) -> Cause:
    def text(o: Objection) -> str:
        left = ", nobody knows how long" if o.measured is None else f" for another {duration(o.measured)}"
        return f"{what.format(**o.words)} are not to be trusted{left}{_because(o.words.get('why', ''))}"

    return text


# Bounces


def _gain(o: Objection) -> str:
    """What a bounce needs, and what it has."""
    points = "point" if o.threshold == 1 else "points"
    needs = f"needs a gain of {_points(o.threshold)} {points}"
    return f"{needs}, and this one's is not known" if o.measured is None else f"{needs}, this is {_points(o.measured)}"


def _left(o: Objection) -> str:
    return f"it left {o.words['broker']} {duration(_number(o, 'seconds_ago'))} ago"


def _moved(o: Objection) -> str:
    return (
        f"it moved {_plural(_number(o, 'moves'), 'time')} in 24 hours, and {_points(_number(o, 'free_moves'))} are free"
    )


# Budgets


def _most(noun: str, where: str = "") -> Cause:
    """A budget of a number of commands that is used up, or that was none from the start."""

    def text(o: Objection) -> str:
        what = f"{where.format(**o.words)} in one cycle"
        if not o.threshold:
            return f"no {noun}{what} is allowed"
        used = "is the most, and it is" if o.threshold == 1 else "are the most, and they are"
        return f"{_plural(o.threshold, noun)}{what} {used} used up"

    return text


def _moved_traffic(o: Objection) -> str:
    if not o.threshold:
        return "no traffic may be moved"
    return (
        f"with its {_percent(_number(o, 'own_percent'))} of the cluster's traffic this cycle would move "
        f"{_percent(o.measured)}, and {_percent(o.threshold)} are the most"
    )


def _too_heavy(o: Objection) -> str:
    if not o.threshold:
        return "no bundle may be moved"
    return (
        f"it has {_percent(o.measured)} of the cluster's traffic, and a bundle with over {_percent(o.threshold)} is "
        "not moved; split it first"
    )


def _goes_alone(o: Objection) -> str:
    return (
        f"its {_percent(o.measured)} of the cluster's traffic are more than the {_percent(o.threshold)} of one cycle, "
        "and as the first one it may go alone"
    )


def _bundle_maximum(o: Objection) -> str:
    most = _points(o.threshold)
    return f"{o.words['namespace']} would have {_plural(o.measured, 'bundle')}, and {most} are the most it may have"


CAUSES: Mapping[str, Cause] = {
    "paused": _paused,
    "outside_maintenance_windows": lambda o: (
        f"it is {o.words['at']} UTC, and commands are asked at {o.words['windows']} only"
    ),
    "too_few_reports": _too_few_reports,
    "too_many_silent_brokers": _too_many_silent,
    "ownership_unclear": _ownership,
    "frozen_namespace": lambda o: f"the namespace {o.words['namespace']} is frozen",
    "frozen_bundle": lambda o: f"the bundle {o.words['bundle']} is frozen",
    "frozen_broker": lambda o: f"the broker {o.words['broker']} is frozen",
    "one_command_per_bundle": lambda o: f"the plan has a command for it already, to {_verb(o)} it",
    "parent_not_split": lambda o: f"it is part of {o.words['parent']}, whose split is not asked before it",
    "unsettled_bundle": _unsettled("the figures of {subject}"),
    "unsettled_broker": _unsettled("the figures of {subject}"),
    "owner_unclear": lambda o: "it has two owners, or an unknown one",
    "no_report": lambda o: f"{o.words['broker']} has told nothing of its load",
    "report_too_old": lambda o: (
        f"the report of {o.words['broker']} is {duration(o.measured)} old and may be {duration(o.threshold)} old"
    ),
    "traffic_unknown": lambda o: "its traffic is not known, so no budget can be held against it",
    "bundle_too_heavy": _too_heavy,
    "returns": lambda o: f"{_left(o)}; moving it back {_gain(o)}",
    "moved_often": lambda o: f"{_moved(o)}; moving it again {_gain(o)}",
    "unloads_per_cycle": _most("unload"),
    "unloads_from_broker": _most("unload", " from {broker}"),
    "unloads_to_broker": _most("unload", " to {broker}"),
    "moved_traffic": _moved_traffic,
    "splits_per_cycle": _most("split"),
    "bundle_maximum": _bundle_maximum,
}
"""Every rule by which something is held back, with its cause in words."""

EXCEPTIONS: Mapping[str, Cause] = {
    "returns": lambda o: f"{_left(o)}; moving it back {_gain(o)}",
    "moved_often": lambda o: f"{_moved(o)}; moving it again {_gain(o)}",
    "moved_traffic": _goes_alone,
}
"""Every rule that objected to a command and let it through by an exception of its own."""


def _verb(o: Objection) -> str:
    return "split" if o.words["kind"] == "split" else "unload"
