"""The busiest bundles of a broker: what must hold whatever the figures, and how figures compare."""

import math
from collections.abc import Mapping
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cycle.reported_bundles import StatsOfBroker
from evenkeel.cycle.top_lists import Busyness, busyness, rounded, top_bundles, top_lists
from evenkeel.errors import BadInput, BadName
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BundleStats, IsolationPolicy, Policies
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


# The list as Pulsar makes it: every bundle compared by all of its figures, and exchanged in place.

Busy = list[tuple[Busyness, str]]


def as_pulsar_lists(stats: Mapping[str, BundleStats], k: int, left_out: frozenset[str]) -> list[str]:
    busy = [
        (busyness(one), bundle)
        for bundle, one in sorted(stats.items())
        if one.msg_throughput_in + one.msg_throughput_out != 0 and bundle.rpartition("/")[0] not in left_out
    ]
    k = min(k, len(busy))
    end = partitioned(busy, k)
    listed = (sorted(busy[:end], key=lambda one: one[0], reverse=True) + busy[end:])[:k]
    return [bundle for _, bundle in reversed(listed)]


def partitioned(busy: Busy, k: int) -> int:
    start, end = 0, len(busy) - 1
    while start < end:
        first, after = three_way(busy, start, end)
        if first <= k - 1 < after:
            return first
        if k - 1 < first:
            end = first - 1
        else:
            start = after
    return end


def three_way(busy: Busy, low: int, high: int) -> tuple[int, int]:
    pivot, middle = busy[high][0], low
    while middle <= high:
        one = busy[middle]
        if one[0] > pivot:
            busy[low], busy[middle] = one, busy[low]
            low, middle = low + 1, middle + 1
        elif one[0] < pivot:
            busy[middle], busy[high] = busy[high], one
            high -= 1
        else:
            middle += 1
    return low, middle


LEFT_OUT = frozenset({"pulsar/system", "t/excluded"})
usual = st.sampled_from([0.0, 40_000.0, 60_000.0, 149_999.0, 150_000.0, 150_001.0, 3e5, 1e6])
hostile_figures = st.one_of(
    usual,
    st.sampled_from([-0.0, math.nan, math.inf, -math.inf, 5e-324, -50_000.0, -1e6, 9.2e23, 9.3e23, 1e300, -1e300]),
    st.floats(width=64),
)
counts = st.sampled_from([0, 1, 499, 500, 2**31, 10**30])


def some_stats(figure: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, BundleStats]]:
    names = st.tuples(st.sampled_from(["t/n", "t/n-0", "t/m", *LEFT_OUT]), st.integers(0, 99))
    bundles = names.map(lambda one: f"{one[0]}/0x{one[1]:08x}_0x{one[1] + 1:08x}")
    return st.dictionaries(
        bundles, st.builds(BundleStats, counts, counts, counts, figure, figure, figure, figure, counts), max_size=30
    )


@given(
    clusters=st.one_of(some_stats(usual), some_stats(hostile_figures), all_stats).flatmap(
        lambda first: st.dictionaries(st.text(max_size=2), st.just(first) | some_stats(hostile_figures), max_size=3)
    ),
    k=st.integers(1, 35),
)
def test_every_list_is_the_one_that_pulsar_makes_whatever_the_figures(
    clusters: dict[str, dict[str, BundleStats]], k: int
) -> None:
    settings = Settings(loadBalancerSheddingExcludedNamespaces=frozenset(["t/excluded"]))
    found = top_lists(clusters, k, NONE, settings)
    assert {broker: [one.bundle for one in listed] for broker, listed in found.items()} == {
        broker: as_pulsar_lists(stats, k, LEFT_OUT) for broker, stats in clusters.items()
    }
    assert all(clusters[broker][one.bundle] is one.stats for broker, listed in found.items() for one in listed)


@given(
    stats=all_stats,
    odd=st.lists(
        st.sampled_from(["", "x", "t/x", "t/c/n/x", "t//x", "a/b\nc/d", "t/n\n//x", "é/\udc80/x"]), max_size=3
    ),
    k=st.integers(-1, 5),
)
def test_a_badly_named_bundle_with_traffic_is_refused_wherever_it_would_stand(
    stats: dict[str, BundleStats], odd: list[str], k: int
) -> None:
    stats = stats | dict.fromkeys(odd, BundleStats(msg_throughput_in=1.0))
    if any(name.count("/") != 2 for name in odd):
        with pytest.raises(BadName):
            top_bundles(stats, k, NONE, Settings())
    elif k > 0:
        assert len(top_bundles(stats, k, NONE, Settings())) <= k


@pytest.mark.parametrize(
    ("figures", "most"),
    [
        ([(1e5, 0.0), (2e5, 0.0), (math.nan, 0.0)], 6),
        (
            [(51_000.0, 3e5), (1e5, 1e5), (149_999.0, 1e5), (151_000.0, 1e5)],
            5,
        ),  # the first three are alike in one figure
        ([(1e300, 1e5), (9.3e23, 3e5), (1e5, 0.0), (-math.inf, 3e5)], 5),  # the first two are rounded to the same
        ([(-1e300, 1e5), (-9.3e23, 3e5), (-9.4e23, 1e5)], 6),
    ],
)
def test_every_list_of_a_few_bundles_is_the_one_that_pulsar_makes(
    figures: list[tuple[float, float]], most: int
) -> None:
    """All orders of some throughputs in and out, and all lengths of the list."""
    for count in range(1, most + 1):
        names = [f"t/n/0x{n:08x}_0x{n + 1:08x}" for n in range(count)]
        for own in product(figures, repeat=count):
            stats = {
                name: BundleStats(msg_throughput_in=flow_in, msg_throughput_out=flow_out)
                for name, (flow_in, flow_out) in zip(names, own, strict=True)
            }
            for k in range(1, count + 1):
                assert top(stats, k) == as_pulsar_lists(stats, k, LEFT_OUT), (own, k)


def test_equally_busy_bundles_are_taken_as_pulsars_exchanges_leave_them() -> None:
    """Worked out by hand: the last is the pivot; the first of its equals goes behind them when a busier one comes."""
    figures = [2e5, 2e5, 3e5, 1e5, 2e5, 1e5, 2e5]
    stats = {f"t/n/0x{n:08x}_0x{n + 1:08x}": BundleStats(msg_throughput_in=one) for n, one in enumerate(figures)}
    listed = [int(bundle[6:14], 16) for bundle in reversed(top(stats, 4))]
    assert listed == [2, 1, 0, 6]


# The same lists by columns, of the bundles of large clusters.


def as_read(stats: BundleStats) -> BundleStats:
    """As rows of `bundle_load` give it: without a cache, and with no zero but the usual one."""
    read, zeros = stats._replace(cache_size_bytes=0), BundleStats()
    return BundleStats(*(figure or zero for figure, zero in zip(read, zeros, strict=True)))


@given(
    clusters=st.dictionaries(
        st.text(max_size=2), st.one_of(some_stats(usual), some_stats(hostile_figures), all_stats), max_size=4
    ),
    k=st.integers(-1, 35),
    odd=st.lists(st.sampled_from(["x", "t/c/n/x", "t//x"]), max_size=1),
)
def test_the_lists_by_columns_are_those_of_dicts(
    clusters: dict[str, dict[str, BundleStats]], k: int, odd: list[str]
) -> None:
    settings = Settings(loadBalancerSheddingExcludedNamespaces=frozenset(["t/excluded"]))
    plain = {broker: {bundle: as_read(one) for bundle, one in stats.items()} for broker, stats in clusters.items()}
    if plain:
        plain[max(plain)] |= dict.fromkeys(odd, BundleStats(msg_throughput_in=1.0))
    outcomes = []
    for given_ in (plain, {broker: StatsOfBroker.of(stats) for broker, stats in plain.items()}):
        try:
            outcomes.append(repr(top_lists(given_, k, NONE, settings)))
        except (BadInput, BadName) as error:
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("brokers", [1, 7])
def test_many_bundles_of_much_the_same_figures_are_listed_by_columns_as_by_dicts(brokers: int) -> None:
    """Hundreds of bundles to a broker, with ties where the list ends, and namespaces that are left out."""
    draw = Random(4)
    clusters: dict[str, dict[str, BundleStats]] = {f"b{n}": {} for n in range(brokers)}
    for number in range(2_000):
        flow = draw.choice([0.0, 1.0, draw.lognormvariate(0, 1) * 1e6])
        namespace = "t/excluded" if draw.random() < 0.1 else f"t/n{number % 30}"
        found = BundleStats(draw.randrange(1_100), 0, 0, flow / 2_048, flow / 2_048, flow, flow)
        clusters[draw.choice([*clusters])][f"{namespace}/0x{number:08x}_0x{number + 1:08x}"] = found
    by_columns: dict[str, Mapping[str, BundleStats]] = {
        broker: StatsOfBroker.of(stats) for broker, stats in clusters.items()
    }
    clusters |= {"b": {}, "c": clusters["b0"]}
    by_columns |= {"b": {}, "c": clusters["b0"]}  # one without bundles, one without columns
    for left_out in (frozenset[str](), frozenset(["t/excluded"])):
        settings = Settings(loadBalancerSheddingExcludedNamespaces=left_out)
        for k in (1, 3, 10, 100, 5_000):
            assert top_lists(by_columns, k, NONE, settings) == top_lists(clusters, k, NONE, settings)
