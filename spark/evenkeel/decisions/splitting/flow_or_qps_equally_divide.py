"""Cut a busy bundle into as many pieces as its traffic takes (Pulsar: FlowOrQpsEquallyDivideBundleSplitAlgorithm).

Keys: loadBalancerNamespaceBundleMaxMsgRate, loadBalancerNamespaceBundleMaxBandwidthMbytes,
flowOrQpsDifferenceThresholdPercentage. One call gives all cuts. A gate comes first: without one of the bundle's two
totals at (1 + difference) times its limit nothing is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenkeel.decisions.splitting.cut import Cut, SplitOption

_Loads = Mapping[int, tuple[float, float]]


def cut(option: SplitOption) -> Cut:
    """Cuts between topics, so that no piece is above a limit unless a single topic is; none below the gate.

    Topics without stats or traffic count for nothing. A piece may reach a limit exactly. Of topics that share a hash
    the last one's figures count for each of them, and a cut between them lies right of them, so that positions may
    repeat or lie at `upper`: such a split is refused later (`apply_split`).
    """
    if len(option.topics.hashes) <= 1:
        return Cut((), "too_few_topics")
    hashes, loads, rate, throughput = _busy(option)
    if len(loads) < 2:
        return Cut((), "too_few_busy_topics")
    gate = 1 + option.difference
    if rate < option.max_rate * gate and throughput < option.max_throughput * gate:
        return Cut((), "traffic_below_gate")
    positions = _between_pieces(sorted(hashes), loads, option)
    return Cut(positions, "traffic" if positions else "one_piece")


def _busy(option: SplitOption) -> tuple[list[int], _Loads, float, float]:
    """Hashes of topics with traffic, the loads by hash, and the two totals: one pass, as a bundle may hold 100,000."""
    loads: dict[int, tuple[float, float]] = {}
    hashes: list[int] = []
    total_rate = total_throughput = 0.0
    columns = option.topics.loads
    for topic, rate, throughput in zip(columns.hashes, columns.rates, columns.throughputs, strict=True):
        if rate <= 0 and throughput <= 0:
            continue
        hashes.append(topic)
        loads[topic] = (rate, throughput)
        total_rate += rate
        total_throughput += throughput
    return hashes, loads, total_rate, total_throughput


def _between_pieces(hashes: Sequence[int], loads: _Loads, option: SplitOption) -> tuple[int, ...]:
    """A cut before each topic that would take the piece gathered so far above a limit."""
    max_rate, max_throughput = option.max_rate, option.max_throughput
    positions = []
    left = hashes[0]
    piece_rate, piece_throughput = loads[left]
    for right in hashes[1:]:
        rate, throughput = loads[right]
        with_rate, with_throughput = piece_rate + rate, piece_throughput + throughput
        if with_rate > max_rate or with_throughput > max_throughput:
            positions.append(left + (right - left) // 2 + 1)
            piece_rate, piece_throughput = rate, throughput
        else:
            piece_rate, piece_throughput = with_rate, with_throughput
        left = right
    return tuple(positions)
