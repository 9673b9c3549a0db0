"""Where credentials come from, and what is said where none are found."""

from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.connection import from_environment, resolved, variable_of


def test_a_connection_names_its_variable() -> None:
    assert variable_of("pulsar_east") == "EVENKEEL_TOKEN_PULSAR_EAST"
    assert variable_of("eu-1.prod") == "EVENKEEL_TOKEN_EU_1_PROD"


def test_the_token_stands_in_the_variable_or_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    for environment in ({"EVENKEEL_TOKEN_EAST": "abc"}, {"EVENKEEL_TOKEN_EAST_FILE": str(file)}):
        found = from_environment("east", environment)
        assert found is not None
        authorization = found.authentication.authorization(0)
        assert authorization is not None
        assert authorization.header() == "Bearer abc"
        assert "abc" not in repr(found) + repr(authorization) + repr(vars(found.authentication))
    assert from_environment("west", {"EVENKEEL_TOKEN_EAST": "abc"}) is None


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"EVENKEEL_TOKEN_EAST": "abc", "EVENKEEL_TOKEN_EAST_FILE": "/x"}, "both EVENKEEL_TOKEN_EAST and"),
        ({"EVENKEEL_TOKEN_EAST_FILE": "/dev/null/t"}, "_EAST_FILE names a file that cannot be read: Not"),
        ({"EVENKEEL_TOKEN_EAST": "a b"}, "EVENKEEL_TOKEN_EAST: the token holds blanks"),
        ({"EVENKEEL_TOKEN_EAST": "{abc"}, "EVENKEEL_TOKEN_EAST: the text begins like JSON and is not JSON"),
        ({"EVENKEEL_TOKEN_EAST": '{"abc": 1}'}, "`abc` would be ignored"),
        ({"EVENKEEL_TOKEN_EAST": "file:///x/y"}, "EVENKEEL_TOKEN_EAST names a file that cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_unshown(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        from_environment("east", environment)


def test_a_connection_that_nobody_knows_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match=r"'east' is unknown: set EVENKEEL_TOKEN_EAST to the token"):
        resolved("east", lambda _: None)
