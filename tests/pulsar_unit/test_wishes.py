"""Restates the tests of Pulsar's admin operations about manual splits and unloads (Pulsar 4.2.4).

Those tests call a broker over HTTP. Restated is what becomes of a bundle's boundaries, or the status of a refusal.
"""

import zlib
from typing import Any

import pytest

from devtools.conformance.names import given_boundaries
from evenkeel.errors import BadRange
from evenkeel.manual_requests.request import ClusterView, Granted, SplitWish, UnloadWish
from evenkeel.manual_requests.split import grant_split
from evenkeel.manual_requests.unload import grant_unload
from evenkeel.manual_requests.wish_schema import HOT, LARGEST
from evenkeel.model.bundles import (
    apply_split,
    boundary_text,
    bundle_name,
    bundle_of,
    initial_boundaries,
    parse_range,
    ranges_of,
    topic_hash,
)
from evenkeel.model.split_algorithms.split_option import BundleTopics
from evenkeel.settings import Settings
from tests.pulsar_unit.given import FULL, history
from tests.pulsar_unit.mirror import mirrors

API, API2, NAMESPACES = "admin.AdminApiTest", "admin.AdminApi2Test", "admin.NamespacesTest"
SERVICE, EXTENSIBLE_IMPL = "NamespaceServiceTest", "extensions.ExtensibleLoadManagerImplTest"


class Namespace:
    """A namespace with known topics, whose bundles are split one after the other."""

    def __init__(self, name: str, boundaries: tuple[int, ...], topics: tuple[str, ...] = (), **more: Any) -> None:
        self.name, self.boundaries, self.topics, self.more = name, boundaries, topics, more
        self.manager = more.pop("manager", "modular")
        self.values = more.pop("settings", {})

    def view(self) -> ClusterView:
        bundles = [bundle_name(self.name, found) for found in ranges_of(self.boundaries)]
        inside = {
            bundle_name(self.name, found): BundleTopics(
                sorted(h for h in map(topic_hash, self.topics) if found.includes(h))
            )
            for found in ranges_of(self.boundaries)
        }
        known: dict[str, Any] = {
            "manager": self.manager,
            "generation": "4",
            "boundaries": {self.name: self.boundaries},
            "owners": dict.fromkeys(bundles, "localhost:8080"),
            "brokers": {"localhost:8080"},
            "topics": inside,
            "persistent_topics": {bundle: len(found.hashes) for bundle, found in inside.items()},
        }
        return ClusterView(**(known | self.more))

    def split(self, bundle: str, algorithm: str = "", positions: tuple[int, ...] = (), unload: bool = False) -> Granted:
        wish = SplitWish(self.name, bundle, algorithm, positions, unload)
        made = grant_split(wish, self.view(), Settings().with_values(self.values))
        if made.split is not None:
            parent = parse_range(made.split.bundle.rpartition("/")[2])
            after = apply_split(self.boundaries, parent, made.split.cuts)
            assert after is not None
            self.boundaries = after.boundaries
        return made

    def texts(self) -> list[str]:
        return [boundary_text(boundary) for boundary in self.boundaries]

    def ranges(self) -> list[str]:
        return [str(found) for found in ranges_of(self.boundaries)]

    def bundle_of(self, topic: str) -> str:
        return str(bundle_of(self.boundaries, topic_hash(topic)))


def status(made: Granted) -> float:
    assert not made.accepted
    return made.verdict.numbers["http_status"]


@mirrors(API, "testNamespaceSplitBundle")
def test_the_sole_bundle_of_a_namespace_is_split() -> None:
    space = Namespace("prop-xyz/splitBundle", initial_boundaries(1), ("persistent://prop-xyz/splitBundle/ds2",))
    assert space.split(FULL, unload=True).accepted
    assert space.ranges() == ["0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"]


@mirrors(API, "testNamespaceSplitBundleConcurrent")
def test_children_are_split_again() -> None:
    space = Namespace("prop-xyz/ns1", initial_boundaries(1), ("persistent://prop-xyz/ns1/ds2",))
    assert space.split(FULL).accepted
    for expected in (
        ["0x00000000_0x3fffffff", "0x3fffffff_0x7fffffff", "0x7fffffff_0xbfffffff", "0xbfffffff_0xffffffff"],
        [f"0x{n:08x}_0x{n + 0x20000000 - (n == 0):08x}" for n in (0, *range(0x1FFFFFFF, 0xFFFFFFFF, 0x20000000))],
    ):
        for bundle in space.ranges():
            assert space.split(bundle).accepted
        assert space.ranges() == expected
    assert space.ranges()[0] == "0x00000000_0x1fffffff"
    assert space.ranges()[-1] == "0xdfffffff_0xffffffff"


@pytest.mark.parametrize(
    ("asked", "default"),
    [
        pytest.param(
            "topic_count_equally_divide",
            "range_equally_divide",
            marks=mirrors(API, "testNamespaceSplitBundleWithTopicCountEquallyDivideAlgorithm"),
        ),
        pytest.param(
            "",
            "topic_count_equally_divide",
            marks=mirrors(API, "testNamespaceSplitBundleWithDefaultTopicCountEquallyDivideAlgorithm"),
        ),
    ],
)
def test_split_by_topic_count(asked: str, default: str) -> None:
    topics = tuple(f"persistent://prop-xyz/ns1/topicCountEquallyDivideAlgorithum-{n}" for n in (1, 2))
    held = {"defaultNamespaceBundleSplitAlgorithm": default}
    space = Namespace("prop-xyz/ns1", initial_boundaries(1), topics, settings=held)
    assert space.split(FULL, asked, unload=True).accepted
    assert space.bundle_of(topics[0]) != space.bundle_of(topics[1])
    for found, middle in zip(space.ranges(), ("0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"), strict=True):
        assert found != middle


PARTITIONS = tuple(f"persistent://prop-xyz/ns-one-bundle/topic-partition-{n}" for n in range(4))


@mirrors(API, "testNamespacesGetTopicHashPositions")
def test_hash_positions_are_crc32() -> None:
    assert [topic_hash(name) for name in PARTITIONS] == [zlib.crc32(name.encode()) for name in PARTITIONS]


@mirrors(API, "testNamespaceSplitBundleWithSpecifiedPositionsDivideAlgorithm")
def test_split_at_the_positions_of_four_topics() -> None:
    space = Namespace("prop-xyz/ns-one-bundle", initial_boundaries(1), PARTITIONS)
    positions = sorted(map(topic_hash, PARTITIONS))
    assert space.split(FULL, "specified_positions_divide", tuple(map(topic_hash, PARTITIONS))).accepted
    assert space.texts() == ["0x00000000", *map(boundary_text, positions), "0xffffffff"]
    upper = (0xFFFFFFFF, 0xFFFFFFFF)
    for bundle in (space.ranges()[0], space.ranges()[-1]):
        made = space.split(bundle, "specified_positions_divide", upper)
        assert not made.accepted
        assert status(made) == 204
    assert len(space.ranges()) == 5


@mirrors(API, "testNamespaceSplitBundleWithInvalidAlgorithm")
def test_an_unknown_algorithm_is_refused() -> None:
    space = Namespace("prop-xyz/ns1", initial_boundaries(1))
    assert not space.split(FULL, "invalid_test", unload=True).accepted


@mirrors(API, "testTopicBundleRangeLookup")
def test_one_of_a_hundred_bundles_includes_a_topic() -> None:
    space = Namespace("prop-xyz/getBundleNs", initial_boundaries(100))
    assert len(space.ranges()) == 100
    topic = "persistent://prop-xyz/getBundleNs/topic1"
    assert parse_range(space.bundle_of(topic)).includes(topic_hash(topic))


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(24, marks=mirrors(API, "testCreateAndDeleteNamespaceWithBundles")),
        pytest.param(32, marks=mirrors(API, "testCreateAndDeleteNamespaceWithBundles")),
        pytest.param(10, marks=mirrors(API2, "testListOfNamespaceBundles")),
        pytest.param(16, marks=mirrors("NamespaceCreateBundlesTest", "testCreateNamespaceWithDefaultBundles")),
    ],
)
def test_number_of_bundles_of_a_new_namespace(count: int) -> None:
    assert len(initial_boundaries(count)) == count + 1
    assert len(ranges_of(initial_boundaries(count))) == count


@mirrors(API2, "testInvalidBundleErrorResponse")
def test_a_malformed_range_is_refused() -> None:
    with pytest.raises(BadRange):
        parse_range("invalid-bundle")


@mirrors(NAMESPACES, "testGetBundles")
def test_boundaries_given_at_creation_are_kept() -> None:
    texts = ["0x00000000", "0x80000000", "0xffffffff"]
    assert [boundary_text(boundary) for boundary in given_boundaries(texts)] == texts


@mirrors(NAMESPACES, "testSplitBundles")
def test_boundaries_after_a_split() -> None:
    space = Namespace("my-tenant/test-bundled-namespace-1", initial_boundaries(1))
    assert space.split(FULL, unload=True).accepted
    assert space.texts() == ["0x00000000", "0x7fffffff", "0xffffffff"]


@mirrors(NAMESPACES, "testSplitBundleWithUnDividedRange")
def test_a_bundle_of_width_one_is_not_split() -> None:
    space = Namespace("my-tenant/test-bundled-namespace-1", (0, 0x08375B1A, 0x08375B1B, 0xFFFFFFFF))
    assert status(space.split("0x08375b1a_0x08375b1b")) == 412


@mirrors(NAMESPACES, "testSplitBundleForMultiTimes")
def test_the_first_bundle_split_ten_times() -> None:
    space = Namespace("my-tenant/namespace", initial_boundaries(4))
    for n in range(1, 11):
        assert space.split(space.ranges()[0], unload=True).accepted
        assert len(space.ranges()) == 4 + n


@mirrors(NAMESPACES, "testBundleValidationWithNonExistentNamespace")
def test_requests_for_an_unknown_namespace_are_answered_404() -> None:
    view = Namespace("my-tenant/another", initial_boundaries(2)).view()
    missing = "my-tenant/non-existent-namespace"
    assert status(grant_unload(UnloadWish(missing, "0x00000000_0x80000000"), view)) == 404
    assert status(grant_split(SplitWish(missing, "0x00000000_0x80000000"), view, Settings())) == 404


@mirrors(NAMESPACES, "testBundleValidationAfterSplit")
def test_only_the_children_of_a_split_bundle_can_be_unloaded() -> None:
    space = Namespace("my-tenant/test-bundle-validation-after-split", initial_boundaries(1))
    assert space.split(FULL, unload=True).accepted
    assert space.texts() == ["0x00000000", "0x7fffffff", "0xffffffff"]
    assert status(grant_unload(UnloadWish(space.name, FULL), space.view())) == 412
    for child in ("0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"):
        assert grant_unload(UnloadWish(space.name, child), space.view()).accepted


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("prop/ns-abc", 1, marks=mirrors(SERVICE, "testSplitAndOwnBundles")),
        pytest.param("pulsar/ns1", 1, marks=mirrors(SERVICE, "testCreateNamespaceWithDefaultNumberOfBundles")),
        pytest.param("pulsar/ns1", 4, marks=mirrors(SERVICE, "testCreateNamespaceWithDefaultNumberOfBundles")),
    ],
)
def test_range_equally_divide_cuts_into_two_equal_parts(name: str, count: int) -> None:
    space = Namespace(name, initial_boundaries(count))
    before = space.boundaries
    parent = parse_range(space.bundle_of(f"persistent://{name}/topic-1"))
    assert space.split(str(parent), "range_equally_divide").accepted
    halves = apply_split(before, parent, parts=2)
    assert halves is not None
    assert space.boundaries == halves.boundaries


@mirrors(SERVICE, "testSplitMapWithRefreshedStatMap")
def test_a_topic_lies_in_a_child_after_the_split() -> None:
    topic = "persistent://prop/ns-abc/topic-1"
    space = Namespace("prop/ns-abc", initial_boundaries(1), (topic,))
    parent = space.bundle_of(topic)
    assert space.split(parent, "range_equally_divide").accepted
    assert parent not in space.ranges()
    counts = space.view().persistent_topics
    assert counts[bundle_name("prop/ns-abc", space.bundle_of(topic))] == 1


@mirrors(SERVICE, "testRemoveOwnershipAndSplitBundle")
@mirrors(SERVICE, "testSplitBundleAndRemoveOldBundleFromOwnerShipCache")
def test_a_topics_bundle_is_split_twice() -> None:
    topic = "persistent://pulsar/ns1/topic-1"
    space = Namespace("pulsar/ns1", initial_boundaries(1))
    for unload in (False, True):
        parent = space.bundle_of(topic)
        assert space.split(parent, "range_equally_divide", unload=unload).accepted
        assert parent not in space.ranges()


@mirrors(SERVICE, "testSplitLargestBundle")
def test_the_largest_bundle_is_split() -> None:
    topics = tuple(f"persistent://prop/ns-abc2/t1-{i}" for i in range(100))
    space = Namespace("prop/ns-abc2", initial_boundaries(10), topics)
    seen: dict[str, int] = {}
    most, largest = 0, ""
    for topic in topics:
        found = space.bundle_of(topic)
        seen[found] = seen.get(found, 0) + 1
        if seen[found] > most:
            most, largest = seen[found], found
    made = space.split(LARGEST)
    assert made.split is not None
    assert made.split.bundle == bundle_name("prop/ns-abc2", parse_range(largest))
    assert largest not in space.ranges()


@mirrors(SERVICE, "testSplitBUndleWithNoBundle")
def test_the_hottest_bundle_is_unknown_without_averages() -> None:
    assert status(Namespace("prop/ns-abc2", initial_boundaries(10)).split(HOT)) == 404


@mirrors(SERVICE, "testSplitBundleWithHighestThroughput")
def test_the_hottest_bundle_is_split() -> None:
    space = Namespace("prop/ns-abc2", initial_boundaries(10))
    hot = space.bundle_of("persistent://prop/ns-abc2/t1-0")
    space.more["histories"] = {
        f"prop/ns-abc2/{hot}": history(topics=10, throughput_in=100_000.0, throughput_out=100_000.0)
    }
    assert space.split(HOT).accepted
    assert hot not in space.ranges()


@mirrors("client.api.BrokerServiceLookupTest", "testSplitUnloadLookupTest")
def test_topics_leave_the_bundle_that_is_split_and_unloaded() -> None:
    space = Namespace("my-property/my-ns", initial_boundaries(1), ("persistent://my-property/my-ns/topic1",))
    assert space.bundle_of("persistent://my-property/my-ns/topic1") == FULL
    made = space.split(FULL, unload=True)
    assert made.split is not None
    assert made.split.unload
    assert space.bundle_of("persistent://my-property/my-ns/topic2") != FULL


@mirrors(EXTENSIBLE_IMPL, "testSplitBundleAdminAPI")
def test_extensible_manager_splits_a_range_given_in_decimal() -> None:
    space = Namespace("public/testSplitBundleAdminAPI", initial_boundaries(1), manager="extensible")
    low, high = space.boundaries
    assert space.split(f"{low}_{high}", unload=True).accepted
    assert space.texts() == [boundary_text(low), boundary_text(low + (high - low) // 2), boundary_text(high)]
    assert not space.split("invalid", unload=True).accepted


@mirrors(EXTENSIBLE_IMPL, "testSplitBundleWithSpecificPositionAdminAPI")
def test_extensible_manager_splits_at_a_given_position() -> None:
    name = "public/test"
    topics = tuple(f"persistent://{name}/test-split-with-specific-position-partition-{n}" for n in range(1024))
    space = Namespace(name, initial_boundaries(4), topics, manager="extensible")
    low, high = space.boundaries[:2]
    position = low + (high - low) // 2 + 100
    assert space.split(f"{low}_{high}", "specified_positions_divide", (low, high, position), unload=True).accepted
    assert len(space.ranges()) == 5
    assert {boundary_text(low), boundary_text(position), boundary_text(high)} <= set(space.texts())


@mirrors("impl.ModularLoadManagerImplTest", "testBrokerAffinity")
def test_an_unload_goes_to_the_requested_broker() -> None:
    space = Namespace("test/test", initial_boundaries(16), brokers={"localhost:8080", "localhost:8081"})
    bundle = space.bundle_of("persistent://test/test/my-topic1")
    made = grant_unload(UnloadWish("test/test", bundle, "localhost:8081"), space.view())
    assert made.accepted
    assert made.destination == "localhost:8081"
