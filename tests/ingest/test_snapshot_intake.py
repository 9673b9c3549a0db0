"""Which configuration the settings of a cluster are resolved from."""

import pytest

from evenkeel.ingest.snapshot_intake import configuration_of
from evenkeel.settings import resolve

EARLIER = {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl", "x": "1"}


@pytest.mark.parametrize(("shown", "manager"), [("extensible", "extensible"), ("unknown", "modular")])
def test_the_manager_that_brokers_show_wins_over_an_earlier_configuration(shown: str, manager: str) -> None:
    found = configuration_of({"manager": shown, "configuration": EARLIER})
    assert found["x"] == "1"
    assert resolve(observed=found, overrides={}).settings.manager == manager


def test_without_a_configuration_the_manager_is_what_brokers_show() -> None:
    assert configuration_of({"manager": "mixed", "configuration": None}) == {}
    found = configuration_of({"manager": "extensible", "configuration": None})
    assert resolve(observed=found, overrides={}).settings.loadBalancerLoadSheddingStrategy == "TransferShedder"
