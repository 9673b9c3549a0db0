"""Cut a busy bundle into as many pieces as its traffic takes (Pulsar: FlowOrQpsEquallyDivideBundleSplitAlgorithm).

Keys: loadBalancerNamespaceBundleMaxMsgRate, loadBalancerNamespaceBundleMaxBandwidthMbytes,
flowOrQpsDifferenceThresholdPercentage. One call gives all cuts. A gate comes first: without one of the bundle's two
totals at (1 + difference) times its limit nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from evenkeel.model.split_algorithms.split_option import Cut, SplitOption, TopicLoads


def cut(option: SplitOption) -> Cut:
    """Return cuts between topics, so that no piece is above a limit unless a single topic is; none below the gate.

    Topics without stats or traffic count for nothing. A piece may reach a limit exactly. Of topics that share a hash
    the last one's figures count for each of them, and a cut between them is placed right of them. So positions may
    repeat or equal `upper`: such a split is refused later (`apply_split`).
    """
    if len(option.topics.hashes) <= 1:
        return Cut((), "too_few_topics")
    busy = _with_traffic(option.topics.loads)
    if not busy.hashes or min(busy.hashes) == max(busy.hashes):
        return Cut((), "too_few_busy_topics")
    gate = 1 + option.difference
    if _total(busy.rates) < option.max_rate * gate and _total(busy.throughputs) < option.max_throughput * gate:
        return Cut((), "traffic_below_gate")
    positions = _between_pieces(_ordered(busy), option.max_rate, option.max_throughput)
    return Cut(positions, "traffic" if positions else "one_piece")


# A bundle may hold 100,000 topics: columns and C loops take a third of the time of a tuple for each topic.


def _with_traffic(loads: TopicLoads) -> TopicLoads:
    busy = [
        not (rate <= 0 and throughput <= 0) for rate, throughput in zip(loads.rates, loads.throughputs, strict=True)
    ]
    if all(busy):
        return loads
    rates, throughputs = (list(compress(column, busy)) for column in (loads.rates, loads.throughputs))
    return TopicLoads(list(compress(loads.hashes, busy)), rates, throughputs)


def _total(figures: Sequence[float]) -> float:
    """Return the sum, added one after the other as Pulsar does; Python's own sum compensates rounding."""
    total = 0.0
    for figure in figures:
        total += figure
    return total


def _ordered(busy: TopicLoads) -> TopicLoads:
    """Return the topics by hash; if several share one, each has the figures of the last of them."""
    order = sorted(range(len(busy.hashes)), key=busy.hashes.__getitem__)
    hashes = list(map(busy.hashes.__getitem__, order))
    rates, throughputs = (list(map(column.__getitem__, order)) for column in (busy.rates, busy.throughputs))
    if len(set(hashes)) < len(hashes):
        last_rate, last_throughput = dict(zip(hashes, rates, strict=True)), dict(zip(hashes, throughputs, strict=True))
        return TopicLoads(
            hashes,
            [last_rate[topic_hash] for topic_hash in hashes],
            [last_throughput[topic_hash] for topic_hash in hashes],
        )
    return TopicLoads(hashes, rates, throughputs)


def _between_pieces(topics: TopicLoads, max_rate: float, max_throughput: float) -> tuple[int, ...]:
    """Return a cut before each topic that would take the piece gathered so far above a limit."""
    positions = []
    ordered = zip(topics.hashes, topics.rates, topics.throughputs, strict=True)
    left, piece_rate, piece_throughput = next(ordered)
    for right, rate, throughput in ordered:
        piece_rate += rate
        piece_throughput += throughput
        if piece_rate > max_rate or piece_throughput > max_throughput:
            positions.append(left + (right - left) // 2 + 1)
            piece_rate, piece_throughput = rate, throughput
        left = right
    return tuple(positions)
