"""Isolation policies: whom they leave, and what is said of one that leaves nobody or cannot be read."""

import pytest

from evenkeel.errors import BadInput
from evenkeel.model.load import IsolationPolicy, Policies
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


def test_a_policy_that_cannot_be_read_is_named() -> None:
    policies = Policies(isolation={"broken": IsolationPolicy(("t/(",))})
    with pytest.raises(BadInput, match="isolation policy 'broken'"):
        place(rated([report("b1:1")], [0.0]), policies)
