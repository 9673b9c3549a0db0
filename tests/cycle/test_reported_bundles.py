"""The bundles of a large cluster, whose figures are read when asked for, are the same as those of a small one."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cycle import reading
from evenkeel.cycle.fold import LOAD_AVERAGE
from evenkeel.cycle.loads import AVERAGED_AT, THROUGHPUT_AVERAGE, see
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reported_bundles import StatsOfBroker, reported_bundles
from evenkeel.model.load import RATES, BundleStats
from evenkeel.settings import Settings
from tests.cycle.rows import BUNDLES, HOT, broker, bundle
from tests.cycle.rows import rows as rows_of

COUNTS = st.none() | st.sampled_from([0, 1, 499, 2**31, 10**30])
FIGURES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0, 7, 10**400, math.nan, math.inf, 5e4, 1e6]), st.floats())
BUNDLE_ROWS = st.lists(
    st.builds(
        lambda number, owner, non_persistent, counts, figures: bundle(
            number,
            owner,
            has_non_persistent=non_persistent,
            **dict(zip(("topics", "consumers", "producers"), counts, strict=True)),
            **dict(zip((f"used_{name}" for name in RATES), figures, strict=True)),
        ),
        st.integers(0, 15),
        st.sampled_from([None, "b1:8080", "b2:8080", "b3:8080"]),
        st.booleans(),
        st.tuples(COUNTS, COUNTS, COUNTS),
        st.tuples(FIGURES, FIGURES, FIGURES, FIGURES),
    ),
    max_size=20,
)


def plainly(bundles: list[dict[str, Any]]) -> dict[str, dict[str, BundleStats]]:
    found: dict[str, dict[str, BundleStats]] = {}
    for row in bundles:
        if row["owner"] is not None:
            own = found.setdefault(row["owner"], {})
            counts = (row["topics"] or 0, row["consumers"] or 0, row["producers"] or 0)
            own[row["bundle"]] = BundleStats(*counts, *(row[f"used_{name}"] or 0.0 for name in RATES))
    return found


@given(bundles=BUNDLE_ROWS, data=st.data())
def test_a_brokers_bundles_are_a_mapping_as_a_dict_is(bundles: list[dict[str, Any]], data: st.DataObject) -> None:
    expected, found = plainly(bundles), reported_bundles(bundles)
    assert [*found.by_owner] == [*expected]
    assert found.non_persistent == {row["bundle"] for row in bundles if row["has_non_persistent"]}
    for owner, own in expected.items():
        stats = found.by_owner[owner]
        for name in data.draw(st.lists(st.sampled_from([*own]), max_size=3)):
            assert repr(stats[name]) == repr(own[name])
            assert type(stats[name]) is BundleStats
            assert stats[name] is stats[name]
        assert ([*stats], len(stats), bool(stats)) == ([*own], len(own), True)
        assert "x" not in stats
        assert stats.get("x") is None
        assert (stats == own, own == stats) == (True, True)
        assert (repr(stats), repr([*stats.items()])) == (repr(own), repr([*own.items()]))
        assert [*map(repr, stats.values())] == [*map(repr, own.values())]
        assert all(stats[name] is one for name, one in stats.items())
        for field in ("topics", "msg_throughput_in"):
            assert repr(stats.column(field)) == repr([getattr(one, field) for one in own.values()])
        assert stats != {**own, "x": BundleStats()}


def test_no_bundles_are_an_empty_mapping() -> None:
    stats = StatsOfBroker.of({})
    assert (stats == {}, [*stats], len(stats), bool(stats)) == (True, [], 0, False)
    with pytest.raises(KeyError, match="x"):
        stats["x"]


@given(
    bundles=BUNDLE_ROWS.map(lambda found: [*{row["bundle"]: row for row in found}.values()]),
    totals=st.sampled_from([None, 5.0]),
    named=st.sampled_from([None, [], ["acme/ns0/0x00000000_0x10000000"]]),
)
def test_a_round_sees_the_same_whether_its_cluster_counts_as_large_or_small(
    bundles: list[dict[str, Any]], totals: float | None, named: list[str] | None
) -> None:
    """But for figures beyond doubles, which no table holds."""
    bundles = [row for row in bundles if 10**400 not in row.values()]
    more = dict.fromkeys(RATES, totals) | {"bundles": named}
    reports = [broker(f"b{n}:8080", 50.0, **more) for n in (1, 2)] + [broker("b3:8080", None)]
    rows = rows_of(reports, bundles)
    seen = []
    for most in (0, 1_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "MANY_BUNDLES", most)
            patch.setattr(reading, "MANY_OF_A_BROKER", 0)
            shared = SharedRows(rows)
            found = see(shared, {LOAD_AVERAGE: {}, THROUGHPUT_AVERAGE: {}, AVERAGED_AT: {}}, Settings())
            seen.append(repr((found.load.top_bundles, found.load.loads, found.owners, found.averages)))
            seen.append(repr([(b.msg_rate_in, b.topics, sorted(b.bundles)) for b in found.load.brokers.values()]))
            seen.append(repr([*found.load.brokers["b1:8080"].stats.items()]))
            seen.append(
                repr(reading.policies(shared).non_persistent_bundles == reading.policies(rows).non_persistent_bundles)
            )
    assert seen[:4] == seen[4:]


def test_reports_that_are_known_are_not_read_again() -> None:
    shared = SharedRows(rows_of(HOT, BUNDLES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MANY_BUNDLES", 0)
        patch.setattr(reading, "MANY_OF_A_BROKER", 0)
        known = reading.broker_reports(shared)
        assert reading.reports_of_few_looks(shared) is known
