"""Isolation policies: whom they leave, and what is said of one that leaves nobody or cannot be read."""

import pytest

from evenkeel.errors import BadInput
from evenkeel.model.filters.isolation import Allowed, Isolation
from evenkeel.model.load import IsolationPolicy, Policies
from evenkeel.settings import Settings
from tests.place.clusters import NEW, place, rated, report


def test_nobody_may_have_a_bundle_whose_policy_matches_no_broker() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("elsewhere",))})
    found = place(rated([report("b1:1"), report("b2:1")], [0.0, 0.0]), policies)
    assert (found.destination, found.considered.outcome) == (None, "refused")
    assert found.considered.sentence() == f"{NEW} gets no broker: of 2 brokers none is a candidate."


def test_from_5_0_on_a_policy_may_name_the_port_of_a_broker() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("b2:1",))})
    load = rated([report("b1:1"), report("b2:1")], [0.0, 0.0])
    assert place(load, policies).destination is None
    assert place(load, policies, evenkeelPulsarVersion="5.0").destination == "b2:1"


def test_each_broker_that_may_not_have_a_bundle_is_told_with_its_reason() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("b1",), ("b2",), 1)})
    brokers = [
        report("b1:1"), report("b2:1"), report("b3:1"), report("nameless"), report("b4:1"),
        report("b5:1", persistent_topics=False),
    ]  # fmt: skip
    load, settings = rated(brokers, [0.0] * 6), Settings().with_values({"evenkeelDrainingBrokers": frozenset(["b4:1"])})
    isolation = Isolation(policies, load.brokers, settings)
    common = {"nameless": "unreadable_name", "b4:1": "draining"}
    under = {"b2:1": "secondary", "b3:1": "outside_policy", "b5:1": "outside_policy"}
    assert isolation.allowed(NEW) == Allowed(("b1:1",), {**common, **under})
    free = isolation.allowed("t/free/0x00000000_0xffffffff")
    assert free == Allowed(
        ("b2:1", "b3:1"), {**common, "b1:1": "reserved_by_policy", "b5:1": "topic_domain_not_served"}
    )
    assert isolation.allowed_among(NEW, ["b2:1", "b3:1"]) == Allowed(("b2:1",), {"b3:1": "outside_policy"})


def test_a_policy_that_cannot_be_read_is_named() -> None:
    policies = Policies(isolation={"broken": IsolationPolicy(("t/(",))})
    with pytest.raises(BadInput, match="isolation policy 'broken'"):
        place(rated([report("b1:1")], [0.0]), policies)
