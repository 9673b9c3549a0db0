"""What a cluster's answers come to in this process is bounded, and so is what all clusters of a run do together."""

from dataclasses import replace

import pytest

from evenkeel.handover import ClusterCycle, Snapshot
from evenkeel.ingest.snapshot_intake import SnapshotIntake, leave_out_the_largest
from evenkeel.pulsar.answers import BEYOND_LIMIT, MOST_REJECTIONS, Rejection, Rejections
from evenkeel.pulsar.limits import BeyondLimit, Limits
from evenkeel.pulsar.observed_rows import observe
from tests.pulsar.small_cluster import SmallCluster

MIB = 1 << 20


def intake(cluster: str, held_mib: int, **limits: int) -> SnapshotIntake:
    at = "2026-03-01T12:00:05.000000+00:00"
    found = SnapshotIntake(ClusterCycle(cluster, at, Snapshot("0000", at), {}, limits=Limits(**limits).to_dict()))
    found.observed, found.held = observe(SmallCluster().view()), held_mib * MIB
    return found


def test_where_all_together_are_too_much_the_largest_goes_and_the_others_stay() -> None:
    intakes = [intake("a", 5), intake("b", 400), intake("c", 200), intake("d", 5)]
    leave_out_the_largest(intakes)
    assert [(one.cluster, one.observed is None) for one in intakes if one.left_out] == [("b", True)]
    assert "take 419,430,400 bytes, and those of all clusters 639,631,360, beyond the limit" in str(intakes[1].left_out)
    assert "`run_mib`" in str(intakes[1].left_out)
    assert [rejection.rule for _, rejection in intakes[1].rejections] == [BEYOND_LIMIT]
    leave_out_the_largest(intakes)
    assert sum(one.observed is not None for one in intakes) == 3


def test_the_largest_value_of_a_run_counts() -> None:
    intakes = [intake("a", 700), intake("b", 200, run_mib=1_000)]
    leave_out_the_largest(intakes)
    assert [one.left_out for one in intakes] == [None, None]


@pytest.mark.parametrize(
    ("small", "words"),
    [
        (SmallCluster().reply("/admin/v2/brokers", [f"b{n}:1" for n in range(9)]), "b1:8080 lists 9 brokers, beyond"),
        (SmallCluster().namespace("shop/wide", [f"0x{n:08x}" for n in range(9)]), "11 rows of namespace_bundles and"),
        (SmallCluster().reply("/admin/v2/namespaces/shop", [f"shop/{n}" for n in range(9)]), "10 rows of namespace_bu"),
    ],
    ids=["brokers", "boundaries", "namespaces"],
)
def test_more_rows_than_a_table_may_have_are_not_made(small: SmallCluster, words: str) -> None:
    observe(small.view())
    with pytest.raises(BeyondLimit, match=words):
        observe(replace(small.view(), limits=Limits(rows=8)))


def test_records_set_aside_are_bounded_and_the_rest_is_counted() -> None:
    found = Rejections()
    for n in range(MOST_REJECTIONS + 5):
        found.append(Rejection("t", f"place {n}", "rule", "reason", None))
    assert len(found.summed()) == MOST_REJECTIONS + 1
    assert found.summed()[-1].reason == "5 more records are set aside; the first 10,000 are on record"
    assert len(Rejection("t", "x" * 9_999, "rule", "y" * 9_999, None).place) == 4_000


def test_a_list_with_a_name_very_often_is_gone_through_once() -> None:
    small = SmallCluster().reply("/admin/v2/brokers", [f"b{n % 5_000}:1" for n in range(100_000)])
    assert len(observe(small.view()).rejections) >= 5_000
