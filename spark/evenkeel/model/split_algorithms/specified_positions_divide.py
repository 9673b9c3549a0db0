"""Cut a bundle at given positions (Pulsar: SpecifiedPositionsBundleSplitAlgorithm)."""

from __future__ import annotations

from evenkeel.model.split_algorithms.split_option import Cut, SplitOption


def cut(option: SplitOption) -> Cut:
    """Return a cut at each position strictly inside the bundle, ascending; positions outside are dropped without an
    error.

    Without positions Pulsar raises. With fewer than two topics, loaded or not, nothing is cut. A position given twice
    stays twice, and the split is refused later (`apply_split`).
    """
    if not option.positions:
        return Cut((), "no_positions", failed=True)
    if len(option.topics.hashes) <= 1:
        return Cut((), "too_few_topics")
    inside = tuple(sorted(position for position in option.positions if option.lower < position < option.upper))
    return Cut(inside, "specified_positions" if inside else "no_position_inside")
