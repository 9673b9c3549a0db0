"""What a cluster is told whose strategies are not at hand."""

from __future__ import annotations

from evenkeel.rounds.supported import why_undecidable
from evenkeel.settings import Settings

TRANSFER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"


def test_the_defaults_of_the_modular_manager_are_at_hand() -> None:
    assert why_undecidable(Settings(), "modular") is None


def test_an_extensible_cluster_is_told_every_setting_that_it_takes_to_decide_by_modular_rules() -> None:
    said = why_undecidable(Settings(loadBalancerLoadSheddingStrategy=TRANSFER), "extensible")
    assert said is not None
    assert "set evenkeelManager to modular, and loadBalancerLoadSheddingStrategy to " in said
    modular = Settings(evenkeelManager="modular", loadBalancerLoadSheddingStrategy=TRANSFER)
    assert str(why_undecidable(modular, "extensible")).startswith(f"loadBalancerLoadSheddingStrategy is {TRANSFER}")
    assert why_undecidable(Settings(evenkeelManager="modular"), "extensible") is None


def test_a_strategy_that_is_not_at_hand_is_named_with_those_that_are() -> None:
    said = why_undecidable(Settings(defaultNamespaceBundleSplitAlgorithm="by_the_moon"), "modular")
    assert said is not None
    assert "range_equally_divide or topic_count_equally_divide" in said
