"""Which topics are not simply loaded on one broker, told of a few rows."""

from typing import Any

import pytest

from evenkeel.pulsar.topic_stats import sightings_of

B1, B2 = "b1:8080", "b2:8080"


def shown(broker: str | None, topic: str | None = "t", **more: Any) -> dict[str, Any]:
    return {"cluster": "lab", "topic": topic, "broker": broker, "refused": None, "is_listed": False} | more


def listed(topic: str = "t", **more: Any) -> dict[str, Any]:
    return shown(None, topic, is_listed=True, **more)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([shown(B1)], []),
        ([shown(B1), listed(), listed()], []),
        ([listed(), listed()], [("lab", "t", 0)]),
        ([shown(B1), shown(B2), listed()], [("lab", "t", 2)]),
        ([shown(B1), shown(B1)], [("lab", "t", 1)]),
        ([shown(None), shown(B1)], [("lab", "t", 1)]),
        ([shown(B1), shown(B2, refused="unreadable_topic")], []),
        ([shown(B1, refused="unreadable_topic"), listed()], [("lab", "t", 0)]),
        ([shown(B1, None, refused="html_page")], []),
        ([shown(B1), shown(B2, cluster="other")], []),
        ([], []),
    ],
)
def test_a_topic_is_named_unless_exactly_one_broker_shows_it(
    rows: list[dict[str, Any]], expected: list[tuple[str, str, int]]
) -> None:
    assert sightings_of(rows) == expected
