"""Split algorithms by Pulsar's names, and the one that a broker uses.

Pulsar: NamespaceBundleSplitAlgorithm, NamespaceService. Keys: defaultNamespaceBundleSplitAlgorithm, and the three of
flow_or_qps_equally_divide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from evenkeel.errors import BadInput
from evenkeel.model.bundles import BundleRange
from evenkeel.model.split_algorithms import (
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)
from evenkeel.model.split_algorithms.split_option import NO_TOPICS, BundleTopics, Cut, SplitOption
from evenkeel.settings import Settings

Generation = Literal["4", "5"]
Algorithm = Callable[[SplitOption], Cut]

FLOW = "flow_or_qps_equally_divide"
SPECIFIED = "specified_positions_divide"
IMPLEMENTED: Mapping[str, Algorithm] = {
    "range_equally_divide": range_equally_divide.cut,
    "topic_count_equally_divide": topic_count_equally_divide.cut,
    SPECIFIED: specified_positions_divide.cut,
    FLOW: flow_or_qps_equally_divide.cut,
}
_MIB = 1_048_576


def algorithm_named(name: str) -> Algorithm:
    """Return the algorithm of that name; raises `BadInput` if Pulsar knows none."""
    algorithm = IMPLEMENTED.get(name)
    if algorithm is None:
        raise BadInput(f"unknown split algorithm {name!r}: Pulsar knows {', '.join(IMPLEMENTED)}")
    return algorithm


def name_in_force(requested: str, settings: Settings) -> str:
    """Return the algorithm a broker uses for a requested one: that one, else its default, else range_equally_divide."""
    names = (requested, settings.defaultNamespaceBundleSplitAlgorithm)
    return next((name for name in names if name in IMPLEMENTED), "range_equally_divide")


def option_of(
    bundle: BundleRange, settings: Settings, topics: BundleTopics = NO_TOPICS, positions: Sequence[int] | None = None
) -> SplitOption:
    """Return the input of an algorithm. Its throughput limit does not overflow, unlike in the choice of bundles."""
    return SplitOption(
        lower=bundle.lower,
        upper=bundle.upper,
        topics=topics,
        positions=positions,
        max_rate=settings.loadBalancerNamespaceBundleMaxMsgRate,
        max_throughput=settings.loadBalancerNamespaceBundleMaxBandwidthMbytes * _MIB,
        difference=settings.flowOrQpsDifferenceThresholdPercentage / 100,
    )


def cut_by_broker(requested: str, option: SplitOption, settings: Settings, generation: Generation = "4") -> Cut:
    """Return a broker's answer to a request to cut by an algorithm, which may be "" for its default.

    A broker of generation 4 chooses the kind of option by its default algorithm and not by the requested one. So a
    request for flow_or_qps_equally_divide fails if that is not its default.
    """
    name = name_in_force(requested, settings)
    if generation == "4" and name == FLOW and settings.defaultNamespaceBundleSplitAlgorithm != FLOW:
        return Cut((), "flow_is_not_default", failed=True)
    return algorithm_named(name)(option)
