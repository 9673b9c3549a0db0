"""Bundles: every hash has one, a split divides its parent exactly, and what is wrong with boundaries is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadName, BadRange
from evenkeel.model.bundles import (
    HIGHEST_HASH,
    BundleRange,
    apply_split,
    are_in_two_parts,
    broker_of,
    bundle_of,
    initial_boundaries,
    is_heartbeat,
    is_heartbeat_or_sla,
    is_sla,
    is_system,
    namespace_of,
    parse_range,
    parse_topic,
    range_of,
    ranges_of,
    topic_hash,
    validate_boundaries,
)
from evenkeel.model.split_algorithms import range_equally_divide
from evenkeel.model.split_algorithms.split_option import SplitOption
from evenkeel.model.topics import partition_of, uses_three_part_names
from evenkeel.settings import Settings
from tests.bundle_ranges import validate_ranges

hashes = st.one_of(st.integers(0, HIGHEST_HASH), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, HIGHEST_HASH]))
inner = st.lists(st.integers(1, HIGHEST_HASH - 1), max_size=8, unique=True)


@st.composite
def boundaries(draw: st.DrawFn) -> tuple[int, ...]:
    return (0, *sorted(draw(inner)), HIGHEST_HASH)


@given(bounds=boundaries(), found=hashes)
def test_every_hash_lies_in_exactly_one_bundle(bounds: tuple[int, ...], found: int) -> None:
    assert [r for r in ranges_of(bounds) if r.includes(found)] == [bundle_of(bounds, found)]


@given(bounds=boundaries(), found=hashes, data=st.data())
def test_a_split_elsewhere_leaves_a_topic_where_it_is(bounds: tuple[int, ...], found: int, data: st.DataObject) -> None:
    owner = bundle_of(bounds, found)
    others = [r for r in ranges_of(bounds) if r != owner and r.width > 1]
    if others:
        target = data.draw(st.sampled_from(others))
        split = apply_split(bounds, target, range_equally_divide.cut(SplitOption(target.lower, target.upper)).positions)
        assert split is not None
        assert bundle_of(split.boundaries, found) == owner


@given(bounds=boundaries(), data=st.data())
def test_children_of_a_split_cover_the_parent_exactly(bounds: tuple[int, ...], data: st.DataObject) -> None:
    parents = [r for r in ranges_of(bounds) if r.width > 1]
    parent = data.draw(st.sampled_from(parents))
    cuts = data.draw(st.lists(st.integers(parent.lower + 1, parent.upper - 1), min_size=1, max_size=4, unique=True))
    split = apply_split(bounds, parent, cuts)
    assert split is not None
    assert split.children[0].lower == parent.lower
    assert split.children[-1].upper == parent.upper
    assert all(a.upper == b.lower for a, b in zip(split.children, split.children[1:], strict=False))
    assert sum(child.width for child in split.children) == parent.width
    assert len(split.children) == len(cuts) + 1
    assert validate_boundaries([f"0x{b:08x}" for b in split.boundaries]) == []
    assert set(bounds) < set(split.boundaries)


@given(count=st.integers(1, 5000))
def test_initial_boundaries_cover_all_hashes(count: int) -> None:
    texts = [f"0x{b:08x}" for b in initial_boundaries(count)]
    assert validate_boundaries(texts, count) == []


def test_the_topic_of_the_highest_hash_lies_in_the_last_bundle() -> None:
    topic = parse_topic("persistent://t/n/SO0aSc")
    assert topic.hash == HIGHEST_HASH
    assert str(bundle_of(initial_boundaries(4), topic.hash)) == "0xc0000000_0xffffffff"


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        pytest.param((0x80000000, HIGHEST_HASH), 0, id="below the first boundary"),
        pytest.param((0, 0x80000000), HIGHEST_HASH, id="above the last boundary"),
        pytest.param((0, 0x80000000), 0x80000000, id="at a last boundary that is not the highest hash"),
        pytest.param((0, 0x80000000, 0x40000000), 0x90000000, id="boundaries that are not ascending"),
        pytest.param((0,), 0, id="one boundary"),
        pytest.param((), 0, id="no boundary"),
    ],
)
def test_a_hash_outside_all_bundles_is_refused(bounds: tuple[int, ...], found: int) -> None:
    with pytest.raises(BadRange, match=f"hash 0x{found:08x} lies in no bundle"):
        bundle_of(bounds, found)


def test_segments_of_scalable_topics_are_topics_where_they_are_asked_for() -> None:
    name = "segment://t/n/clicks/0000-7fff-1"
    found = parse_topic(name, scalable=True)
    assert (found.namespace, found.local_name, found.canonical) == ("t/n", "clicks/0000-7fff-1", name)
    with pytest.raises(BadName, match="unknown domain 'segment'"):
        parse_topic(name)
    with pytest.raises(BadName, match="not of the form"):
        parse_topic("segment://t/n", scalable=True)


def test_short_and_full_names_of_a_topic_hash_alike() -> None:
    names = ["my-topic", "public/default/my-topic", "persistent://public/default/my-topic"]
    assert {parse_topic(name).hash for name in names} == {0x2BAD45F7}


def test_the_typed_domain_is_part_of_the_hash() -> None:
    assert parse_topic("PERSISTENT://public/default/my-topic").domain == "persistent"
    assert parse_topic("PERSISTENT://public/default/my-topic").hash == 0x0E716D0D


def test_a_name_with_half_a_character_hashes_without_raising() -> None:
    assert topic_hash("persistent://t/n/\ud800") == topic_hash("persistent://t/n/?")


def test_names_and_ranges_that_pulsar_refuses_are_refused() -> None:
    for name in ("", "a/b", "persistent://t/n/ ", "http://t/n/x", "persistent://t$/n/x", "persistent://t/n/a/b"):
        with pytest.raises(BadName):
            parse_topic(name)
    for text in ("", "0x00000000", "0x1_0x1", "0x2_0x1", "0x0_0x1ffffffff", "-1_5", "0x0_0x1_0x2", "a_b"):
        with pytest.raises(BadRange):
            parse_range(text)
    for name in ("t/n", "0x00000000_0xffffffff", ""):
        with pytest.raises(BadName):
            namespace_of(name)


def test_a_bundles_name_comes_apart_into_namespace_and_range() -> None:
    name = "acme/web/0x40000000_0x80000000"
    assert namespace_of(name) == "acme/web"
    assert range_of(name) == BundleRange(0x40000000, 0x80000000)
    assert namespace_of("pulsar/lab/10.0.0.1:8080/0x00000000_0xffffffff") == "pulsar/lab/10.0.0.1:8080"


@pytest.mark.parametrize(
    ("names", "are_two"),
    [
        (["t/n/0x00000000_0xffffffff", "t/m/0x00000000_0x80000000"], True),
        (["t/n/0x00000000_0xffffffff", "t/eu/n/0x00000000_0x80000000"], False),
        (["n/0x00000000_0xffffffff", "t/eu/n/0x00000000_0x80000000"], False),
        (["t/n/0x00000000_0xffffffff", "0x00000000_0x80000000"], False),
        (["t/\ud800/0x00000000_0xffffffff"], True),
        ([], True),
    ],
)
def test_names_of_two_parts_are_told_from_others(names: list[str], are_two: bool) -> None:
    assert are_in_two_parts(names) is are_two


def test_partitions_are_recognised_by_their_canonical_number_only() -> None:
    assert partition_of("persistent://t/n/x-partition-3") == 3
    for plain in ("persistent://t/n/x-partition-03", "persistent://t/n/x-partition-", "persistent://t/n/x"):
        assert partition_of(plain) == -1


def test_holes_overlaps_and_unreadable_boundaries_are_named() -> None:
    assert validate_boundaries(["0x00000000", "0x80000000", "0xffffffff"], 2) == []
    wrong = {
        ("0x00000001", "0xffffffff"): "first boundary is 0x00000001",
        ("0x00000000", "0xfffffffe"): "last boundary is 0xfffffffe",
        ("0x00000000", "0x80000000", "0x40000000", "0xffffffff"): "0x40000000 follows 0x80000000",
        ("0x00000000", "0x80000000", "0x80000000", "0xffffffff"): "0x80000000 follows 0x80000000",
        ("0x00000000", "<html>", "0xffffffff"): "'<html>' is not a boundary",
        ("0x00000000",): "fewer than two boundaries",
    }
    for texts, words in wrong.items():
        assert any(words in problem for problem in validate_boundaries(texts)), texts
    assert validate_boundaries(["0x00000000", "0xffffffff"], 4) == [
        "2 boundaries make 1 bundles, but the namespace says 4"
    ]


def test_ranges_with_a_hole_or_an_overlap_are_named_and_whole_ones_are_not() -> None:
    whole = ranges_of(initial_boundaries(3))
    assert validate_ranges(reversed(whole)) == []
    assert validate_ranges(whole[:2]) == ["hole: 0xaaaaaaaa_0xffffffff belongs to no bundle"]
    assert validate_ranges([whole[0], whole[2]]) == ["hole: 0x55555555_0xaaaaaaaa belongs to no bundle"]
    assert validate_ranges([*whole, whole[1]]) == ["overlap: 0x55555555_0xaaaaaaaa begins before 0xaaaaaaaa"]
    assert validate_ranges([]) == ["hole: 0x00000000_0xffffffff belongs to no bundle"]


def test_brokers_own_namespaces_are_told_from_others_in_both_spellings() -> None:
    assert is_heartbeat_or_sla("pulsar/b1.eu:8080")
    assert is_heartbeat_or_sla("sla-monitor/b1.eu:8080")
    assert not is_heartbeat_or_sla("pulsar/lab/b1.eu:8080")
    assert is_heartbeat_or_sla("pulsar/lab/b1.eu:8080", three_part=True)
    assert is_heartbeat("pulsar/lab/b1.eu:8080")
    assert is_sla("sla-monitor/lab/b1.eu:8080")
    assert broker_of("pulsar/lab/b1.eu:8080") == "b1.eu:8080"
    for other in ("pulsar/system", "pulsar/b1", "acme/b1:8080", "pulsar/b1:http"):
        assert not is_heartbeat_or_sla(other, three_part=True)
        assert broker_of(other) is None
    assert is_system("pulsar/system")
    assert uses_three_part_names([None, "4.2.4", "4.0.8"])
    assert not uses_three_part_names([None, "4.2.4", "5.0.1", "nonsense"])


@pytest.mark.parametrize("cuts", [[5], [10], [20], [25], [12, 12], [12, 25], [-1], [1 << 32]], ids=str)
def test_cuts_outside_on_an_edge_or_twice_are_refused_and_named(cuts: list[int]) -> None:
    with pytest.raises(BadRange, match=r"bundle 0x0000000a_0x00000014"):
        apply_split((0, 10, 20, 0xFFFFFFFF), BundleRange(10, 20), cuts)


@pytest.mark.parametrize("parts", [0, -1])
def test_a_bundle_is_not_split_into_no_parts(parts: int) -> None:
    with pytest.raises(BadRange, match=rf"cannot be split into {parts} parts"):
        apply_split((0, 10, 20, 0xFFFFFFFF), BundleRange(10, 20), parts=parts)


def test_article_an_administrator_chooses_four_bundles_by_default() -> None:
    """The pages' four bundles are 4.x's default; Pulsar 5 makes 32."""
    four = Settings.for_generation("4.x").defaultNumberOfNamespaceBundles
    assert initial_boundaries(four) == (0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF)
    assert Settings.for_generation("5.0").defaultNumberOfNamespaceBundles == 32


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("my-topic", 0x2BAD45F7),
        ("public/default/my-topic", 0x2BAD45F7),
        ("non-persistent://public/default/my-topic", 0x831E214A),
        ("persistent://public/default/my-topic-partition-0", 0x3D4B4235),
        ("persistent://public/default/my-topic-partition-1", 0x4A4C72A3),
        ("persistent://my-tenant/my-namespace/orders", 0x20124DDE),
    ],
)
def test_concepts_a_topic_is_hashed_by_its_full_name(topic: str, found: int) -> None:
    """The pages hash "the topic name"; domain, tenant, namespace and partition are part of it."""
    assert parse_topic(topic).hash == found
