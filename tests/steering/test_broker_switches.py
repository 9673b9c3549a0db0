"""Whether the brokers leave the steering to Evenkeel, and what they list: answers that are none, too."""

from typing import Any

import pytest

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin import Hop
from evenkeel.steering.broker_switches import configurations, hands_off
from evenkeel.steering.premise import OwnershipReader

OFF = '{"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false", "clusterName": "lab"}'


class Listing:
    """Brokers that all are off, and are listed so."""

    def __init__(self, listed: str) -> None:
        self.listed = listed

    def ask(self, path: str, *, broker: str | None = None) -> tuple[Hop, ...]:
        body = self.listed if path == "/admin/v2/brokers" else OFF
        return (Hop(broker or "b1:8080", "GET", path, 200, "", 1.0, None, body),)


def client(listed: str) -> Any:
    return Listing(listed)


def test_brokers_that_are_off_leave_the_steering_to_evenkeel() -> None:
    assert hands_off(client('["b1:8080", "b2:8080"]')) == ()
    assert sorted(configurations(client('["b2:8080", "b1:8080"]'))) == ["b1:8080", "b2:8080"]


@pytest.mark.parametrize(
    "listed",
    [
        "null",
        "1",
        "{}",
        "[]",
        "[1]",
        "[{}]",
        "[[]]",
        "nope",
        '["\\ud800:1"]',
        '["b1:8080", 1]',
        '["b1:8080", "\\ud800:1"]',
    ],
)
def test_a_list_that_does_not_name_every_broker_is_no_leave(listed: str) -> None:
    (objection,) = hands_off(client(listed))
    assert "the brokers of the cluster cannot be listed" in objection
    with pytest.raises(Unreachable):
        configurations(client(listed))
    assert OwnershipReader(client(listed)).brokers() <= {"b1:8080"}
