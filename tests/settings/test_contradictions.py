"""Settings at odds with each other."""

import pytest

from evenkeel.settings import Settings
from evenkeel.settings.compatibility import contradictions

MANAGER = "ExtensibleLoadManagerImpl"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"loadBalancerAvgShedderLowThreshold": 41}, ("41", "40")),
        ({"loadBalancerAvgShedderHitCountHighThreshold": 9}, ("9", "8")),
        ({"loadBalancerReportUpdateMinIntervalMillis": 900_001}, ("900001", "15")),
        ({"supportedNamespaceBundleSplitAlgorithms": ("topic_count_equally_divide",)}, ("range_equally_divide",)),
        ({"loadBalancerLoadPlacementStrategy": "AvgShedder"}, ("AvgShedder", "ThresholdShedder")),
        ({"loadBalancerLoadSheddingStrategy": "TransferShedder"}, ("TransferShedder", "modular")),
        (
            {
                "loadManagerClassName": MANAGER,
                "loadBalancerLoadSheddingStrategy": "TransferShedder",
                "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
                "loadBalancerMaxNumberOfBundlesInBundleLoadReport": 0,
            },
            ("0", "extensible"),
        ),
        ({"evenkeelDrainingBrokers": frozenset(["broker-1"])}, ("broker id",)),
    ],
    ids=lambda found: list(found)[-1],
)
def test_settings_at_odds_are_named_with_their_values_and_what_to_do(
    values: dict[str, object], shown: tuple[str, ...]
) -> None:
    (found,) = contradictions(Settings().with_values(values))
    told = str(found)
    assert found.keys[0] in told
    assert all(value in told for value in shown)
    advice = told.rpartition(": ")[2]
    assert advice.split()[0] in {"lower", "raise", "set", "add", "write"}, told
