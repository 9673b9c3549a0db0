"""JSON from outside: one error for whatever is wrong with a text."""

from __future__ import annotations

import pytest

from evenkeel.json_text import NotJson, parse_json


def test_a_value_of_any_type_is_read() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}
    assert parse_json(b'"\xc3\xa4"') == "ä"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "Expecting value: line 1 column 1"),
        ("{'a': 1}", "Expecting property name"),
        (b"\xff\xfe\x00", "codec can't decode"),
        ("[" * 200_000, "nested too deep"),
        ('{"a":' * 200_000, "nested too deep"),
        ("9" * 5_000, "limit"),
    ],
)
def test_what_is_not_json_is_one_error_with_the_fault(text: str | bytes, fault: str) -> None:
    with pytest.raises(NotJson, match=fault) as caught:
        parse_json(text)
    assert caught.value.msg
    assert isinstance(caught.value, ValueError)
