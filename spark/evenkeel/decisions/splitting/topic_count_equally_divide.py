"""Cut a bundle so that both halves hold equally many topics (Pulsar: TopicCountEquallyDivideBundleSplitAlgorithm)."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.decisions.splitting.cut import Cut


def cut(lower: int, upper: int, sorted_hashes: Sequence[int]) -> Cut:
    """One cut half-way between the two middle hashes; none for fewer than two topics.

    `sorted_hashes`: hashes of all topics of the bundle, ascending, not only of the loaded ones. Where the two middle
    hashes are equal or neighbours the cut lies on the left one, whose topic then goes right. A cut at `lower` is
    possible and refused later (`execute`).
    """
    count = len(sorted_hashes)
    if count <= 1:
        return Cut((), "too_few_topics")
    left, right = sorted_hashes[max(count // 2 - 1, 0)], sorted_hashes[count // 2]
    return Cut((left + (right - left) // 2,), "middle_topic")
