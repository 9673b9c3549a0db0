"""Generations of Pulsar: whose defaults hold, and what the origin of a value says about it."""

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.generations import GENERATIONS, generation_of
from evenkeel.settings import Detected, EffectiveSettings, Settings, resolve

DIFFERS = "maxUnloadPercentage"
SAME = "minUnloadMessage"


def test_a_default_that_differs_says_whose_it_is() -> None:
    five = resolve(observed=None, overrides=None, generation=Detected("5.0", ("5.0.1", "5.0.1")))
    assert (five.settings.maxUnloadPercentage, five.origins[DIFFERS]) == (0.5, "default of Pulsar 5")
    assert (five.origins[SAME], five.origins["evenkeelPulsarVersion"]) == ("default", "observed")
    four = resolve(observed=None, overrides=None, generation=Detected("4.x"))
    assert (four.settings.maxUnloadPercentage, four.origins[DIFFERS]) == (0.2, "default of Pulsar 4")
    assert four.origins["evenkeelPulsarVersion"] == "default"


def test_a_rolling_upgrade_is_named_with_its_versions() -> None:
    found = resolve(observed=None, overrides=None, generation=Detected("4.x", ("5.0.1", "4.10.0", "4.2.4", None)))
    said = "by the oldest of the brokers' versions 4.2.4 and 4.10.0 and 5.0.1"
    assert found.origins[DIFFERS] == f"default of Pulsar 4, {said}"
    assert found.origins["evenkeelPulsarVersion"] == f"observed, {said}"
    assert found.settings.evenkeelPulsarVersion == "4"


@pytest.mark.parametrize(
    ("written", "generation"),
    [("3.0", "3.0"), ("4.0", "4.0"), ("4", "4.x"), ("4.2", "4.x"), ("4.x", "4.x"), ("5", "5.0"), ("auto", "5.0")],
)
def test_the_operators_word_wins_over_what_was_detected(written: str, generation: str) -> None:
    found = resolve(observed=None, overrides={"evenkeelPulsarVersion": written}, generation=Detected("5.0", ("5.0.1",)))
    assert found.settings.generation == generation
    assert found.settings.maxUnloadPercentage == Settings.for_generation(generation).maxUnloadPercentage
    assert found.origins["evenkeelPulsarVersion"] == ("observed" if written == "auto" else "override")


@pytest.mark.parametrize(
    ("versions", "generation"),
    [
        (["2.11.4"], "3.0"),
        (["3.0.7", "4.2.4"], "3.0"),
        (["3.2.3"], "3.0"),
        (["3.3.6"], "3.3"),
        (["4.2.4", "4.0.8", None], "4.0"),
        (["4.1.2"], "4.x"),
        (["4.10.0"], "4.x"),
        (["5.0.1", "5.1.0"], "5.0"),
        (["5.0.0-M1", "4.2.4"], "4.x"),
        (["unknown", None, ""], "4.x"),
    ],
)
def test_the_generation_is_that_of_the_oldest_broker(versions: list[str | None], generation: str) -> None:
    assert generation_of(versions) == generation


def test_an_upgrade_within_a_major_version_is_named_too() -> None:
    found = resolve(observed=None, overrides=None, generation=Detected("4.0", ("4.2.4", "4.0.8")))
    assert found.origins["evenkeelPulsarVersion"] == "observed, by the oldest of the brokers' versions 4.0.8 and 4.2.4"
    assert [found.settings.is_before(name) for name in GENERATIONS] == [False, False, False, True, True]


def test_older_versions_weigh_memory() -> None:
    keys = ("loadBalancerMemoryResourceWeight", "loadBalancerDirectMemoryResourceWeight")
    weights = {name: [Settings.for_generation(name).values()[key] for key in keys] for name in GENERATIONS}
    assert weights == {"3.0": [1.0, 1.0], "3.3": [1.0, 0.0], "4.0": [0.0] * 2, "4.x": [0.0] * 2, "5.0": [0.0] * 2}


def test_another_version_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match="one of auto, 4, 5, 3"):
        resolve(observed=None, overrides={"evenkeelPulsarVersion": "3"})


def test_origins_travel_as_text() -> None:
    found = resolve(observed=None, overrides=None, generation=Detected("4.x", ("4.2.4", "5.0.1")))
    assert EffectiveSettings.from_json(found.to_json()) == found
    with pytest.raises(SettingsError, match="unknown origin"):
        EffectiveSettings.from_json(found.to_json().replace('"default of Pulsar 4', '"made up'))
