"""What holds for every shedder, by the registries: names, keys, rules, verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.errors import SettingsError
from evenkeel.model.consideration import by_name
from evenkeel.settings import registry
from evenkeel.settings.keys.balancing import SHEDDERS_OF
from evenkeel.shed.strategies import EXTENSIBLE, MODULAR, overload_shedder, shedder_named
from evenkeel.shed.strategies.transfer_shedder.rules import RULES
from tests.cycle.clusters import Cluster, clusters, holds
from tests.cycle.extensible_clusters import ExtensibleCluster, extensible_clusters
from tests.shed.shedder_checks import check


def test_the_registries_are_what_an_operator_may_name() -> None:
    assert (tuple(MODULAR), tuple(EXTENSIBLE)) == (SHEDDERS_OF["modular"], SHEDDERS_OF["extensible"])


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="OverloadShedder: two shedders have this name"):
        by_name("shedders", overload_shedder.SHEDDER, overload_shedder.SHEDDER)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match="TransferShedder: not a shedder of the modular load manager; set it to Ov"):
        shedder_named("TransferShedder")


@pytest.mark.parametrize("shedder", [*MODULAR.values(), *EXTENSIBLE.values()], ids=lambda shedder: shedder.name)
def test_declared_keys_exist_and_no_rule_stands_twice(shedder: object) -> None:
    keys, rules = shedder.keys, [(rule.outcome, rule.name) for rule in shedder.rules]  # type: ignore[attr-defined]
    assert set(keys) <= registry().keys()
    assert len(keys) == len(set(keys))
    assert len(rules) == len(set(rules))


@pytest.mark.parametrize("name", MODULAR)
def test_it_reads_what_it_declares_and_its_verdicts_say_what_it_decided(name: str) -> None:
    read: set[str] = set()
    seen: set[str] = set()

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(cluster=clusters(), data=st.data())
    def all_checks(cluster: Cluster, data: st.DataObject) -> None:
        found, rules = check(MODULAR[name], cluster, data)
        read.update(found)
        seen.update(rules)

    all_checks()
    assert set(MODULAR[name].keys) == read & set(MODULAR[name].keys), "a declared key is never read"
    assert {rule.name for rule in MODULAR[name].rules} - seen == NOT_REACHED.get(name, set()), "a rule is never seen"


NOT_REACHED = {"UniformLoadShedder": {"no_traffic_at_all"}}
"""Of no cluster with brokers; `test_without_brokers_there_is_nothing_to_decide` reaches it."""


@given(found=extensible_clusters())
def test_transfer_shedders_verdicts_are_given_by_its_own_rules(found: ExtensibleCluster) -> None:
    made = found.transfers()
    if made.status == "ran":
        assert all(row.by in RULES and holds(row) for row in made.considered)
