"""What a command line may ask for, and what is said of it where it may not."""

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.open_loop import planner_modes
from evenkeel.replay.simulation import OFF
from evenkeel.replay.variants import AGAIN, Variant, notes_on, settings_of, variants_of
from evenkeel.settings import resolve
from evenkeel.settings.compatibility import OLDER_RULES

THRESHOLD = resolve(observed=None, overrides={"loadBalancerLoadSheddingStrategy": "ThresholdShedder"})
SHADOW, ON = (resolve(observed=None, overrides={"evenkeelPlanner": mode}) for mode in ("shadow", "on"))
AVG = resolve(
    observed=None,
    overrides={"loadBalancerLoadSheddingStrategy": "AvgShedder", "loadBalancerLoadPlacementStrategy": "AvgShedder"},
)


def test_without_a_word_the_recorded_settings_are_decided_again() -> None:
    (variant,) = variants_of()
    assert variant == Variant(AGAIN)
    assert settings_of(variant, THRESHOLD, "modular", "lab") is THRESHOLD


def test_each_strategy_is_a_variant_and_settings_hold_for_all() -> None:
    found = variants_of(
        ["AvgShedder", "UniformLoadShedder"],
        ["minUnloadMessage=7"],
        ["five:loadBalancerBrokerThresholdShedderPercentage=5,loadBalancerSheddingExcludedNamespaces=a/b,c/d"],
    )
    assert [variant.name for variant in found] == ["AvgShedder", "UniformLoadShedder", "five"]
    assert all(variant.overrides["minUnloadMessage"] == 7 for variant in found)
    assert found[2].overrides["loadBalancerSheddingExcludedNamespaces"] == frozenset({"a/b", "c/d"})


def test_a_shedder_that_places_too_brings_its_placement_and_takes_it_along() -> None:
    (avg,) = variants_of(["AvgShedder"])
    assert settings_of(avg, THRESHOLD, "modular", "lab").settings.loadBalancerLoadPlacementStrategy == "AvgShedder"
    (uniform,) = variants_of(["UniformLoadShedder"])
    after = settings_of(uniform, AVG, "modular", "lab").settings
    assert after.loadBalancerLoadPlacementStrategy == "LeastLongTermMessageRate"


def test_the_recorded_strategy_asked_for_by_name_is_the_record() -> None:
    (same,) = variants_of(["ThresholdShedder"])
    assert settings_of(same, THRESHOLD, "modular", "lab") is THRESHOLD


def test_the_planner_is_a_strategy_and_makes_way_for_those_of_pulsars() -> None:
    planner, avg, untouched = (*variants_of(["Planner", "AvgShedder"]), Variant("untouched", OFF))
    assert planner.described() == "evenkeelPlanner=on"
    on = settings_of(planner, THRESHOLD, "modular", "lab")
    assert on.settings.evenkeelPlanner == "on"
    assert settings_of(avg, on, "modular", "lab").settings.evenkeelPlanner == "off"
    assert settings_of(untouched, on, "modular", "lab").settings.evenkeelPlanner == "off"
    (slower,) = variants_of((), ["loadBalancerSheddingIntervalMinutes=5"])
    assert settings_of(slower, on, "modular", "lab").settings.evenkeelPlanner == "on"
    (shown,) = variants_of(["UniformLoadShedder"], ["evenkeelPlanner=shadow"])
    assert settings_of(shown, on, "modular", "lab").settings.evenkeelPlanner == "shadow"


def test_the_comparison_says_where_the_planner_decides() -> None:
    modes = planner_modes(
        {
            digest: {name: {"settings": text.to_json()} for name, text in (("set", first), ("other", second))}
            for digest, first, second in (("a", THRESHOLD, SHADOW), ("b", ON, SHADOW))
        }
    )
    assert modes == {"set": "on and off", "other": "shadow"}
    notes = VariantComparison("r", "lab", {"set": "x", "other": "y", "third": "z"}, 0.85, planner=modes).notes()
    assert notes[3:] == [
        "Evenkeel's planner only looks on in: other",
        "Evenkeel's planner decides in some cycles of: set",
    ]


def test_a_comparison_says_what_to_know_before_a_variant_is_put_into_force() -> None:
    variants = variants_of(["UniformLoadShedder"], ["minUnloadMessage=7", "statsUpdateInitialDelayInSecs=9"])
    notes = notes_on((variant.overrides for variant in variants), "4.0")
    assert notes == [
        "to put it into force: a broker takes loadBalancerLoadSheddingStrategy at its restart, Evenkeel at once",
        f"UniformLoadShedder of Pulsar 4.0: {OLDER_RULES['UniformLoadShedder'][1]}",
    ]
    assert VariantComparison("r", "lab", {}, 0.85, caveats=notes).notes() == notes
    assert len(notes_on((variant.overrides for variant in variants), "4.x")) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["AvgSheder"],), ["AvgSheder", "did you mean AvgShedder", "TransferShedder", "UniformLoadShedder"]),
        (([], ["loadBalancerBrokerTresholdShedderPercentage=5"]), ["nearest", "'loadBalancerBrokerThresholdShedder"]),
        (([], ["loadBalancerBrokerThresholdShedderPercentage=lots"]), ["Percentage cannot be read", "is int"]),
        (([], ["loadBalancerSheddingEnabled=true"]), ["evenkeelSheddingEnabled"]),
        (([], [], ["five"]), ["NAME:KEY=VALUE"]),
        ((["AvgShedder", "AvgShedder"],), ["two variants are called 'AvgShedder'"]),
        (([], [], ["recorded:minUnloadMessage=1"]), ["'recorded'"]),
    ],
)
def test_what_is_unknown_is_named_with_what_is_known(arguments: tuple[list[str], ...], words: list[str]) -> None:
    with pytest.raises((BadInput, SettingsError)) as refused:
        variants_of(*arguments)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_the_other_managers_strategy_is_refused_unless_its_rules_are_asked_for() -> None:
    (transfer,) = variants_of(["TransferShedder"])
    with pytest.raises(SettingsError) as refused:
        settings_of(transfer, THRESHOLD, "modular", "lab")
    assert all(w in str(refused.value) for w in ("lab", "OverloadShedder", "--set evenkeelManager=extensible"))
    (told,) = variants_of(["TransferShedder"], ["evenkeelManager=extensible"])
    assert settings_of(told, THRESHOLD, "modular", "lab").settings.manager == "extensible"
