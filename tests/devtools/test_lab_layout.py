import pytest

from devtools.lab.layout import Layout, skewed
from evenkeel.model.bundles import bundle_of, initial_boundaries, topic_hash

BROKERS = ("127.0.0.1:8080", "127.0.0.2:8080", "127.0.0.3:8080")


def planned_share(layout: Layout, broker: str) -> float:
    total = sum(bundle.rate for bundle in layout.bundles)
    return sum(bundle.rate for bundle in layout.bundles if bundle.broker == broker) / total


def test_every_topic_lies_in_the_bundle_that_it_is_planned_for() -> None:
    layout = skewed("acme", BROKERS)
    assert len({topic.name for topic in layout.topics}) == len(layout.topics)
    for bundle in layout.bundles:
        boundaries = initial_boundaries(layout.bundle_counts[bundle.namespace])
        assert bundle.topics
        for topic in bundle.topics:
            assert topic.name.startswith(f"persistent://{bundle.namespace}/")
            assert bundle_of(boundaries, topic_hash(topic.name)) == bundle.range


def test_the_first_broker_and_one_of_its_bundles_carry_what_was_asked_for() -> None:
    layout = skewed("acme", BROKERS, rate=1000.0, hot_broker_share=0.7, hot_bundle_share=0.24)
    assert sum(topic.rate for topic in layout.topics) == pytest.approx(1000.0)
    assert planned_share(layout, BROKERS[0]) == pytest.approx(0.7, abs=0.03)
    assert layout.hottest.rate == pytest.approx(240.0)
    assert layout.hottest.broker == BROKERS[0]
    second = sorted(bundle.rate for bundle in layout.bundles)[-2]
    assert second < 60.0


def test_a_split_in_the_middle_of_the_hot_bundle_halves_it() -> None:
    hottest = skewed("acme", BROKERS).hottest
    middle = hottest.range.lower + hottest.range.width // 2
    lower = sum(topic.rate for topic in hottest.topics if topic_hash(topic.name) < middle)
    assert lower == pytest.approx(hottest.rate / 2)


def test_apart_namespaces_share_a_group_and_begin_on_brokers_of_their_own() -> None:
    layout = skewed("acme", BROKERS, apart=3)
    assert set(layout.groups.values()) == {"acme-apart"}
    found = [bundle.broker for bundle in layout.bundles if bundle.namespace in layout.groups]
    assert sorted(filter(None, found)) == sorted(BROKERS)
