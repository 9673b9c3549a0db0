"""Where topic_count_equally_divide cuts: the pages' examples, and what must hold for any topics."""

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.model.split_algorithms import topic_count_equally_divide
from evenkeel.model.split_algorithms.split_option import BundleTopics, SplitOption

hashes = st.one_of(st.integers(0, HIGHEST_HASH), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, HIGHEST_HASH]))


@given(found=st.lists(hashes, min_size=2, max_size=30))
def test_topic_count_cut_leaves_at_most_half_of_the_topics_left_of_it(found: list[int]) -> None:
    ordered = sorted(found)
    (cut,) = topic_count_equally_divide.cut(SplitOption(0, HIGHEST_HASH, BundleTopics(ordered))).positions
    assert sum(h < cut for h in ordered) <= len(ordered) // 2
    assert ordered[0] <= cut <= ordered[-1]


def test_one_topic_or_none_is_not_cut_by_topic_count() -> None:
    assert topic_count_equally_divide.cut(SplitOption(0, 100)).positions == ()
    assert topic_count_equally_divide.cut(SplitOption(0, 100, BundleTopics([7]))).positions == ()
