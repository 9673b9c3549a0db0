"""Cut a bundle so that both halves hold equally many topics (Pulsar: TopicCountEquallyDivideBundleSplitAlgorithm)."""

from __future__ import annotations

from evenkeel.model.split_algorithms.split_option import Cut, SplitOption


def cut(option: SplitOption) -> Cut:
    """Return one cut half-way between the two middle hashes; none for fewer than two topics.

    All topics of the bundle count, not only the loaded ones. If the two middle hashes are equal or neighbours, the cut
    is on the left one, whose topic then goes right. A cut at `lower` is possible and refused later (`execute`).
    """
    hashes = option.topics.hashes
    count = len(hashes)
    if count <= 1:
        return Cut((), "too_few_topics")
    left, right = hashes[max(count // 2 - 1, 0)], hashes[count // 2]
    return Cut((left + (right - left) // 2,), "middle_topic")
