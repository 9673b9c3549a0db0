"""LeastLongTermMessageRate: the rates that count, and who is overloaded."""

from evenkeel.model.averages import updated
from evenkeel.model.consideration import destination_of
from evenkeel.model.load import BundleStats, LoadData
from tests.place.clusters import NEW, best, place, rated, report, standing


def test_the_broker_with_the_least_long_term_rate_is_taken_and_the_reason_said() -> None:
    found = place(rated([report("b1:1"), report("b2:1"), report("b3:1")], [300.0, 100.0, 200.0]))
    assert found.destination == "b2:1"
    assert destination_of(found.considered) == "b2:1"
    assert found.considered.sentence() == (
        f"{NEW} goes to b2:1: of 3 candidates, it has the least long-term message rate, 100 msg/s."
    )


def test_article_a_broker_is_overloaded_above_the_threshold_only() -> None:
    """The article's INF score needs more than 85 %; exactly 85 % is not overloaded."""
    rates = {"b1:1": 1.0, "b2:1": 100.0}
    assert best(standing({"b1:1": 85.0, "b2:1": 10.0}, rates)) == ("b1:1",)
    assert best(standing({"b1:1": 86.0, "b2:1": 10.0}, rates)) == ("b2:1",)


def test_article_bundles_given_away_count_before_they_are_reported() -> None:
    """Not in the article: what was assigned and is in no report yet counts with its long-term rate."""
    load = standing({"b1:1": 10.0, "b2:1": 10.0}, {"b1:1": 100.0, "b2:1": 50.0})
    given = {"b2:1": {"t/x/0x00000000_0xffffffff": updated(None, BundleStats(msg_rate_in=60.0))}}
    assert best(LoadData(load.brokers, averages=load.averages, preallocated=given)) == ("b1:1",)
