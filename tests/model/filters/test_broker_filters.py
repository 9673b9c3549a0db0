"""Versions of brokers, as the filter by version orders them."""

from itertools import pairwise

from evenkeel.model.filters.broker_filters import newest, version_rank


def test_versions_order_as_semantic_versions_do() -> None:
    ordered = [
        "4.0.9", "4.2.0-1", "4.2.0-2", "4.2.0-10", "4.2.0-SNAPSHOT", "4.2.0-candidate-1", "4.2.0-candidate-2", "4.2.0",
        "4.2.10", "4.10.0", "5.0.0",
    ]  # fmt: skip
    ranks = [rank for version in ordered if (rank := version_rank(version)) is not None]
    assert len(ranks) == len(ordered)
    assert all(one < two for one, two in pairwise(ranks))
    assert version_rank("4.2.0+build.5") == version_rank("4.2.0")
    assert [version_rank(v) for v in (None, "", "4.2", "nonsense", "04.2.1")] == [None] * 5
    assert newest({"a": "4.2.4", "b": "4.2.10", "c": "4.2.10"}) == {"b", "c"}
    assert newest({"a": "4.2.4", "b": None}) is None
