"""Which value is in force, where it came from, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from devtools.conformance.reading import following_switches
from evenkeel.errors import SettingsError
from evenkeel.settings import EffectiveSettings, Settings, contradictions, digest_with, registry, resolve

RUNTIME = {
    "brokerServicePort": "Optional[6650]",
    "loadBalancerOverrideBrokerNicSpeedGbps": "Optional[1.0]",
    "loadBalancerOverrideBrokerNics": "[eth0, eth1]",
    "loadBalancerSheddingExcludedNamespaces": "[]",
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
    "loadBalancerBrokerOverloadedThresholdPercentage": "70",
    "loadBalancerHistoryResourcePercentage": "0.5",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "failureDomainsEnabled": "true",
}


def effective(
    observed: dict[str, str] | None = None, overrides: dict[str, Any] | None = None, **more: Any
) -> EffectiveSettings:
    return resolve(observed=observed, overrides=overrides, **more)


def test_override_wins_over_observed_wins_over_default() -> None:
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    assert getattr(effective().settings, key) == 85
    assert getattr(effective(RUNTIME).settings, key) == 70
    both = effective(RUNTIME, {key: 60})
    assert getattr(both.settings, key) == 60
    assert (both.origins[key], both.origins["failureDomainsEnabled"], both.origins["preferLaterVersions"]) == (
        "override",
        "observed",
        "default",
    )


def test_a_digest_with_another_value_is_that_of_the_settings_with_it() -> None:
    off, shadow = (effective(RUNTIME, {"evenkeelPlanner": mode}) for mode in ("off", "shadow"))
    assert off.digest != shadow.digest
    assert digest_with(shadow.to_json(), "evenkeelPlanner", "off") == off.digest
    # Settings of a version that had fewer keys: a digest covers those that it had.
    values = json.loads(shadow.to_json())
    del values["settings"]["evenkeelFrozenBundles"]
    assert digest_with(json.dumps(values), "evenkeelPlanner", "off") != off.digest


def test_a_brokers_own_spelling_is_read() -> None:
    found = effective(RUNTIME)
    assert found.problems == ()
    assert found.settings.loadBalancerOverrideBrokerNicSpeedGbps == 1.0
    assert found.settings.loadBalancerOverrideBrokerNics == ("eth0", "eth1")
    assert found.settings.loadBalancerSheddingExcludedNamespaces == frozenset()
    assert found.settings.loadBalancerLoadSheddingStrategy == "OverloadShedder"
    empty = effective({"loadBalancerOverrideBrokerNicSpeedGbps": "Optional.empty"})
    assert empty.settings.loadBalancerOverrideBrokerNicSpeedGbps is None


def test_the_clusters_switches_are_not_taken_and_change_no_digest() -> None:
    off, on = effective(RUNTIME), effective({**RUNTIME, "loadBalancerSheddingEnabled": "true"})
    assert off.settings.loadBalancerSheddingEnabled
    assert off.settings.evenkeelSheddingEnabled
    assert off.origins["loadBalancerSheddingEnabled"] == "default"
    assert off.digest == on.digest


def test_switches_that_are_followed_switch_evenkeel() -> None:
    found = following_switches(effective(RUNTIME).settings, RUNTIME)
    assert not found.loadBalancerSheddingEnabled
    assert (found.evenkeelSheddingEnabled, found.evenkeelSplitEnabled) == (False, False)
    no_balancer = {"loadBalancerEnabled": "false"}
    found = following_switches(effective(no_balancer).settings, no_balancer)
    assert (found.evenkeelSheddingEnabled, found.evenkeelSplitEnabled) == (False, True)


@pytest.mark.parametrize(
    ("manager", "splits"), [("ModularLoadManagerImpl", True), ("ExtensibleLoadManagerImpl", False)]
)
def test_only_the_extensible_managers_splits_need_the_load_balancer(manager: str, splits: bool) -> None:
    observed = {
        "loadBalancerEnabled": "false",
        "loadManagerClassName": f"org.apache.pulsar.broker.loadbalance.any.{manager}",
    }
    not_followed = effective(observed).settings
    found = following_switches(not_followed, observed)
    assert (found.evenkeelSheddingEnabled, found.evenkeelSplitEnabled) == (False, splits)
    assert (not_followed.evenkeelSheddingEnabled, not_followed.evenkeelSplitEnabled) == (True, True)


def test_an_override_of_the_clusters_switch_points_to_evenkeels() -> None:
    with pytest.raises(SettingsError, match="set evenkeelSheddingEnabled instead"):
        effective(None, {"loadBalancerSheddingEnabled": False})


@pytest.mark.parametrize("text", ["many", "", "NaN", "1e999", "85.5", "99999999999"])
def test_an_observed_value_that_cannot_be_read_leaves_the_default_and_is_listed(text: str) -> None:
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    found = effective({key: text})
    assert getattr(found.settings, key) == 85
    assert found.origins[key] == "default"
    assert len(found.problems) == 1
    assert key in found.problems[0]
    assert "default holds" in found.problems[0]


def test_an_observed_value_out_of_range_is_taken_and_listed() -> None:
    found = effective({"loadBalancerNamespaceBundleMaxBandwidthMbytes": "4096"})
    assert found.settings.loadBalancerNamespaceBundleMaxBandwidthMbytes == 4096
    assert "from 0 to 2,047" in found.problems[0]


def test_an_observed_strategy_that_nobody_knows_leaves_the_default_and_is_listed() -> None:
    found = effective({"loadBalancerLoadSheddingStrategy": "com.acme.OurShedder"})
    assert found.settings.loadBalancerLoadSheddingStrategy == "ThresholdShedder"
    assert "com.acme.OurShedder" in found.problems[0]


def test_evenkeels_own_keys_are_never_taken_from_a_broker() -> None:
    assert effective({"evenkeelSheddingEnabled": "false"}).settings.evenkeelSheddingEnabled


def test_an_unknown_override_names_the_nearest_key() -> None:
    wrong = {
        "loadBalancerSheddingIntervalMinuts": "loadBalancerSheddingIntervalMinutes",
        "LOADBALANCERBROKERMAXTOPICS": "loadBalancerBrokerMaxTopics",
        "loadBalanceSheddingGracePeriodMinutes": "loadBalancerSheddingGracePeriodMinutes",
    }
    for name, meant in wrong.items():
        with pytest.raises(SettingsError) as caught:
            effective(None, {name: 1})
        assert name in str(caught.value)
        assert f"nearest known key is {meant!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loadBalancerHistoryResourcePercentage", 90),
        ("loadBalancerBrokerOverloadedThresholdPercentage", 101),
        ("loadBalancerNamespaceBundleMaxBandwidthMbytes", 2048),
        ("minUnloadMessage", True),
        ("minUnloadMessage", 1.5),
        ("minUnloadMessage", None),
        ("failureDomainsEnabled", 1),
        ("failureDomainsEnabled", "yes"),
        ("maxUnloadPercentage", float("nan")),
        ("loadBalancerSheddingExcludedNamespaces", 5),
        ("loadBalancerSheddingExcludedNamespaces", [5]),
        ("loadBalancerLoadSheddingStrategy", "ThreshholdShedder"),
        ("defaultNamespaceBundleSplitAlgorithm", "Guesswork"),
    ],
)
def test_an_override_of_wrong_type_or_out_of_range_names_key_and_allowed_values(key: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        effective(None, {key: value})
    assert key in str(caught.value)
    assert registry()[key].allowed in str(caught.value)


def test_overrides_come_typed_or_as_text() -> None:
    typed = {
        "minUnloadMessage": 5,
        "maxUnloadPercentage": 1,
        "failureDomainsEnabled": True,
        "loadBalancerSheddingExcludedNamespaces": ["t/b", "t/a"],
        "loadBalancerLoadSheddingStrategy": "OverloadShedder",
    }
    text = {
        "minUnloadMessage": "5",
        "maxUnloadPercentage": "1",
        "failureDomainsEnabled": "true",
        "loadBalancerSheddingExcludedNamespaces": "t/a, t/b",
        "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
    }
    assert effective(None, typed) == effective(None, text)
    assert effective(None, typed).settings.maxUnloadPercentage == 1.0


def test_a_contradiction_in_the_cluster_itself_is_listed_and_not_fatal() -> None:
    found = effective({"loadBalancerAvgShedderLowThreshold": "41"})
    assert found.problems == (str(contradictions(found.settings)[0]),)


def test_the_defaults_of_both_generations_do_not_contradict_themselves() -> None:
    for generation in ("4.x", "5.0"):
        assert contradictions(Settings.for_generation(generation)) == []


def test_the_digest_is_of_values_and_not_of_origins() -> None:
    assert effective({"minUnloadMessage": "7"}).digest == effective(None, {"minUnloadMessage": 7}).digest
    assert effective(None, {"minUnloadMessage": 8}).digest != effective(None, {"minUnloadMessage": 7}).digest
    assert len(effective().digest) == 64


def test_rows_show_every_key_with_value_origin_and_unit() -> None:
    rows = {row["key"]: row for row in effective(RUNTIME, {"minUnloadMessage": 7}).rows()}
    assert rows.keys() == registry().keys()
    assert rows["minUnloadMessage"] == {"key": "minUnloadMessage", "value": "7", "origin": "override", "unit": "msg/s"}
    assert json.loads(rows["loadBalancerOverrideBrokerNics"]["value"]) == ["eth0", "eth1"]
    assert rows["loadBalancerHistoryResourcePercentage"]["value"] == "0.5"


@hypothesis_settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "minUnloadMessage": st.integers(0, 2**31 - 1),
            "loadBalancerCPUResourceWeight": st.floats(0, 1e308),
            "loadBalancerOverrideBrokerNicSpeedGbps": st.one_of(st.none(), st.floats(0, 400)),
            "loadBalancerSheddingExcludedNamespaces": st.frozensets(st.sampled_from(["t/a", "t/ü", 't/"<b>'])),
            "failureDomainsEnabled": st.booleans(),
        },
    )
)
def test_settings_travel_as_text_without_loss(overrides: dict[str, Any]) -> None:
    found = effective(RUNTIME, overrides)
    back = EffectiveSettings.from_json(found.to_json())
    assert back == found
    assert back.digest == found.digest
    assert back.to_json() == found.to_json()


def test_a_text_of_another_version_is_read_where_it_can_be() -> None:
    body = json.loads(effective(None, {"minUnloadMessage": 7}).to_json())
    del body["settings"]["maxUnloadPercentage"]
    back = EffectiveSettings.from_json(json.dumps(body))
    assert (back.settings.minUnloadMessage, back.settings.maxUnloadPercentage) == (7, 0.2)
    assert "maxUnloadPercentage is missing" in back.problems[0]
    del body["settings"]["evenkeelMovedTrafficOrder"]
    older = EffectiveSettings.from_json(json.dumps(body))
    assert older.settings.evenkeelMovedTrafficOrder == "plan_order"
    assert Settings().evenkeelMovedTrafficOrder == "fitting_first"
    assert older.problems[0] == (
        'evenkeelMovedTrafficOrder is missing in the settings text: it is older than the key, and "plan_order" holds, '
        "as it did then"
    )
    body["settings"]["unheardOf"] = 1
    for text in (json.dumps(body), "{}", "<html>", "[]", json.dumps({"settings": {}, "origins": [], "problems": []})):
        with pytest.raises(SettingsError):
            EffectiveSettings.from_json(text)
