"""An operator's wishes, held to what Pulsar's admin operations do and refuse."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.manual_requests.request import ClusterView, Granted, SplitWish, UnloadWish
from evenkeel.manual_requests.split import grant_split
from evenkeel.manual_requests.unload import bundle_left_to, grant_topic_unload, grant_unload
from evenkeel.model.averages import updated
from evenkeel.model.bundles import bundle_name, initial_boundaries, range_of, ranges_of
from evenkeel.model.load import BundleStats
from evenkeel.model.split_algorithms.split_option import BundleTopics, TopicLoads
from evenkeel.model.topics import topic_hash
from evenkeel.settings import Settings
from evenkeel.settings.keys.balancing import SPLIT_ALGORITHMS
from tests.bundle_ranges import validate_ranges

FIRST, SECOND, THIRD, LAST = (str(found) for found in ranges_of(initial_boundaries(4)))
BROKERS = frozenset({"b1:8080", "b2:8080"})
TWO = BundleTopics([0x10000000, 0x20000000])
SPECIFIED = "specified_positions_divide"


def named(text: str) -> str:
    return bundle_name("t/n", text)


def view(**more: Any) -> ClusterView:
    known: dict[str, Any] = {
        "manager": "modular",
        "generation": "4",
        "boundaries": {"t/n": initial_boundaries(4)},
        "owners": {named(found): "b1:8080" for found in (FIRST, SECOND, LAST)},
        "brokers": BROKERS,
        "topics": {named(FIRST): TWO},
    }
    return ClusterView(**(known | more))


EXTENSIBLE = view(manager="extensible")


def split(wish: SplitWish, around: ClusterView | None = None, **values: Any) -> Granted:
    return told(grant_split(wish, around or view(), Settings().with_values(values)))


def unload(wish: UnloadWish, around: ClusterView | None = None) -> Granted:
    return told(grant_unload(wish, around or view()))


def told(made: Granted) -> Granted:
    """Every verdict has a sentence of its own, and what is done agrees with it."""
    row = made.verdict
    assert "None" not in row.sentence()
    assert "unknown figure" not in row.sentence()
    assert (made.split is not None) == (row.outcome == "split")
    assert made.accepted == (row.outcome != "refused")
    return made


def refusal(made: Granted) -> tuple[str, float]:
    assert not made.accepted
    return made.verdict.rule, made.verdict.numbers["http_status"]


def wish(bundle: str = FIRST, **more: Any) -> SplitWish:
    return SplitWish("t/n", bundle, **more)


def test_a_split_that_was_wished_for_needs_no_limit_to_be_exceeded() -> None:
    made = split(wish(unload=True))
    assert made.split is not None
    assert (made.split.broker, made.split.cuts, made.split.unload) == ("b1:8080", (0x20000000,), True)
    assert made.verdict.sentence() == (
        "t/n/0x00000000_0x40000000 is split into 2 bundles, as requested; the children are unloaded at once."
    )


def test_the_extensible_manager_ignores_the_wish_to_unload_and_says_so() -> None:
    made = split(wish(unload=True), EXTENSIBLE)
    assert made.split is not None
    assert not made.split.unload
    assert "the extensible manager does not unload them" in made.verdict.sentence()


@pytest.mark.parametrize(
    ("made", "rule", "status"),
    [
        (split(SplitWish("t/other", FIRST)), "wish_no_namespace", 404),
        (split(wish("0x00000000")), "wish_no_range", 412),
        (split(wish("largest")), "wish_no_range", 412),
        (split(wish("0x00000000_0x20000000")), "wish_no_bundle", 412),
        (split(wish("0x00000001_0x40000000")), "wish_no_bundle", 412),
        (split(wish("LARGEST")), "wish_nothing_large", 404),
        (split(wish("HOT")), "wish_nothing_hot", 404),
        (split(wish("HOT"), EXTENSIBLE), "wish_nothing_large", 404),
        (split(wish(algorithm="by_the_moon")), "wish_algorithm_unsupported", 412),
        (split(wish(algorithm=SPECIFIED)), "wish_no_positions", 412),
        (split(wish(), view(splitting={named(FIRST)})), "wish_split_already", 409),
        (unload(UnloadWish("t/other", FIRST)), "wish_no_namespace", 404),
        (unload(UnloadWish("t/n", "0x00000000")), "wish_no_range", 500),
        (unload(UnloadWish("t/n", "LARGEST")), "wish_no_range", 500),
        (unload(UnloadWish("t/n", "0x00000000_0x20000000")), "wish_no_bundle", 412),
        (unload(UnloadWish("t/n", FIRST, "b3:8080")), "wish_no_such_broker", 409),
        (unload(UnloadWish("t/n", FIRST, "b2")), "wish_no_such_broker", 409),
        (unload(UnloadWish("t/n", FIRST, "b2:8080"), view(silent={"b2:8080"})), "wish_broker_silent", 204),
        (unload(UnloadWish("t/n", THIRD)), "wish_unowned", 204),
        (unload(UnloadWish("t/n", THIRD, "b2:8080")), "wish_unowned", 204),
        (unload(UnloadWish("t/n", FIRST), view(splitting={named(FIRST)})), "wish_split_already", 500),
        (unload(UnloadWish("t/n", FIRST, "b1:8080"), EXTENSIBLE), "wish_there_already", 500),
    ],
)
def test_what_pulsar_refuses_is_refused_with_its_own_answer(made: Granted, rule: str, status: int) -> None:
    assert refusal(made) == (rule, status)


def test_an_algorithm_that_brokers_do_not_support_is_refused_though_it_is_one_of_pulsars() -> None:
    some = ("range_equally_divide",)
    made = split(wish(algorithm="topic_count_equally_divide"), supportedNamespaceBundleSplitAlgorithms=some)
    assert refusal(made) == ("wish_algorithm_unsupported", 412)
    assert split(wish(algorithm=" "), supportedNamespaceBundleSplitAlgorithms=some).accepted


def test_positions_are_kept_where_they_are_inside_and_ignored_by_other_algorithms() -> None:
    made = split(wish(algorithm=SPECIFIED, positions=(0x30000000, 0x10, 0x40000000)))
    assert made.split is not None
    assert (made.split.cuts, len(made.split.children)) == ((0x10, 0x30000000), 3)
    other = split(wish(algorithm="range_equally_divide", positions=(0x10,)))
    assert other.split is not None
    assert other.split.cuts == (0x20000000,)
    assert refusal(split(wish(algorithm=SPECIFIED, positions=(0x40000000,)))) == ("wish_no_position_inside", 204)
    assert refusal(split(wish(algorithm=SPECIFIED, positions=(7, 7)))) == ("wish_cut_twice", 412)
    by_topics = split(wish(algorithm="topic_count_equally_divide"), view(topics={named(FIRST): BundleTopics([0, 0])}))
    assert refusal(by_topics) == ("wish_cut_outside_bundle", 412)


def test_the_extensible_manager_makes_exactly_one_cut() -> None:
    for positions in ((0x10, 0x20), (7, 7)):
        made = split(wish(algorithm=SPECIFIED, positions=positions), EXTENSIBLE)
        assert refusal(made) == ("wish_more_than_one_cut", 412)
    assert split(wish(algorithm=SPECIFIED, positions=(0x10,)), EXTENSIBLE).accepted


def test_nothing_to_split_is_204_of_the_modular_manager_and_500_of_the_extensible_one() -> None:
    one = {"topics": {named(FIRST): BundleTopics([5])}}
    by_count = wish(algorithm="topic_count_equally_divide")
    assert refusal(split(by_count, view(**one))) == ("wish_too_few_topics", 204)
    assert refusal(split(by_count, view(manager="extensible", **one))) == ("wish_too_few_topics", 500)


def test_flow_needs_to_be_the_default_of_a_4_x_broker() -> None:
    loads = TopicLoads.of([(0x10000000, 40_000.0, 0.0), (0x20000000, 40_000.0, 0.0)])
    busy = {"topics": {named(FIRST): BundleTopics(TWO.hashes, loads)}}
    by_flow = wish(algorithm="flow_or_qps_equally_divide")
    assert refusal(split(by_flow, view(**busy))) == ("wish_flow_is_not_default", 500)
    assert split(by_flow, view(generation="5", **busy)).accepted
    default = {"defaultNamespaceBundleSplitAlgorithm": "flow_or_qps_equally_divide"}
    assert split(by_flow, view(**busy), **default).accepted
    calm = {"topics": {named(FIRST): BundleTopics(TWO.hashes, TopicLoads.of([(1, 1.0, 0.0), (2, 1.0, 0.0)]))}}
    assert refusal(split(wish(), view(**calm), **default)) == ("wish_traffic_below_gate", 204)


def test_a_bundle_that_nobody_owns_is_taken_and_split() -> None:
    made = split(wish(THIRD))
    assert made.verdict.broker is None
    assert "no broker owns it, so one takes it first" in made.verdict.sentence()


def test_the_maximum_of_bundles_does_not_hold_a_wish_back_but_is_mentioned() -> None:
    at_most = {"loadBalancerNamespaceMaximumBundles": 4}
    text = split(wish(), **at_most).verdict.sentence()
    assert "then has 5 bundles, more than the 4 that automatic splits keep to" in text
    assert "automatic" not in split(wish(), loadBalancerNamespaceMaximumBundles=5).verdict.sentence()


def test_largest_is_the_bundle_with_most_persistent_topics_the_first_of_equal_ones() -> None:
    counts = {named(FIRST): 1, named(SECOND): 3, named(LAST): 3}
    assert split(wish("LARGEST"), view(persistent_topics=counts)).verdict.subject == named(SECOND)
    assert split(wish("HOT"), view(manager="extensible", persistent_topics=counts)).verdict.subject == named(SECOND)


def test_hot_is_the_bundle_with_topics_and_the_highest_long_term_throughput() -> None:
    figures = {FIRST: (3, 1.0), SECOND: (3, 5.0), LAST: (0, 9.0)}
    histories = {
        named(found): updated(None, BundleStats(topics=topics, msg_throughput_in=throughput))
        for found, (topics, throughput) in figures.items()
    }
    assert split(wish("HOT"), view(histories=histories)).verdict.subject == named(SECOND)


def test_an_unload_goes_where_it_was_wished_to_go() -> None:
    for destination in ("b2:8080", "http://b2:8080", "https://b2:8080"):
        made = unload(UnloadWish("t/n", FIRST, destination))
        assert (made.verdict.rule, made.destination) == ("wish_with_destination", "b2:8080")
    for nothing in (None, "", " "):
        assert unload(UnloadWish("t/n", FIRST, nothing)).destination is None


def test_an_unload_to_where_the_bundle_is_comes_back_with_the_modular_manager() -> None:
    made = unload(UnloadWish("t/n", FIRST, "b1:8080"))
    assert made.accepted
    assert "comes back" in made.verdict.sentence()


def test_the_extensible_manager_takes_the_end_of_the_owners_id_for_the_owner() -> None:
    long = replace(EXTENSIBLE, owners={named(FIRST): "ab1:8080"}, brokers={"ab1:8080", "b1:8080"})
    assert refusal(unload(UnloadWish("t/n", FIRST, "b1:8080"), long)) == ("wish_there_already", 500)


def test_the_extensible_manager_leaves_a_brokers_own_namespace_alone() -> None:
    own = "pulsar/b1:8080"
    around = {"boundaries": {own: initial_boundaries(1)}, "owners": {f"{own}/0x00000000_0xffffffff": "b1:8080"}}
    wanted = UnloadWish(own, "0x00000000_0xffffffff")
    assert refusal(unload(wanted, view(manager="extensible", **around))) == ("wish_brokers_own_namespace", 204)
    assert unload(wanted, view(**around)).accepted


def test_a_broker_that_was_meant_is_named() -> None:
    made = unload(UnloadWish("t/n", FIRST, "b2"))
    assert made.verdict.sentence().endswith("perhaps b2:8080 was meant (Pulsar's answer: HTTP 409).")


bounds = st.lists(st.integers(1, 200), max_size=4, unique=True).map(lambda inner: (0, *sorted(inner), 0xFFFFFFFF))


@given(
    limits=bounds,
    data=st.data(),
    manager=st.sampled_from(["modular", "extensible"]),
    algorithm=st.sampled_from(["", *SPLIT_ALGORITHMS]),
    positions=st.lists(st.integers(0, 210), max_size=4),
)
def test_children_of_a_wish_cover_the_parent_exactly_whatever_was_wished(
    limits: tuple[int, ...], data: st.DataObject, manager: Any, algorithm: str, positions: list[int]
) -> None:
    found = data.draw(st.sampled_from(ranges_of(limits)))
    topics = sorted(data.draw(st.lists(st.integers(found.lower, min(found.upper, 210)), max_size=6)))
    loads = TopicLoads.of([(topic, 700.0, 0.0) for topic in topics])
    bundle = bundle_name("t/n", found)
    around = view(
        manager=manager,
        generation="5",
        boundaries={"t/n": limits},
        owners={bundle: "b1:8080"},
        topics={bundle: BundleTopics(topics, loads)},
    )
    wanted = SplitWish("t/n", str(found), algorithm, tuple(positions))
    made = split(wanted, around, loadBalancerNamespaceBundleMaxMsgRate=1_000)
    assert split(replace(wanted, positions=tuple(reversed(positions))), around,
                 loadBalancerNamespaceBundleMaxMsgRate=1_000) == made  # fmt: skip
    if made.split is None:
        return
    assert all(found.lower < cut < found.upper for cut in made.split.cuts)
    assert list(made.split.cuts) == sorted(set(made.split.cuts))
    children = [range_of(child) for child in made.split.children]
    assert (children[0].lower, children[-1].upper) == (found.lower, found.upper)
    others = [one for one in ranges_of(limits) if one != found]
    assert validate_ranges([*others, *children]) == []
    assert manager == "modular" or len(children) == 2


# Topics: PersistentTopicsBase.internalUnloadTopic.


def topic_in(found: str) -> str:
    inside = (f"persistent://t/n/topic-{number}" for number in range(1_000))
    return next(name for name in inside if range_of(named(found)).includes(topic_hash(name)))


def test_a_topic_is_unloaded_at_the_owner_of_the_bundle_that_its_hash_lies_in() -> None:
    for found in (FIRST, SECOND, LAST):
        made = told(grant_topic_unload(topic_in(found), view()))
        assert (made.verdict.subject_kind, made.verdict.rule, made.verdict.broker) == ("topic", "wish_topic", "b1:8080")
        assert bundle_left_to(made.verdict) == named(found)


def test_a_topic_is_left_alone_where_its_bundle_is_not_there_to_stay() -> None:
    one, lost = topic_in(FIRST), topic_in(THIRD)
    for around, topic, expected in (
        (view(), "persistent://t/other/x", ("wish_topic_no_namespace", 404)),
        (view(), lost, ("wish_topic_unowned", 404)),
        (view(splitting={named(FIRST)}), one, ("wish_topic_bundle_split", 500)),
        (view(unloading={named(FIRST)}), one, ("wish_topic_bundle_unloaded", 204)),
        (view(unloading={one}), one, ("wish_topic_already", 204)),
    ):
        assert refusal(told(grant_topic_unload(topic, around))) == expected
