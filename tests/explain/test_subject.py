import pytest

from evenkeel.errors import BadInput
from evenkeel.explain.subject import parse_subject


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("acme/web/0x00000000_0x40000000", "bundle", "acme/web/0x00000000_0x40000000"),
        ("acme/web/0X0_0x40000000", "bundle", "acme/web/0x00000000_0x40000000"),
        ("persistent://acme/web/orders", "topic", "persistent://acme/web/orders"),
        ("non-persistent://acme/web/a-partition-3", "topic", "non-persistent://acme/web/a-partition-3"),
        ("acme/web/orders", "topic", "persistent://acme/web/orders"),
        ("segment://acme/web/orders/0000-7fff-1", "topic", "segment://acme/web/orders/0000-7fff-1"),
        ("topic://acme/web/orders", "topic", "topic://acme/web/orders"),
        ("broker-1.example:8080", "broker", "broker-1.example:8080"),
        ("127.0.0.1:19080", "broker", "127.0.0.1:19080"),
        (" B538C0DE ", "command", "b538c0de"),
    ],
)
def test_a_subject_is_known_by_its_form(text: str, kind: str, name: str) -> None:
    found = parse_subject(text)
    assert (found.kind, found.name) == (kind, name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("acme/web", "is a namespace"),
        ("acme/web/0x40000000_0x00000000", "is not a bundle"),
        ("acme/web/0x0_0x1ffffffff", "is not a bundle"),
        ("orders", "nothing that can be explained"),
        ("", "nothing that can be explained"),
        ("http://acme/web/orders", "unknown domain"),
    ],
)
def test_anything_else_is_refused_with_what_there_is(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_subject(text)
