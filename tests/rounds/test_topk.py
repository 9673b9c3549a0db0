"""The busiest bundles of a broker: what must hold whatever the figures, and how figures compare."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput, BadName
from evenkeel.filters.isolation import PoliciesPresent
from evenkeel.model.load import BundleStats, IsolationPolicy, Policies
from evenkeel.rounds.extensible_loads import busyness, rounded, top_bundles
from evenkeel.settings import Settings

NONE = PoliciesPresent(Policies())
RANGE = "0x00000000_0xffffffff"
figures = st.sampled_from([0.0, 1.0, 149_999.0, 150_000.0, 1e6, 2e6, 3e6, 4e6])
all_stats = st.dictionaries(
    st.integers(0, 200).map(lambda n: f"t/n/0x{n:08x}_0x{n + 1:08x}"),
    st.builds(BundleStats, msg_throughput_in=figures, msg_throughput_out=figures, topics=st.sampled_from([1, 500])),
    max_size=40,
)


def top(
    stats: dict[str, BundleStats],
    k: int,
    present: PoliciesPresent = NONE,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> list[str]:
    return [one.bundle for one in top_bundles(stats, k, present, settings)]


@given(stats=all_stats, k=st.integers(1, 50))
def test_the_list_holds_k_of_the_busiest_lightest_first(stats: dict[str, BundleStats], k: int) -> None:
    found = top(stats, k)
    busy = {b: busyness(s) for b, s in stats.items() if s.msg_throughput_in + s.msg_throughput_out > 0}
    assert [busy[b] for b in found] == sorted(busy.values())[-k:]
    assert len(set(found)) == len(found) == min(k, len(busy))


@given(stats=all_stats, k=st.integers(1, 50), data=st.data())
def test_the_order_of_the_input_changes_nothing(stats: dict[str, BundleStats], k: int, data: st.DataObject) -> None:
    other = {bundle: stats[bundle] for bundle in data.draw(st.permutations(sorted(stats)))}
    assert top(other, k) == top(stats, k)


def test_figures_are_compared_rounded_halves_up() -> None:
    assert (rounded(0.5), rounded(-0.5), rounded(-1.5), rounded(0.49999999999999994)) == (1, 0, -1, 0)
    assert (rounded(math.nan), rounded(math.inf), rounded(1e300)) == (0, 2**63 - 1, 2**63 - 1)
    assert (rounded(-math.inf), rounded(-1e300)) == (-(2**63), -(2**63))
    one, other = BundleStats(msg_throughput_in=149_999.0), BundleStats(msg_throughput_in=150_000.0)
    assert busyness(one) < busyness(other)
    assert busyness(BundleStats(msg_throughput_in=50_000.0)) == busyness(BundleStats(msg_throughput_in=149_999.0))
    assert busyness(BundleStats(topics=499)) < busyness(BundleStats(topics=498, consumers=1, producers=1))


def test_some_bundles_are_never_listed() -> None:
    busy = BundleStats(msg_throughput_in=9e9)
    names = ("pulsar/system", "pulsar/b1:8080", "sla-monitor/b1:8080", "t/excluded", "t/group", "t/isolated", "t/n")
    stats = {f"{namespace}/{RANGE}": busy for namespace in names} | {f"t/idle/{RANGE}": BundleStats(topics=5)}
    policies = Policies(groups={"t/group": "g", "t/n": " "}, isolation={"p": IsolationPolicy(("t/iso.*",), ("b1",))})
    settings = Settings(loadBalancerSheddingExcludedNamespaces=frozenset(["t/excluded"]))
    assert top(stats, 10, PoliciesPresent(policies), settings) == [f"t/n/{RANGE}"]
    with_policies = settings.with_values({"loadBalancerSheddingBundlesWithPoliciesEnabled": True})
    found = top(stats, 10, PoliciesPresent(policies), with_policies)
    assert sorted(found) == [f"t/{name}/{RANGE}" for name in ("group", "isolated", "n")]


def test_a_k_below_one_and_a_three_part_namespace_are_refused_with_what_to_do() -> None:
    busy = BundleStats(msg_throughput_in=9e9)
    one, two = {f"t/n/{RANGE}": busy}, {f"t/n/{RANGE}": busy, f"t/m/{RANGE}": busy}
    assert (top(one, 0), top({}, -1)) == ([], [])
    with pytest.raises(BadInput, match="loadBalancerMaxNumberOfBundlesInBundleLoadReport to 1 or more"):
        top(two, 0)
    with pytest.raises(BadName, match="pulsar/c1/b1:8080"):
        top({f"pulsar/c1/b1:8080/{RANGE}": busy}, 1)
