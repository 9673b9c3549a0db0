"""JSON from outside: one error for whatever is wrong with a text."""

import pytest

from evenkeel.json_text import NotJson, TooMuchJson, parse_json, values_in


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


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_how_deep_a_text_may_be_is_exact(opening: str, closing: str) -> None:
    per_pair = opening.count("[") + opening.count("{")
    for kind in (str, str.encode):
        parse_json(kind(opening * (60 // per_pair) + "1" + closing * (60 // per_pair)), depth=60)
        with pytest.raises(TooMuchJson, match="nested too deep: more than 59 levels"):
            parse_json(kind(opening * (60 // per_pair) + "1" + closing * (60 // per_pair)), depth=59)


def test_brackets_in_texts_are_no_depth_and_no_values() -> None:
    odd = "[{" * 500 + '\\"' * 500
    assert parse_json(f'{{"a": "{odd}"}}', depth=1, values=2) == {"a": "[{" * 500 + '"' * 500}


def test_more_values_than_are_read_are_seen_before_they_are_read() -> None:
    text = "[" + "[]," * 1_000 + "[]]"
    assert len(parse_json(text, values=2_100)) == 1_001
    with pytest.raises(TooMuchJson, match="more than 2,000 values"):
        parse_json(text, values=2_000)
    assert values_in(text) == 2_002


def test_a_text_made_to_be_slow_is_gone_through_once() -> None:
    """A second time for each of its characters would take days."""
    for text in ('"' + '\\"' * 1_000_000 + "[" * 200, "[" * 3_000_000, "[[]" * 1_000_000, '"[' * 1_000_000):
        with pytest.raises(NotJson):
            parse_json(text)
