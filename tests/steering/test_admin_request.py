"""The request of a command is made of its fields: no other request can be had from a message or a row."""

import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenkeel.errors import BadInput
from evenkeel.model.topics import topic_hash
from evenkeel.steering.admin_request import demand_sense, request_of, request_text
from tests.steering.commands import split, unload, unload_topic

BUNDLE = "acme/orders/0x00000000_0x40000000"
INSIDE, OUTSIDE = (
    next(
        name
        for name in (f"persistent://acme/orders/in-{n}" for n in range(99))
        if (topic_hash(name) < 0x40000000) is inside
    )
    for inside in (True, False)
)
names = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=20)


@given(tenant=names, namespace=names, host=st.from_regex(r"[a-z.-]{1,30}", fullmatch=True), port=st.integers(1, 65535))
def test_a_request_names_one_bundle_and_one_broker_whatever_their_names_hold(
    tenant: str, namespace: str, host: str, port: int
) -> None:
    bundle = f"{tenant}/{namespace}/0x00000000_0x40000000"
    path, body = request_of(unload(bundle, "b1:8080", f"{host}:{port}"))
    parts = urlsplit(path)
    assert [unquote(name) for name in parts.path.split("/")] == [
        "",
        "admin",
        "v2",
        "namespaces",
        *bundle.split("/"),
        "unload",
    ]
    assert parse_qs(parts.query) == {"destinationBroker": [f"{host}:{port}"]}
    assert (parts.scheme, parts.netloc, parts.fragment, body) == ("", "", "", None)


@given(local=names, domain=st.sampled_from(["persistent", "non-persistent"]))
def test_a_topics_request_names_one_topic_whatever_its_name_holds(local: str, domain: str) -> None:
    assume(local.strip())
    path, body = request_of(unload_topic(BUNDLE, f"{domain}://acme/orders/{local}", "b1:8080"))
    parts = urlsplit(path)
    names_of = [unquote(name) for name in parts.path.split("/")]
    assert names_of == ["", "admin", "v2", domain, "acme", "orders", local, "unload"]
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment, body) == ("", "", "", "", None)


def test_a_split_sends_its_cuts_ascending_and_each_once() -> None:
    """The modular manager never answers to doubled positions; the record keeps them as they were decided."""
    row = split(BUNDLE, "b1:8080", 30, 10, 10, children=True)
    path, body = request_of(row)
    assert path.endswith("/0x00000000_0x40000000/split?splitAlgorithmName=specified_positions_divide&unload=true")
    assert json.loads(body or "") == [10, 30]
    assert request_text(row) == f"PUT {path} [30, 10, 10]"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (unload(BUNDLE, "b1:8080", request="PUT /admin/v2/tenants/evil {}"), "is not that of its fields"),
        (
            unload(BUNDLE, "b1:8080", request="PUT /admin/v2/namespaces/victim/payments/unload"),
            "is not that of its fields",
        ),
        (unload(BUNDLE, "b1:8080", kind="delete"), "unknown kind 'delete'"),
        (unload(BUNDLE, "b1:8080", cuts=[5]), "an unload has no cuts"),
        (unload(BUNDLE, "b1:8080", mode="dry_run"), "mode 'dry_run' sends nothing: it has to be approve or auto"),
        (unload(BUNDLE, "b1:8080", "evil.example/?x=1:80"), "destination .* is not a broker id: those are host:port"),
        (unload(BUNDLE, "user:secret@evil.example:80"), "from_broker .* is not a broker id"),
        (unload(BUNDLE, "b1:8080", "b2"), "destination 'b2' is not a broker id"),
        (unload("../tenants/0x00000000_0x40000000", "b1:8080"), "is not a bundle's name"),
        (unload("acme/../0x00000000_0x40000000", "b1:8080"), "is not a bundle's name"),
        (unload("orders/0x00000000_0x40000000", "b1:8080"), "is not a bundle's name"),
        (unload("acme/or\nders/0x00000000_0x40000000", "b1:8080"), "is not a bundle's name"),
        (split(BUNDLE, "b1:8080"), r"cuts \[\] do not lie inside acme/orders"),
        (split(BUNDLE, "b1:8080", 0), r"cuts \[0\] do not lie inside"),
        (split(BUNDLE, "b1:8080", 2**30), "do not lie inside"),
        (split(BUNDLE, "b1:8080", 5, destination="b2:8080"), "a split has no destination"),
        (unload_topic(BUNDLE, INSIDE, "b1:8080", destination="b2:8080"), "an unload of a topic has no destination"),
        (unload_topic(BUNDLE, INSIDE, "b1:8080", cuts=[1]), "an unload of a topic has no cuts"),
        (unload_topic(BUNDLE, OUTSIDE, "b1:8080"), "does not lie in acme/orders/0x00000000_0x40000000"),
        (unload_topic(BUNDLE, "persistent://acme/payments/x", "b1:8080"), "does not lie in acme/orders"),
        (unload_topic(BUNDLE, INSIDE.replace("persistent", "PERSISTENT"), "b1:8080"), "is not a topic's name"),
        (unload_topic(BUNDLE, "persistent://acme/orders/..", "b1:8080"), "is not a topic's name"),
        (unload_topic(BUNDLE, "persistent://acme/orders/a\nb", "b1:8080"), "is not a topic's name"),
        (unload_topic(BUNDLE, "persistent://acme/orders/a/b", "b1:8080", request=""), "an unload of a topic names one"),
        (unload(BUNDLE, "b1:8080", kind="unload_topic", request=""), "an unload of a topic names one"),
        (unload(BUNDLE, "b1:8080", topic=INSIDE), "an unload names no topic, and this one names"),
    ],
)
def test_fields_that_make_no_command_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        demand_sense(row)


@pytest.mark.parametrize(
    "row",
    [
        *(unload(BUNDLE, "b1:8080"), unload(BUNDLE, "[::1]:8080", "b-2.eu:8443"), split(BUNDLE, "b1:1", 9)),
        unload_topic(BUNDLE, INSIDE, "b1:8080"),
    ],
)
def test_fields_of_a_plan_make_sense(row: dict[str, Any]) -> None:
    demand_sense(row)
