"""What holds for every split algorithm: which one a broker cuts by, and what none of them can cut."""

import pytest

from evenkeel.errors import BadInput
from evenkeel.model.bundles import FULL_RANGE, BundleRange
from evenkeel.model.split_algorithms import FLOW, IMPLEMENTED, algorithm_named, cut_by_broker, option_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, TopicLoads
from evenkeel.settings import Settings


def test_a_4_x_broker_cuts_by_flow_only_where_that_is_its_default_and_a_5_0_broker_always() -> None:
    busy = BundleTopics([10, 20], TopicLoads.of([(10, 40_000.0, 0.0), (20, 40_000.0, 0.0)]))
    by_default = Settings(defaultNamespaceBundleSplitAlgorithm=FLOW)
    option = option_of(FULL_RANGE, Settings(), busy)
    assert cut_by_broker(FLOW, option, Settings(), "4") == Cut((), "flow_is_not_default", failed=True)
    assert cut_by_broker(FLOW, option, Settings(), "5").positions == (16,)
    assert cut_by_broker(FLOW, option, by_default, "4").positions == (16,)
    assert cut_by_broker("", option, by_default, "4").positions == (16,)


def test_an_algorithm_that_nobody_knows_is_the_default_for_a_broker_and_bad_input_by_name() -> None:
    assert cut_by_broker("by_the_moon", option_of(BundleRange(0, 4), Settings()), Settings()).positions == (2,)
    with pytest.raises(BadInput, match="by_the_moon.*" + "range_equally_divide"):
        algorithm_named("by_the_moon")
    assert len(IMPLEMENTED) == 4


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_a_bundle_of_width_1_has_no_cut_inside_by_any_algorithm(name: str) -> None:
    loads = TopicLoads((7, 7), (40_000.0, 40_000.0), (1.0, 1.0))
    found = algorithm_named(name)(option_of(BundleRange(7, 8), Settings(), BundleTopics((7, 7), loads), [7, 8]))
    assert not [position for position in found.positions if 7 < position < 8]
