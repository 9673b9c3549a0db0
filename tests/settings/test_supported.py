"""What a cluster is told that cannot be decided on."""

from __future__ import annotations

import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings import Settings, resolve
from evenkeel.settings.compatibility import why_undecidable

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
TRANSFER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"


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


def test_an_extensible_cluster_to_be_decided_by_modular_rules_needs_a_modular_shedder() -> None:
    observed = {"loadManagerClassName": EXTENSIBLE, "loadBalancerLoadSheddingStrategy": TRANSFER}
    with pytest.raises(SettingsError, match="TransferShedder is the extensible load manager's") as refused:
        resolve(observed=observed, overrides={"evenkeelManager": "modular"})
    assert "set loadBalancerLoadSheddingStrategy to OverloadShedder, ThresholdShedder" in str(refused.value)


def test_a_pair_that_pulsar_refuses_is_named_with_what_goes_together() -> None:
    said = why_undecidable(Settings(loadBalancerLoadPlacementStrategy="AvgShedder"), "modular")
    assert said is not None
    assert said.startswith("Pulsar refuses these settings: loadBalancerLoadPlacementStrategy = AvgShedder needs")
