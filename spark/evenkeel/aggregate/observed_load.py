"""From checked observations to the rows of bundle_load and broker_load, of all clusters at once.

Only the topic figures are read where they lie. Everything of the size of bundles or brokers is fetched once and handed
back to Spark as local rows: read from Delta in each of the ten places that need it, planning alone took several times
as long as the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from evenkeel.aggregate.broker_load import broker_load, reports_once
from evenkeel.aggregate.bundle_load import bundle_load, owners
from evenkeel.aggregate.topic_sums import (
    CYCLE,
    FIGURES,
    bundle_sums,
    bundles_in_force,
    bundles_with_rejected_topics,
    inherited,
    topics_once,
    with_bundle,
)

_TOPIC_COLUMNS = (
    *("namespace", "topic", "hash", "broker", "seen_on", "observation", "domain"),
    *("producers", "consumers", "msg_backlog"),
)


@dataclass(frozen=True, slots=True)
class Observed:
    """What aggregation rests on: the checked rows of three tables, all broker reports, the rejections if there are any,
    the predecessor's rows of bundle_load, and the bundles (cluster, bundle) that a command of late has upset.

    `children` (cluster, bundle, parent) are what splits of late have made, and `earlier_topics` the predecessor's rows
    of topic_stats of their namespaces: both are there, or neither. `quotas` are rows of resource_quotas, of clusters
    whose load manager starts from them; None if there are none.
    """

    topic_stats: DataFrame
    namespace_bundles: DataFrame
    bundle_ownership: DataFrame
    broker_reports: DataFrame
    previous: DataFrame
    rejected: DataFrame | None
    unsettled: DataFrame | None = None
    children: DataFrame | None = None
    earlier_topics: DataFrame | None = None
    quotas: DataFrame | None = None


def load_of(seen: Observed, weights: DataFrame) -> dict[str, DataFrame]:
    """The rows of `bundle_load` and `broker_load`, computed."""
    near = _fetched(seen)
    bundles = local(bundle_rows(near))
    return {"bundle_load": bundles, "broker_load": broker_load(near.broker_reports, near.rejected, bundles, weights)}


def bundle_rows(seen: Observed) -> DataFrame:
    """The rows of bundle_load."""
    bundles = local(bundles_in_force(seen.namespace_bundles, seen.bundle_ownership))
    owned = owners(bundles, seen.bundle_ownership, seen.broker_reports, seen.rejected)
    topics = with_bundle(seen.topic_stats.select(*CYCLE, *_TOPIC_COLUMNS, *FIGURES), bundles)
    # Topics are rarely seen twice, and the branch for them costs as much to plan as all the rest.
    if not seen.topic_stats.where("seen_on > 1").isEmpty():
        topics = topics_once(topics, owned)
    sums = local(bundle_sums(topics))
    cut_short = bundles_with_rejected_topics(seen.rejected, bundles) if seen.rejected is not None else None
    inherits = _inherited(seen, bundles)
    return bundle_load(owned, sums, cut_short, seen.previous, seen.unsettled, inherits, seen.quotas)


def _inherited(seen: Observed, bundles: DataFrame) -> DataFrame | None:
    if seen.children is None or seen.earlier_topics is None:
        return None
    topics = seen.earlier_topics.select(*CYCLE, *_TOPIC_COLUMNS, *FIGURES)
    return local(inherited(seen.children, seen.previous, topics, bundles))


def local(frame: DataFrame) -> DataFrame:
    """The frame's rows, computed once, as a frame that costs nothing to read again."""
    rows = frame.toArrow()
    return frame.sparkSession.createDataFrame(rows, from_arrow_schema(rows.schema))


def _fetched(seen: Observed) -> Observed:
    """The observed frames, all but the topic figures collected in parallel."""
    small: Mapping[str, DataFrame | None] = {
        "namespace_bundles": seen.namespace_bundles.select(*CYCLE, "namespace", "boundaries"),
        "bundle_ownership": seen.bundle_ownership,
        "broker_reports": reports_once(seen.broker_reports.drop("rest", "state_reason")),
        "previous": seen.previous,
        "rejected": seen.rejected,
        "quotas": seen.quotas,
    }
    asked = {name: frame for name, frame in small.items() if frame is not None}
    with ThreadPoolExecutor(len(asked)) as pool:
        return replace(seen, **dict(zip(asked, pool.map(local, asked.values()), strict=True)))
