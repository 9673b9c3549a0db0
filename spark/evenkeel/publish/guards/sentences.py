"""One plain English sentence for every verdict of a guard.

The cause of a rule is defined beside the guard. This module adds the outcome: a command held back, one that passes in
spite of the rule, or a cluster without any command. A rule without a cause still gets a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.publish.guards import budgets, bundle_guards, cluster_wide
from evenkeel.publish.guards.objection import Cause, Objection, Verdict
from evenkeel.publish.guards.situation import Command

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
