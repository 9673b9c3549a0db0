"""Split algorithms by Pulsar's names.

Pulsar: NamespaceBundleSplitAlgorithm, NamespaceService. Key: defaultNamespaceBundleSplitAlgorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evenkeel.decisions.splitting import range_equally_divide, topic_count_equally_divide
from evenkeel.decisions.splitting.cut import Cut
from evenkeel.errors import BadInput, NotImplementedStrategy
from evenkeel.settings import Settings

Algorithm = Callable[[int, int, Sequence[int]], Cut]

IMPLEMENTED: Mapping[str, Algorithm] = {
    "range_equally_divide": range_equally_divide.cut,
    "topic_count_equally_divide": topic_count_equally_divide.cut,
}
KNOWN_TO_PULSAR = (*IMPLEMENTED, "specified_positions_divide", "flow_or_qps_equally_divide")


def algorithm_named(name: str) -> Algorithm:
    """The algorithm of that name; `NotImplementedStrategy` for those of Pulsar's that are missing, else `BadInput`."""
    found = IMPLEMENTED.get(name)
    if found is not None:
        return found
    if name in KNOWN_TO_PULSAR:
        raise NotImplementedStrategy(f"split algorithm {name} is not implemented: use {' or '.join(IMPLEMENTED)}")
    raise BadInput(f"unknown split algorithm {name!r}: Pulsar knows {', '.join(KNOWN_TO_PULSAR)}")


def name_in_force(asked: str, settings: Settings) -> str:
    """The algorithm a broker uses when asked for one: that one, else its default, else range_equally_divide."""
    names = (asked, settings.defaultNamespaceBundleSplitAlgorithm)
    return next((name for name in names if name in KNOWN_TO_PULSAR), "range_equally_divide")
