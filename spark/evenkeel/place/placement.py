"""The placement of one bundle, and the verdicts that both load managers' placements give on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from evenkeel.model.amounts import amount, plural
from evenkeel.model.consideration import BROKERS_OWN_NAMESPACE, Alternative, Considered, Rule, Sentence, destination_of

SINCE_QUOTA = "samples_since_quota"
"""The number that a verdict has of a bundle whose averages began from its resource quota: samples since then."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of one bundle. `best`: brokers that are equally good; `destination`: the chosen one, None without
    any.

    `candidates`: every broker, with the filter that removed it or its score.
    """

    bundle: str
    destination: str | None
    best: tuple[str, ...]
    candidates: Sequence[Alternative]
    considered: Considered

    def kept_by(self, owner: str) -> Placement:
        """Return the placement, as `already_best` if the bundle would go to the broker that it leaves."""
        if self.destination != owner:
            return self
        return replace(self, considered=ALREADY_BEST.instead_of(self.considered))


def placed(how: str) -> Sentence:
    """Return the sentence of a bundle that goes to a broker; `how`: the reason, with the words of `placement_words`."""

    return lambda row: f"{goes_to(row)}: {how.format(**placement_words(row))}.{_of_quota(row)}"


def _of_quota(row: Considered) -> str:
    """Return the words for a bundle without history, with the quota that it counts as; "" for any other bundle."""
    if row.numbers.get(SINCE_QUOTA) != 0:
        return ""
    rate = amount(row.numbers["bundle_rate"], "msg/s")
    return f" It has no history of its own and counts with its resource quota, {rate}."


def goes_to(row: Considered) -> str:
    """Return the bundle and its destination in words, with its source if it has an owner."""
    start = f"{row.subject} goes from {row.broker}" if row.broker else f"{row.subject} goes"
    return f"{start} to {destination_of(row)}"


def placement_words(row: Considered) -> dict[str, str]:
    """Return the words that a sentence about a placement may use: word -> text."""
    score = row.numbers.get("score")
    removed = int(row.numbers.get("removed", 0))
    others = plural(row.numbers.get("candidates", 1), "candidate")
    filters = f", {plural(removed, 'broker')} filtered out" if removed else ""
    ties = row.numbers.get("best", 1)
    tie = f" (first by name of {amount(ties, 'count')} equal ones)" if ties > 1 else ""
    rate = (
        "is overloaded like all others"
        if score is None
        else f"has the least long-term message rate, {amount(score, 'msg/s')}"
    )
    usage = f"its average usage of {amount(score, 'fraction')}"
    mean = f"the candidates' mean of {amount(row.numbers.get('mean_usage'), 'fraction')}"
    return {"rate": rate, "usage": usage, "mean": mean, "others": others, "filters": filters, "tie": tie}


def with_its_own_broker(bundle: str, broker: str, brokers: Collection[str]) -> Placement:
    """Return the placement on the broker in the name of a heartbeat or SLA namespace; on none while it is away."""
    if broker in brokers:
        return settled(bundle, broker, ITS_OWN)
    return Placement(bundle, None, (), (), BROKERS_OWN_NAMESPACE.about_bundle(bundle, broker))


def settled(bundle: str, broker: str, rule: Rule, owner: str | None = None) -> Placement:
    """Return a placement without a strategy; `owner`: the broker that the bundle leaves, if any."""
    alternatives = (Alternative(broker, "best", rule.name),)
    row = rule.about_bundle(bundle, owner, alternatives=alternatives)
    return Placement(bundle, broker, (broker,), alternatives, row)


ALREADY_BEST = Rule(
    "kept",
    "already_best",
    lambda row: f"{row.subject} stays on {row.broker}: placement would choose the same broker again.",
)
NO_CANDIDATE = Rule(
    "refused",
    "no_candidate",
    lambda row: (
        f"{row.subject} {f'stays on {row.broker}' if row.broker else 'gets no broker'}: "
        f"of {plural(len(row.alternatives), 'broker')} none is a candidate."
    ),
)
PREALLOCATED = Rule("placed", "preallocated", placed("it is already preallocated to that broker"))
ITS_OWN = Rule("placed", "brokers_own_namespace", placed("its namespace belongs to that broker"))
TRANSFERRED = Rule("placed", "transferred", placed("the transfer names that broker as the receiver"))
BY_PLAN = Rule("placed", "planned", placed("the planner's target has it there"))
