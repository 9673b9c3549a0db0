"""Where range_equally_divide cuts, by the pages' examples."""

from evenkeel.model.split_algorithms import range_equally_divide
from evenkeel.model.split_algorithms.split_option import SplitOption


def test_concepts_range_equally_divide() -> None:
    assert range_equally_divide.cut(SplitOption(0x00000000, 0x80000000)).positions == (0x40000000,)


def test_article_halves_of_the_full_range_are_not_round() -> None:
    """The pages halve a namespace at 0x80000000; the class cuts the one full bundle at 0x7fffffff."""
    assert range_equally_divide.cut(SplitOption(0, 0xFFFFFFFF)).positions == (0x7FFFFFFF,)
