"""Restates the tests of bundles, boundaries and topic names.

Bundles: Pulsar 4.2.4. Topic names: the newest stored source of pulsar-common's test, which is older than 4.2 and still
knows names with a cluster in them; only what holds for names without one is restated.
"""

import pytest

from devtools.conformance.names import bundles_of_topics
from evenkeel.errors import BadName, BadRange
from evenkeel.model.bundles import (
    FULL_RANGE,
    BundleRange,
    Split,
    apply_split,
    bundle_name,
    bundle_of,
    initial_boundaries,
    parse_range,
    ranges_of,
    validate_boundaries,
)
from evenkeel.model.topics import is_heartbeat_or_sla, parse_topic, partition_of, topic_hash
from tests.pulsar_unit.mirror import mirrors

ONE, MANY = "NamespaceBundleTest", "NamespaceBundlesTest"
NS1 = "pulsar/ns1"
TOPIC = f"persistent://{NS1}/topic-1"


@mirrors(ONE, "testConstructor")
def test_an_empty_range_is_refused_and_the_smallest_is_half_open() -> None:
    """Pulsar also refuses open lower and closed upper ends; Evenkeel's ranges have neither."""
    for empty in ("0x00000000_0x00000000", "0x00000001_0x00000001"):
        with pytest.raises(BadRange):
            parse_range(empty)
    found = parse_range("0x00000000_0x00000001")
    assert (found.lower, found.upper) == (0, 1)
    assert found.includes(0)
    assert not found.includes(1)
    assert bundle_name("pulsar/ns", found).startswith("pulsar/ns/")


@mirrors(ONE, "testGetBundle")
def test_the_same_range_is_the_same_bundle() -> None:
    assert bundle_name(NS1, BundleRange(0, 0xFFFFFFFF)) == bundle_name(NS1, FULL_RANGE)


@mirrors(ONE, "testCompareTo")
def test_order_of_bundles() -> None:
    """Pulsar refuses to compare ranges that overlap; Evenkeel orders any two."""
    whole, second = BundleRange(0, 0x40000000), BundleRange(0x20000000, 0x40000000)
    for before in (BundleRange(0, 0x10000000), BundleRange(0, 0x20000000)):
        assert before < second
        assert second > before
    assert whole == BundleRange(0, 0x40000000)
    other = bundle_name("pulsar/ns2", BundleRange(0x10000000, 0x30000000))
    assert other > bundle_name(NS1, BundleRange(0, 0x10000000))


@mirrors(ONE, "testEquals")
def test_equal_bundles() -> None:
    bundle = bundle_name(NS1, BundleRange(0, 0x40000000))
    assert bundle != bundle_name(NS1, BundleRange(0x20000000, 0x40000000))
    assert bundle == bundle_name(NS1, BundleRange(0, 0x40000000))
    assert bundle != bundle_name("pulsar/ns2", BundleRange(0, 0x40000000))


@mirrors(ONE, "testIncludes")
def test_which_topics_a_bundle_includes() -> None:
    found = topic_hash(TOPIC)
    assert BundleRange(found // 2, 0xFFFFFFFF).includes(found)
    assert not BundleRange(0xFFFFFFFF, 0xFFFFFFFF).includes(found)
    with pytest.raises(BadName):
        bundles_of_topics({"boundaries": ["0x00000000", "0xffffffff"], "namespace": "pulsar/ns2", "topics": [TOPIC]})


@mirrors(ONE, "testToString")
def test_names_of_bundles() -> None:
    assert bundle_name(NS1, BundleRange(0, 0x10000000)) == "pulsar/ns1/0x00000000_0x10000000"
    assert bundle_name(NS1, BundleRange(0x10000000, 0xFFFFFFFF)) == "pulsar/ns1/0x10000000_0xffffffff"


@mirrors(MANY, "testConstructor")
def test_bundles_between_boundaries() -> None:
    assert ranges_of((0, 0x10000000, 0x40000000, 0xFFFFFFFF)) == (
        BundleRange(0, 0x10000000),
        BundleRange(0x10000000, 0x40000000),
        BundleRange(0x40000000, 0xFFFFFFFF),
    )


@mirrors(MANY, "testFindBundle")
def test_the_bundle_of_a_topic() -> None:
    boundaries = (0, 0x40000000, 0xA0000000, 0xB0000000, 0xC0000000, 0xFFFFFFFF)
    texts = [f"0x{boundary:08x}" for boundary in boundaries]
    assert bundle_of(boundaries, topic_hash(TOPIC)).includes(topic_hash(TOPIC))
    elsewhere = "persistent://pulsar/ns2/topic-2"
    with pytest.raises(BadName):
        bundles_of_topics({"boundaries": texts, "namespace": NS1, "topics": [elsewhere]})
    right_of_it = [text for text in texts if int(text, 16) > topic_hash(elsewhere)]
    assert right_of_it == ["0xffffffff"]
    assert validate_boundaries(right_of_it), "Pulsar does not build bundles of a sole boundary"


def parts(boundaries: tuple[int, ...], bundle: BundleRange, count: int) -> Split:
    found = apply_split(boundaries, bundle, parts=count)
    assert found is not None
    return found


@mirrors(MANY, "testSplitBundles")
def test_split_into_equal_parts() -> None:
    full = initial_boundaries(1)
    split = parts(full, FULL_RANGE, 4)
    assert len(split.boundaries) - 1 == 1 + 4 - 1
    for index, count in ((0, 4), (1, 3)):
        parent = ranges_of(split.boundaries)[index]
        again = parts(split.boundaries, parent, count)
        assert len(again.boundaries) - 1 == 4 + count - 1
        assert (again.children[0].lower, again.children[-1].upper) == (parent.lower, parent.upper)
        assert all(a.upper == b.lower for a, b in zip(again.children, again.children[1:], strict=False))


def in_two(boundaries: tuple[int, ...], parent: BundleRange) -> Split:
    split = parts(boundaries, parent, 2)
    middle = (parent.upper - parent.lower) // 2 + parent.lower
    expected = [f"0x{parent.lower:08x}_0x{middle:08x}", f"0x{middle:08x}_0x{parent.upper:08x}"]
    assert [str(child) for child in split.children] == expected
    return split


@mirrors(MANY, "testSplitBundleInTwo")
def test_split_in_two_again_and_again() -> None:
    first = in_two(initial_boundaries(1), FULL_RANGE)
    for child in first.children:
        second = in_two(first.boundaries, child)
        for grandchild in second.children:
            in_two(second.boundaries, grandchild)


@mirrors(MANY, "testSplitBundleByFixBoundary")
def test_split_at_a_given_position() -> None:
    full = initial_boundaries(1)
    for edge in (FULL_RANGE.lower, FULL_RANGE.upper):
        with pytest.raises(BadRange):
            apply_split(full, FULL_RANGE, [edge])
    split = apply_split(full, FULL_RANGE, [FULL_RANGE.lower + 10])
    assert split is not None
    assert [child.lower for child in split.children] == [FULL_RANGE.lower, FULL_RANGE.lower + 10]


NAMES = "pulsar-common TopicNameTest"


@mirrors(NAMES, "topic")
@pytest.mark.parametrize(
    "text",
    [
        "://tenant.namespace:topic",
        "://tenant.namespace:my-topic",
        "://tenant.namespace",
        "invalid://tenant/cluster/namespace/topic",
        "tenant/cluster/namespace/topic",
        "persistent:///cluster/namespace/mydest-1",
        "persistent://pulsar//namespace/mydest-1",
        "persistent://pulsar/cluster//mydest-1",
        "persistent://pulsar/cluster/namespace/",
        "://pulsar/cluster/namespace/",
        "://tenant/cluster/namespace",
        " ",
    ],
)
def test_malformed_topic_names_are_refused(text: str) -> None:
    with pytest.raises(BadName):
        parse_topic(text)


@mirrors(NAMES, "topic")
def test_the_partition_number_in_a_topic_name() -> None:
    mine = parse_topic("persistent://myprop/myns/mytopic")
    assert mine.partition == -1
    second = parse_topic(f"{mine.name}-partition-2")
    assert second.partition == 2
    assert partition_of("persistent://myprop/myns/mytopic-partition-4") == 4
    for end in ("-1", "00", "012"):
        assert partition_of(f"mytopic-partition-{end}") == -1
    for end in ("-1", "-2", "01", "012", " 12", "12 ", " 12 ", "1&", "1!"):
        assert parse_topic(f"mytopic-partition-{end}").partition == -1, end
    for end in ("0", "1", "12"):
        assert parse_topic(f"mytopic-partition-{end}").partition == int(end)


@mirrors(NAMES, "testTopicNameWithoutCluster")
def test_parts_of_a_topic_name() -> None:
    topic = parse_topic("persistent://tenant/namespace/topic")
    assert topic.name == "persistent://tenant/namespace/topic"
    assert (topic.domain, topic.namespace, topic.local_name) == ("persistent", "tenant/namespace", "topic")
    assert partition_of(topic.name) == topic.partition == -1


@mirrors(NAMES, "testShortTopicName")
def test_short_topic_names_are_completed() -> None:
    topic = parse_topic("short-topic")
    assert (topic.domain, topic.namespace, topic.local_name) == ("persistent", "public/default", "short-topic")
    topic = parse_topic("test-tenant/test-namespace/test-short-topic")
    assert (topic.domain, topic.namespace) == ("persistent", "test-tenant/test-namespace")
    assert topic.local_name == "test-short-topic"
    for text in ("pulsar/cluster/namespace/test", "pulsar/cluster"):
        with pytest.raises(BadName):
            parse_topic(text)


@mirrors(NAMES, "testTwoKeyWordPartition")
def test_a_partition_of_a_topic_whose_own_name_contains_the_keyword() -> None:
    topic = parse_topic("tenant1/namespace1/tp1-partition-0-DLQ")
    assert topic.partition == -1
    partition = parse_topic(f"{topic.name}-partition-0")
    assert partition.partition == 0
    assert partition.name.removesuffix(f"-partition-{partition.partition}") == topic.name


@mirrors("NamespaceServiceTest", "testHeartbeatNamespaceMatch")
def test_a_heartbeat_namespace_is_recognised() -> None:
    assert is_heartbeat_or_sla("pulsar/localhost:8080")
