"""Drains: a broker's bundles are moved away, over as many cycles as the budgets require.

Pulsar has no drain: a broker that is to be removed is stopped, and all its bundles move at once. Keys:
evenkeelDrainingUnloads and evenkeelDrainingBrokers, to which a wish for a drain adds its broker (`ingest.wish_intake`).
A broker stays empty until its drain is ended: it gets no bundles, also after a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.reading import Row, Rows
from evenkeel.cycle.reasons import reason_row, telling
from evenkeel.lake.schemas.acted import DRAIN
from evenkeel.manual_requests.round import wishes_of
from evenkeel.model.amounts import plural
from evenkeel.model.bundles import is_heartbeat_or_sla, is_system, namespace_of
from evenkeel.model.consideration import LEFT_TO_REQUEST, Considered, Rule
from evenkeel.settings import Settings

BY_DRAINING = "draining"
"""The strategy in rows about drained brokers and their bundles."""
DRAINING_KEY = "evenkeelDrainingBrokers"
_DOUBLED = "doubled"


def _emptying_words(row: Considered) -> str:
    left, leaving = plural(row.measured, "bundle"), int(row.numbers.get("leaving", 0))
    share = "all of them" if leaving == row.measured else f"{leaving:,} of them"
    are = "is" if row.measured == 1 else "are"
    if not leaving:
        return f"{row.subject} is being emptied: {left} {are} still there, and none can leave in this cycle."
    if row.measured == 1:
        return f"{row.subject} is being emptied: {left} is still there, and leaves if nothing holds it back."
    return f"{row.subject} is being emptied: {left} are still there, and {share} leave as far as the budgets allow."


LEAVES = Rule(
    "unload",
    "draining",
    lambda row: f"{row.subject} leaves {row.broker}, which is being emptied; placement decides where it goes.",
)
SPLIT_FIRST = Rule(
    "skipped",
    "draining_split_first",
    lambda row: f"{row.subject} is split in this cycle; its parts leave {row.broker} afterwards.",
)
CLAIMED_TWICE = Rule(
    "skipped",
    "draining_claimed_twice",
    lambda row: f"{row.subject} is claimed by more than one broker; it leaves {row.broker} once that has cleared up.",
)
EMPTYING = Rule("unload", "emptying", _emptying_words, "above")
EMPTIED = Rule(
    "kept",
    "emptied",
    lambda row: f"{row.subject} is empty: no bundle is left there that could move, and it gets none.",
    "at most",
)
NOT_THERE = Rule(
    "skipped", "draining_not_there", lambda row: f"{row.subject} is to be emptied, but is no broker of the cluster."
)
FROZEN = Rule(
    "refused",
    "draining_frozen",
    lambda row: f"{row.subject} is not emptied, because {row.setting} names it: nothing may leave it.",
)


@dataclass(frozen=True, slots=True)
class Drained:
    """The verdicts of a cycle on each draining broker, and on each of its bundles."""

    verdicts: Sequence[Considered] = ()
    wish_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def leaving(self) -> frozenset[str]:
        """The bundles that leave."""
        return frozenset(verdict.subject for verdict in self.verdicts if verdict.by is LEAVES)

    def beside(self, verdicts: Iterable[Considered]) -> list[Considered]:
        """Return a shedder's verdicts except those on bundles that it left alone because they leave by a drain."""
        leaving = self.leaving
        return [verdict for verdict in verdicts if verdict.by is not LEFT_TO_REQUEST or verdict.subject not in leaving]

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `unload_decisions`; those about a broker that a wish names have the wish's id."""
        return [reason_row(verdict, BY_DRAINING, self.wish_ids.get(verdict.subject)) for verdict in self.verdicts]


def drained(rows: Rows, settings: Settings, wished: Collection[str] = ()) -> Drained:
    """Return verdicts on draining brokers and their bundles, by broker and bundle; `wished` are bundles that a wish
    unloads.

    A broker's own namespaces (heartbeat, SLA monitor) stay with it and do not count. Nor does `pulsar/system` under the
    extensible manager, whose leader keeps the topics that brokers agree by. Placement decides whether a broker may take
    a bundle; the guards' budgets decide how many leave at once.
    """
    cycle = reading.the_cycle(rows)
    wish_ids = {wish["broker"]: wish["wish_id"] for wish in wishes_of(cycle, DRAIN)}
    named = settings.evenkeelDrainingBrokers if settings.evenkeelDrainingUnloads else frozenset[str]()
    if not (wish_ids or named):
        return Drained()
    listed = {row["broker"] for row in rows["broker_load"]}
    split = {row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"}
    bundles_of: dict[str, list[Row]] = {broker: [] for broker in named}
    for row in rows["bundle_load"]:
        if row["owner"] in bundles_of and not _stays(row["bundle"], cycle["manager"]):
            bundles_of[row["owner"]].append(row)
    verdicts: list[Considered] = []
    for broker in sorted({*wish_ids, *named}):
        if broker not in named:
            verdicts.append(FROZEN.about_broker(broker, setting="evenkeelFrozenBrokers"))
        elif broker not in listed:
            verdicts.append(NOT_THERE.about_broker(broker, setting=DRAINING_KEY))
        else:
            verdicts += _of_broker(broker, bundles_of[broker], split, wished)
    return Drained(telling(verdicts, rows), wish_ids)


def _of_broker(
    broker: str, bundles: Iterable[Row], split: Collection[str], wished: Collection[str]
) -> list[Considered]:
    rules = {row["bundle"]: _rule(row, split, wished) for row in bundles}
    leaving, left = sum(rule is LEAVES for rule in rules.values()), len(rules)
    about = EMPTYING if left else EMPTIED
    figures = {"leaving": leaving, "left_to_wishes": sum(rule is LEFT_TO_REQUEST for rule in rules.values())}
    verdict = about.about_broker(
        broker, setting=DRAINING_KEY, measured=left, threshold=0, unit="count", numbers=figures
    )
    return [verdict, *(rules[bundle].about_bundle(bundle, broker, setting=DRAINING_KEY) for bundle in sorted(rules))]


def _stays(bundle: str, manager: str) -> bool:
    """Return True if Pulsar keeps the bundle on its broker, so that it does not count as left on it."""
    namespace = namespace_of(bundle)
    if manager == reading.EXTENSIBLE and is_system(namespace):
        return True
    return is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True)


def _rule(row: Row, split: Collection[str], wished: Collection[str]) -> Rule:
    if row["ownership"] == _DOUBLED:
        return CLAIMED_TWICE
    if row["bundle"] in split:
        return SPLIT_FIRST
    return LEFT_TO_REQUEST if row["bundle"] in wished else LEAVES
