"""Every method of Pulsar's tests that was looked at is restated or has a reason why not; README.md counts them."""

import pytest

from tests.pulsar_unit.catalogue import CLASSES
from tests.pulsar_unit.mirror import HERE, Method, Restated, restated, table


@pytest.fixture(scope="module")
def found() -> dict[Method, Restated]:
    return restated()


def test_the_methods_without_a_reason_are_the_restated_ones(found: dict[Method, Restated]) -> None:
    expected = {(name, method) for name, methods in CLASSES.items() for method, why in methods.items() if why is None}
    assert found.keys() == expected


def test_what_differs_is_an_order_of_equals(found: dict[Method, Restated]) -> None:
    """Nothing else differs: a new difference has to be judged, and stand in README.md, before it is listed here."""
    differing = {method: one.differs for method, one in found.items() if one.differs}
    assert sorted(method for _, method in differing) == [
        "testLoadShedding",
        "testMaxBandwidthMbytes",
        "testMaxMsgRate",
        "testMaxSessions",
        "testMaxTopics",
        "testOverloadOutlier",
    ]
    assert all("order of Pulsar's" in cause for cause in differing.values())


def test_readme_shows_the_table_of_the_classes() -> None:
    assert table() in (HERE / "README.md").read_text(encoding="utf-8"), "run python -m tests.pulsar_unit.mirror"
