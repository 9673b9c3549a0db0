"""Cycles of a cluster as the rows that the round of aggregate is given, made without Spark."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from evenkeel.cycle.frames import cycle_row_of
from evenkeel.handover import Predecessor, Run
from evenkeel.lake.plain_rows import as_read
from evenkeel.model.exact_sums import exact_sum
from evenkeel.model.load import RATES
from tests.builders import NOON, ClusterBuilder, cluster

Rows = dict[str, list[dict[str, Any]]]
MINUTES = 5


def rows_of(*built: ClusterBuilder) -> Rows:
    """The rows of these cycles of one cluster."""
    found: Rows = defaultdict(list)
    for one in built:
        found["cycle"].append(cycle_row_of(one.cycle(), Run("tests", "run")))
        for table, rows in one.rows().items():
            if table == "topic_stats":
                found["topic_sums"] += topic_sums(one, rows)
            else:
                found[table] += [as_read(table, row) for row in rows]
    found["topic_hashes"] = []
    return dict(found)


def topic_sums(built: ClusterBuilder, topics: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Spark makes of the topics."""
    by_bundle: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for topic in topics:
        bundle = built.bundle_of_topic(topic["topic"])
        if bundle is not None:
            by_bundle[bundle].append(topic)
    at = built.at.isoformat(timespec="microseconds")
    return [
        {"cluster": built.name, "cycle_at": at, "bundle": bundle, **sums_of(rows)}
        for bundle, rows in sorted(by_bundle.items())
    ]


def sums_of(topics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums over a bundle's topics, none of them shown twice."""
    loaded = [topic for topic in topics if topic["observation"] == "loaded"]
    return {
        "topics": len(loaded),
        "listed_topics": len(topics),
        **{name: _total(topic[name] for topic in topics) for name in ("consumers", "producers")},
        "msg_backlog": _total(topic["msg_backlog"] for topic in topics)
        if all(topic["msg_backlog"] is not None for topic in loaded)
        else None,
        **{figure: exact_sum(topic[figure] for topic in topics) for figure in RATES},
        "has_non_persistent": any(topic["domain"] == "non-persistent" for topic in loaded),
        "all_known": all(topic[figure] is not None for topic in loaded for figure in RATES),
    }


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def some_cycles(dice: random.Random, count: int) -> list[ClusterBuilder]:
    """Consecutive cycles of a small cluster: bundles change owners, brokers fall silent, some bundles are over a limit
    and not split, and now and then a cycle's predecessor is missing, or settings, load manager and version change."""
    brokers = dice.choice([1, 2, 3])
    made: list[ClusterBuilder] = []
    for number in range(count):
        if not made or dice.random() < 0.15:
            manager = dice.choice(["modular", "modular", "extensible"])
            settings = {
                "evenkeelPulsarVersion": dice.choice(["4.x", "4.x", "5.0"]),
                "loadBalancerNamespaceBundleMaxTopics": dice.choice([1, 2]),
                "defaultNamespaceBundleSplitAlgorithm": "range_equally_divide",
                "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 1,
            }
        built = cluster("shop", brokers=brokers, at=NOON + timedelta(minutes=MINUTES * number))
        built.settings(**settings).policies(manager=manager).namespace("acme/web", bundles=3).namespace("acme/one")
        if dice.random() < 0.2:
            built.silent("b1:8080")
        if dice.random() < 0.3:
            built.owner(dice.choice(built.bundles()), dice.choice([None, "b1:8080"]))
        for topic in range(dice.randrange(8)):
            rates = {figure: dice.choice([0.1, 1 / 3, dice.uniform(0, 1e5)]) for figure in RATES}
            built.topic(f"persistent://acme/{dice.choice(['web', 'web', 'one'])}/t{topic}", **rates)
        if made and dice.random() < 0.9:
            earlier = dice.choice([*made[-2:], *[made[-1]] * 4])
            built.predecessor = Predecessor("used", earlier.at.isoformat(timespec="microseconds"), "attempt")
        made.append(built)
    return made
