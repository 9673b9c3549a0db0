"""Splits of one cluster in one cycle (Pulsar: ModularLoadManagerImpl.checkNamespaceBundleSplit)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.decisions.bundles import namespace_of, range_of
from evenkeel.decisions.considered import Considered
from evenkeel.decisions.load import LoadData
from evenkeel.decisions.placement.gates import unload_gates
from evenkeel.decisions.splitting.cut import BundleTopics, PlannedSplit, TopicLoads
from evenkeel.decisions.splitting.execute import carry_out
from evenkeel.decisions.splitting.when import SplitPlan, decide_splits_by
from evenkeel.rounds import over_limits, reading, wishes
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import named, reason_row, telling
from evenkeel.rounds.shared import acts_only
from evenkeel.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STRATEGY = "BundleSplitterTask"
BY_RANGE = "range_equally_divide"
_LAST = 0xFFFFFFFF
_UNCUT = {"algorithm": None, "cuts": None, "children": None, "unload_children": None}


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `split_decisions`: every bundle considered, the chosen ones with cuts and children, and every wish."""
    settings, topics = reading.settings_of(rows), topics_of(rows)
    planned = plan(rows)
    if not planned.splits:
        return {"split_decisions": decision_rows(rows, planned.considered, {}, topics, STRATEGY)}
    gates = unload_gates(_load(rows), reading.policies(rows), settings)
    made = carry_out(planned, reading.boundaries(rows), topics, gates, settings)
    splits = {split.bundle: split for split in made.splits}
    return {"split_decisions": decision_rows(rows, made.considered, splits, topics, STRATEGY)}


def decision_rows(
    rows: Rows,
    verdicts: Sequence[Considered],
    splits: Mapping[str, PlannedSplit],
    topics: dict[str, BundleTopics],
    strategy: str,
) -> list[dict[str, Any]]:
    """The rows of a rule's verdicts, and those of wishes. A bundle that a wish is granted for is left to the wish."""
    cycle = reading.the_cycle(rows)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    wished = wishes.granted_splits(rows, topics)
    taken = {one.verdict.subject for _, one in wished if one.accepted}
    told = [named(row, cycle["cluster"]) for row in telling(wishes.left_to_wishes([*verdicts], taken), rows)]
    found = [_row(row, strategy, splits.get(row.subject) if row.outcome == "split" else None, stamp) for row in told]
    found += [_row(one.verdict, wishes.STRATEGY, one.split, stamp, wish["wish_id"]) for wish, one in wished]
    return found


def _row(
    verdict: Considered, strategy: str, split: PlannedSplit | None, stamp: Row, wish_id: str | None = None
) -> dict[str, Any]:
    row = reason_row(verdict, strategy, wish_id)
    row.update(_UNCUT if split is None else _where(split))
    row.update(stamp)
    return row


def choose(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """The bundles that are over a limit or wished to be split, with their ranges, whose topics have to be looked at."""
    settings = reading.settings_of(rows)
    over = plan(rows).splits if settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE else {}
    return {"chosen": chosen_rows({**over, **dict(wishes.bundles_to_look_into(rows, settings))})}


def chosen_rows(chosen: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Rows of `chosen_type`, of bundles with their owners."""
    return [_range_row(bundle, owner) for bundle, owner in sorted(chosen.items())]


def chosen_type() -> StructType:
    """The schema of what `choose` gives."""
    from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

    texts = [StructField(name, StringType()) for name in ("cluster", "namespace", "bundle", "owner")]
    return StructType(
        [
            *texts,
            StructField("lower", LongType()),
            StructField("upper", LongType()),
            StructField("is_last", BooleanType()),
        ]
    )


def cuts_by_topics(settings: Settings, wished: Iterable[Row]) -> bool:
    """Whether the split algorithm in force, or that of one of the wishes of the cycle, looks at a bundle's topics."""
    return settings.defaultNamespaceBundleSplitAlgorithm != BY_RANGE or any(
        wish["kind"] == wishes.SPLIT and wishes.looks_at_topics(wish, settings) for wish in wished
    )


def topics_of(rows: Rows) -> dict[str, BundleTopics]:
    """Bundle to its topics, of those bundles whose topics were asked for."""
    return {
        row["bundle"]: BundleTopics(
            row["hashes"], TopicLoads(row["loaded_hashes"], row["loaded_rates"], row["loaded_throughputs"])
        )
        for row in rows["topic_hashes"]
    }


def plan(rows: Rows) -> SplitPlan:
    """Which bundles are over a limit."""
    settings, known = reading.settings_of(rows), reading.histories(rows)
    brokers = reading.broker_reports(rows)
    if acts_only(rows):
        brokers = over_limits.by_history(rows, brokers, known, settings)
    return decide_splits_by(brokers, known.long_term, reading.bundle_counts(rows), settings)


def _load(rows: Rows) -> LoadData:
    return LoadData(brokers=reading.broker_reports(rows), histories=reading.histories(rows))


def _range_row(bundle: str, owner: str | None) -> dict[str, Any]:
    found = range_of(bundle)
    return {
        "namespace": namespace_of(bundle),
        "bundle": bundle,
        "owner": owner,
        "lower": found.lower,
        "upper": found.upper,
        "is_last": found.upper == _LAST,
    }


def _where(split: PlannedSplit) -> dict[str, Any]:
    return {
        "algorithm": split.algorithm,
        "cuts": list(split.cuts),
        "children": list(split.children),
        "unload_children": split.unload,
    }
