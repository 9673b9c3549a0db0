"""What a cluster is told that cannot be decided on."""

import pytest

from evenkeel.settings import Settings, resolve
from evenkeel.settings.compatibility import why_undecidable

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


def test_the_defaults_of_both_managers_can_be_decided_with() -> None:
    assert why_undecidable(Settings(), "modular") is None
    found = resolve(observed={"loadManagerClassName": EXTENSIBLE}, overrides=None).settings
    assert found.loadBalancerLoadSheddingStrategy == "TransferShedder"
    assert why_undecidable(found, "extensible") is None


@pytest.mark.parametrize(
    ("manager", "seen"),
    [("mixed", "brokers run different load managers"), ("unknown", "no broker says"), (None, "no b")],
)
def test_where_the_manager_is_not_known_the_operator_is_asked(manager: str | None, seen: str) -> None:
    said = why_undecidable(Settings(), manager)
    assert said is not None
    assert said.startswith(seen)
    assert "set evenkeelManager to modular or extensible" in said
