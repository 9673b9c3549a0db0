"""Private keys as operators give them."""

import stat
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.secret import Secret
from evenkeel.transparency.keys import make_key_file, signers_from_environment, signers_of
from tests.transparency.logs import LOG_KEY, OTHER_KEY

WITNESS = "PRIVATE+KEY+witness.example/1+dee17840+BAIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAh"
TEXT, OTHER = LOG_KEY.secret().reveal(), OTHER_KEY.secret().reveal()


def names_of(environment: dict[str, str]) -> list[str]:
    return [signer.verifier.text for signer in signers_from_environment(environment)]


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "log.key"
    make_key_file(path, LOG_KEY.secret())
    return path


def test_the_key_comes_from_a_variable_or_from_a_file(key_file: Path) -> None:
    own = [LOG_KEY.verifier.text]
    assert names_of({}) == []
    assert names_of({"EVENKEEL_LOG_KEY": TEXT}) == own
    assert names_of({"EVENKEEL_LOG_KEY": f"file:{key_file}"}) == own
    assert names_of({"EVENKEEL_LOG_KEY_FILE": str(key_file)}) == own
    assert names_of({"EVENKEEL_LOG_KEY": f"{OTHER}\n{TEXT}"}) == [OTHER_KEY.verifier.text, *own]
    with pytest.raises(SettingsError, match="EVENKEEL_LOG_KEY and EVENKEEL_LOG_KEY_FILE are set: unset all but one"):
        names_of({"EVENKEEL_LOG_KEY": TEXT, "EVENKEEL_LOG_KEY_FILE": str(key_file)})


def test_the_key_comes_from_a_connection_that_is_known() -> None:
    environment = {"EVENKEEL_LOG_CONNECTION": "evenkeel_log"}
    known = {"evenkeel_log": Secret(f"{OTHER},{TEXT}"), "evenkeel_none": Secret("none")}
    found = signers_from_environment(environment, known.get)
    assert [signer.verifier for signer in found] == [OTHER_KEY.verifier, LOG_KEY.verifier]
    for resolve in (None, {}.get):
        with pytest.raises(SettingsError, match="names the connection 'evenkeel_log', which is unknown"):
            signers_from_environment(environment, resolve)
    with pytest.raises(SettingsError, match="connection evenkeel_none: a private key cannot be read"):
        signers_from_environment({"EVENKEEL_LOG_CONNECTION": "evenkeel_none"}, known.get)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nonsense", "cannot be read"),
        (f"{TEXT},{TEXT}", "twice"),
        (WITNESS, "cannot be read"),
        ("file:/nowhere/at/all", "cannot be read: No such file"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(text: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=fault) as told:
        signers_from_environment({"EVENKEEL_LOG_KEY": text})
    assert "PRIVATE+KEY+e" not in str(told.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_key_file_that_others_may_read_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(SettingsError, match=f"others than its owner may read or write \\({mode:04o}\\): chmod 600"):
        signers_of(f"file:{key_file}", "EVENKEEL_LOG_KEY")


def test_a_key_file_is_for_its_owner_and_never_written_over(key_file: Path) -> None:
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    before = key_file.read_bytes()
    with pytest.raises(BadInput, match="no key is ever overwritten"):
        make_key_file(key_file, OTHER_KEY.secret())
    assert key_file.read_bytes() == before
    with pytest.raises(BadInput, match="cannot be written"):
        make_key_file(key_file / "inside", OTHER_KEY.secret())
