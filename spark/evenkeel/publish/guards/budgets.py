"""Budgets of one cycle: unloads in all and per broker, the traffic they move, and a separate one for splits.

Keys: evenkeelMaxUnloadsPerCycle, evenkeelMaxUnloadsFromBroker, evenkeelMaxUnloadsToBroker,
evenkeelMaxMovedTrafficPercent, evenkeelMovedTrafficOrder, evenkeelMaxBundleTrafficPercent, evenkeelMaxSplitsPerCycle,
loadBalancerNamespaceMaximumBundles. An unloaded topic moves no load and uses no budget.

A command passes if it fits beside the commands before it; one that does not fit leaves its room to the next. A bundle
that by itself exceeds the traffic budget would never move. So it may go alone if no other unload fits. Above
evenkeelMaxBundleTrafficPercent it never goes, since moving it would move the overload. In records from before
evenkeelMovedTrafficOrder existed, the first unload of the plan could go alone whatever came after it (`plan_order`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from evenkeel.model.amounts import counted
from evenkeel.model.bundles import namespace_of
from evenkeel.publish.guards.situation import Cause, Command, Objection, Situation, percent, points
from evenkeel.settings import Settings

_MOST_PERCENT = 100.0
FITTING_FIRST = "fitting_first"


def too_heavy(command: Command, situation: Situation, settings: Settings) -> Objection | None:
    """Object to a bundle with too much of the cluster's traffic to be moved at all."""
    most = settings.evenkeelMaxBundleTrafficPercent
    if command.kind != "unload" or command.traffic is None or most >= _MOST_PERCENT:
        return None
    share = situation.share(command.traffic)
    if most > 0 and share <= most:
        return None
    return Objection("bundle_too_heavy", "evenkeelMaxBundleTrafficPercent", share, most, "percent")


class Budgets:
    """The budgets used so far."""

    def __init__(self, situation: Situation, settings: Settings) -> None:
        self._situation, self._settings = situation, settings
        self._unloads = self._splits = 0
        self._moved = 0.0
        self._from: Counter[str] = Counter()
        self._to: Counter[str] = Counter()
        self._added: Counter[str] = Counter()

    def objection(self, command: Command) -> Objection | None:
        """The first budget that the command does not fit into."""
        if command.kind == "split":
            return self._splits_per_cycle() or self._bundle_maximum(command)
        if command.kind == "unload_topic":
            return None
        return (
            self._unloads_per_cycle()
            or self._of_broker("unloads_from_broker", "evenkeelMaxUnloadsFromBroker", command.source, self._from)
            or self._of_broker("unloads_to_broker", "evenkeelMaxUnloadsToBroker", command.destination, self._to)
            or self._moved_traffic(command)
        )

    @property
    def lets_one_exceed(self) -> bool:
        """Return True if an unload may exceed the traffic budget: some traffic may move, and no unload has a place
        yet."""
        return self._unloads == 0 and self._settings.evenkeelMaxMovedTrafficPercent > 0

    def _moved_traffic(self, command: Command) -> Objection | None:
        """Object if the traffic of the unloads would exceed the budget; a budget of 0 allows nothing."""
        most = self._settings.evenkeelMaxMovedTrafficPercent
        if command.kind != "unload" or most >= _MOST_PERCENT:
            return None
        bundle_percent = self._situation.share(command.traffic or 0.0)
        share = self._situation.share(self._moved + (command.traffic or 0.0))
        if most > 0 and share <= most:
            return None
        numbers = {"own_percent": bundle_percent, "before_percent": self._situation.share(self._moved)}
        words = {"order": self._settings.evenkeelMovedTrafficOrder}
        return Objection("moved_traffic", "evenkeelMaxMovedTrafficPercent", share, most, "percent", numbers, words)

    def take(self, command: Command) -> None:
        """Count the command."""
        if command.kind == "split":
            self._splits += 1
            self._added[namespace_of(command.bundle)] += command.cuts
            return
        if command.kind == "unload_topic":
            return
        self._unloads += 1
        self._moved += command.traffic or 0.0
        self._from[command.source or ""] += 1
        self._to[command.destination or ""] += 1

    def _unloads_per_cycle(self) -> Objection | None:
        most = self._settings.evenkeelMaxUnloadsPerCycle
        if most < 0 or self._unloads < most:
            return None
        return Objection("unloads_per_cycle", "evenkeelMaxUnloadsPerCycle", self._unloads + 1, most, "count")

    def _of_broker(self, rule: str, setting: str, broker: str | None, used: Counter[str]) -> Objection | None:
        most: int = getattr(self._settings, setting)
        if broker is None or most < 0 or used[broker] < most:
            return None
        return Objection(rule, setting, used[broker] + 1, most, "count", words={"broker": broker})

    def _splits_per_cycle(self) -> Objection | None:
        most = self._settings.evenkeelMaxSplitsPerCycle
        if most < 0 or self._splits < most:
            return None
        return Objection("splits_per_cycle", "evenkeelMaxSplitsPerCycle", self._splits + 1, most, "count")

    def _bundle_maximum(self, command: Command) -> Objection | None:
        """Object if the namespace would exceed its maximum, with the earlier splits and this one. Manual requests may
        exceed it, as in Pulsar."""
        most, namespace = self._settings.loadBalancerNamespaceMaximumBundles, namespace_of(command.bundle)
        before = self._situation.bundle_counts.get(namespace, 0) + self._added[namespace]
        if command.wished or before + command.cuts <= most:
            return None
        numbers = {"bundles_before": float(before), "cuts": float(command.cuts)}
        words = {"namespace": namespace}
        setting = "loadBalancerNamespaceMaximumBundles"
        return Objection("bundle_maximum", setting, before + command.cuts, most, "count", numbers, words)


def _most(noun: str, where: str = "") -> Cause:
    """A budget of a number of commands that is used up, or that was none from the start."""

    def text(o: Objection) -> str:
        words = f"{where.format(**o.words)} in one cycle"
        if not o.threshold:
            return f"no {noun}{words} is allowed"
        used = "is the most, and it is" if o.threshold == 1 else "are the most, and they are"
        return f"{counted(o.threshold, noun)}{words} {used} used up"

    return text


def _moved_traffic_words(o: Objection) -> str:
    if not o.threshold:
        return "no traffic may be moved"
    bundle_percent = o.numbers.get("own_percent")
    if o.words.get("order") == FITTING_FIRST and bundle_percent is not None and bundle_percent > (o.threshold or 0.0):
        return f"{_too_much(o)}, and it may go alone only where no other unload has a place in them"
    return (
        f"with its {percent(bundle_percent)} of the cluster's traffic this cycle would move "
        f"{percent(o.measured)}, and {percent(o.threshold)} are the most"
    )


def _too_heavy_words(o: Objection) -> str:
    if not o.threshold:
        return "no bundle may be moved"
    return (
        f"it has {percent(o.measured)} of the cluster's traffic, and a bundle with over {percent(o.threshold)} is "
        "not moved; split it first"
    )


def _goes_alone(o: Objection) -> str:
    if o.words.get("order") == FITTING_FIRST:
        return f"{_too_much(o)}, and as no unload that may go fits into them, it goes alone"
    return f"{_too_much(o)}, and as the first one it may go alone"


def _too_much(o: Objection) -> str:
    bundle_percent = percent(o.numbers.get("own_percent"))
    return f"its {bundle_percent} of the cluster's traffic are more than the {percent(o.threshold)} of one cycle"


def _bundle_maximum_words(o: Objection) -> str:
    most = points(o.threshold)
    return f"{o.words['namespace']} would have {counted(o.measured, 'bundle')}, and {most} are the most it may have"


CAUSES: Mapping[str, Cause] = {
    "bundle_too_heavy": _too_heavy_words,
    "unloads_per_cycle": _most("unload"),
    "unloads_from_broker": _most("unload", " from {broker}"),
    "unloads_to_broker": _most("unload", " to {broker}"),
    "moved_traffic": _moved_traffic_words,
    "splits_per_cycle": _most("split"),
    "bundle_maximum": _bundle_maximum_words,
}
"""Rule -> why the command is held back."""

EXCEPTIONS: Mapping[str, Cause] = {"moved_traffic": _goes_alone}
"""Rule -> why a command is let through all the same."""
