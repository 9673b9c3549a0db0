"""Every key is described, and its default is one it allows itself; defaults of both generations, and old spellings."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from evenkeel import settings
from evenkeel.errors import SettingsError
from evenkeel.pulsar.generations import GENERATIONS
from evenkeel.settings import Key, Settings, describe, registry
from evenkeel.settings.parsing import check_allowed, coerce, parse

KEYS = list(registry().values())
TYPES = {"bool": bool, "int": int, "float": float, "str": str, "class": str, "list": tuple, "set": frozenset}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_default_has_the_keys_exact_type_and_is_allowed(key: Key) -> None:
    for default in map(key.default_of, GENERATIONS):
        if key.kind == "optional float":
            assert default is None or type(default) is float
        else:
            assert type(default) is TYPES[key.kind]
        check_allowed(key, default)
        assert coerce(key, default) == default


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_key_is_described(key: Key) -> None:
    assert key.unit
    assert key.meaning.endswith(".")
    assert len(key.meaning) > 20
    assert key.deprecated_alias_of is None or key.deprecated_alias_of in registry()


@pytest.mark.parametrize("key", [k for k in KEYS if k.lowest is not None], ids=lambda key: key.name)
def test_a_value_below_the_range_is_refused_with_key_and_range(key: Key) -> None:
    assert key.lowest is not None
    with pytest.raises(SettingsError) as caught:
        check_allowed(key, coerce(key, key.lowest - 1))
    assert key.name in str(caught.value)
    assert key.allowed in str(caught.value)


@pytest.mark.parametrize("key", [k for k in KEYS if k.choices], ids=lambda key: key.name)
def test_a_value_that_is_no_choice_is_refused_with_all_choices(key: Key) -> None:
    with pytest.raises(SettingsError) as caught:
        check_allowed(key, parse(key, "noSuchThing"))
    assert all(choice in str(caught.value) for choice in key.choices)


def test_the_defaults_are_those_compiled_into_pulsar() -> None:
    """The page on administration lists 1.0 for memory and direct memory; Pulsar has 0."""
    expected = {
        "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
        "loadBalancerLoadPlacementStrategy": "LeastLongTermMessageRate",
        "loadBalancerBrokerOverloadedThresholdPercentage": 85,
        "loadBalancerBrokerThresholdShedderPercentage": 10,
        "loadBalancerHistoryResourcePercentage": 0.9,
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": 100,
        **dict.fromkeys(("loadBalancerNamespaceBundleMaxTopics", "loadBalancerNamespaceBundleMaxSessions"), 1_000),
        "loadBalancerNamespaceBundleMaxMsgRate": 30_000,
        "loadBalancerNamespaceMaximumBundles": 128,
        "loadBalancerSheddingIntervalMinutes": 1,
        "loadBalancerSheddingGracePeriodMinutes": 30,
        **dict.fromkeys(("loadBalancerMemoryResourceWeight", "loadBalancerDirectMemoryResourceWeight"), 0.0),
        **dict.fromkeys(("loadBalancerCPUResourceWeight", "bandwidth_in_weight", "bandwidth_out_weight"), 1.0),
        **dict.fromkeys(("evenkeelSheddingEnabled", "evenkeelSplitEnabled"), True),
    }
    assert {name: getattr(Settings(), name) for name in expected} == expected


def test_keys_without_an_effect_are_those_that_no_decision_reads() -> None:
    """The check of contradictions reads two more of them: what it refuses is a configuration, not a decision."""
    package = Path(settings.__file__).parents[1]
    words: set[str] = set()
    for file in package.rglob("*.py"):
        if file.parent.name not in ("settings", "keys"):
            nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            words |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    pulsars = {key.name for key in KEYS if not key.name.startswith("evenkeel") and not key.deprecated_alias_of}
    unread = pulsars - words
    assert {key.name for key in KEYS if not key.decides} == unread


def test_a_changed_strategy_is_told_to_need_a_restart_and_an_own_key_is_not() -> None:
    notes = {key.name: key.notes for key in KEYS}
    assert notes["loadBalancerLoadSheddingStrategy"] == (
        "a broker takes loadBalancerLoadSheddingStrategy at its restart, Evenkeel at once",
    )
    assert notes["statsUpdateInitialDelayInSecs"] == ("statsUpdateInitialDelayInSecs has no effect on decisions",)
    assert notes["minUnloadMessage"] == notes["evenkeelPlanner"] == ()
    told = {key.name for key in KEYS if key.dynamic and key.notes and key.decides}
    assert told == {"loadBalancerLoadSheddingStrategy", "loadBalancerHostUsageCheckIntervalMinutes"}


def test_pulsar_5_0_differs_in_six_defaults() -> None:
    old, new = Settings.for_generation("4.x").values(), Settings.for_generation("5.0").values()
    assert {k: v for k, v in new.items() if old[k] != v} == {
        "loadBalancerLoadSheddingStrategy": "AvgShedder",
        "loadBalancerLoadPlacementStrategy": "AvgShedder",
        "maxUnloadPercentage": 0.5,
        "loadBalancerDistributeBundlesEvenlyEnabled": False,
        "defaultNumberOfNamespaceBundles": 32,
        "evenkeelPulsarVersion": "5",
    }
    assert Settings.for_generation("4.x") == Settings()


def test_an_unknown_generation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'3\.x': known are 3\.0, 3\.3, 4\.0, 4\.x, 5\.0"):
        Settings.for_generation("3.x")


def test_the_description_has_a_row_for_every_key_in_alphabetical_order() -> None:
    names = [row["key"] for row in describe()]
    assert names == sorted(f.name for f in fields(Settings))


def test_deprecated_spelling_counts_where_the_new_key_stands_at_1() -> None:
    old, new = "loadBalancerBandwithInResourceWeight", "loadBalancerBandwidthInResourceWeight"
    weights = {(1.0, 1.0): 1.0, (1.0, 0.5): 0.5, (0.3, 0.5): 0.3, (0.3, 1.0): 0.3, (0.0, 0.5): 0.0}
    for (new_value, old_value), weight in weights.items():
        assert Settings().with_values({new: new_value, old: old_value}).bandwidth_in_weight == weight
    out = Settings().with_values({"loadBalancerBandwithOutResourceWeight": 0.7})
    assert (out.bandwidth_out_weight, out.bandwidth_in_weight) == (0.7, 1.0)


def test_the_manager_is_the_operators_word_or_the_load_manager_that_runs() -> None:
    extensible = {"loadManagerClassName": "ExtensibleLoadManagerImpl"}
    assert Settings().manager == "modular"
    assert Settings().with_values(extensible).manager == "extensible"
    assert Settings().with_values({**extensible, "evenkeelManager": "modular"}).manager == "modular"
