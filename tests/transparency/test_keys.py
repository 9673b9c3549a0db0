"""Keys of signed notes: their texts are those of other programs, and a private one shows itself nowhere."""

import copy
import hashlib
import logging
import pickle
import stat
import traceback
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from evenkeel.errors import BadInput, BadNote, BadSignature, SettingsError
from evenkeel.secret import Secret
from evenkeel.transparency.keys import (
    COSIGNATURE,
    ED25519,
    NoteSignature,
    SignerKey,
    VerifierKey,
    base64_bytes,
    is_key_name,
    make_key_file,
    signers_from_environment,
    signers_in,
    signers_of,
)
from tests.transparency.logs import LOG_KEY, NOON, OTHER_KEY, WITNESS_KEY

# From C2SP signed-note, golang.org/x/mod/sumdb/note (its documentation), sum.golang.org, and transparency-dev/formats
# (note/note_cosigv1_test.go).
PUBLIC_KEYS = {
    "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k": ED25519,
    "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW": ED25519,
    "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8": ED25519,
    "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2": COSIGNATURE,
}


@pytest.mark.parametrize("text", PUBLIC_KEYS)
def test_verifier_keys_of_others_are_read_and_written_alike(text: str) -> None:
    key = VerifierKey.read(text)
    assert key.text == text
    assert key.kind == PUBLIC_KEYS[text]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is <name>"),
        ("example.com/foo", "is <name>"),
        ("example.com/foo+530d903a", "is <name>"),
        ("+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "is <name>"),
        ("example com+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "is <name>"),
        ("example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "is <name>"),
        ("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2", "is <name>"),
        ("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2l", "not its own"),
        ("example.com/fooo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "not its own"),
        ("ехample.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", r"\\u0435\\u0445ample.*not its own"),
        ("example.com/foo+530d903a+BukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "kind 0x06"),
        ("example.com/foo+530d903a+AQ==", "of 32 bytes"),
    ],
)
def test_a_text_that_is_no_verifier_key_is_refused(text: str, fault: str) -> None:
    with pytest.raises(BadNote, match=fault):
        VerifierKey.read(text)


def test_a_private_key_comes_back_from_its_text() -> None:
    made = SignerKey.make("example.com/evenkeel")
    again = SignerKey.read(made.secret())
    assert again.verifier == made.verifier
    assert again.secret() == made.secret()
    assert made.secret().reveal().startswith(f"PRIVATE+KEY+example.com/evenkeel+{made.verifier.key_id.hex()}+")


def test_the_private_key_of_the_go_library_is_read() -> None:
    """The example of golang.org/x/mod/sumdb/note (its documentation, BSD licence)."""
    key = SignerKey.read(Secret("PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"))
    assert key.verifier.text in PUBLIC_KEYS


@pytest.mark.parametrize(
    "text",
    [
        "PRIVATE+KEY+example.com/evenkeel",
        "PRIVATE+KEY+example.com/evenkeel+00000000+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
        "PUBLIC+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
        "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
    ],
)
def test_what_is_wrong_with_a_private_key_is_told_without_it(text: str) -> None:
    with pytest.raises(SettingsError, match="this message shows nothing of it") as error:
        SignerKey.read(Secret(text))
    told = "".join(traceback.format_exception(error.value))
    assert "AYEKFALV" not in told
    assert "00000000" not in told


def test_a_private_key_shows_itself_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    private = LOG_KEY.secret().reveal().rpartition("+")[2]
    with caplog.at_level(logging.INFO):
        logging.getLogger("keys").info("%s %r", LOG_KEY, LOG_KEY)
    for shown in (repr(LOG_KEY), f"{LOG_KEY}", str([LOG_KEY]), caplog.text, repr(LOG_KEY.secret())):
        assert private not in shown
        assert bytes(range(8)).hex() not in shown
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(LOG_KEY)
    with pytest.raises(TypeError, match="not pickled"):
        copy.copy(LOG_KEY)


def test_several_private_keys_stand_in_one_text() -> None:
    texts = [key.secret().reveal() for key in (LOG_KEY, OTHER_KEY)]
    for text in (",".join(texts), "\n".join(texts) + "\n", f" {texts[0]} ,\n\n{texts[1]}"):
        assert [key.verifier for key in signers_in(text, "EVENKEEL_LOG_KEY")] == [LOG_KEY.verifier, OTHER_KEY.verifier]
    faults = {"": "no private key", f"{texts[0]},{texts[0]}": "twice", f"{texts[0]}\n{texts[1][:-2]}": "cannot be read"}
    for text, fault in faults.items():
        with pytest.raises(SettingsError, match=fault) as told:
            signers_in(text, "EVENKEEL_LOG_KEY")
        assert str(told.value).startswith("EVENKEEL_LOG_KEY")
        assert texts[0].rpartition("+")[2] not in "".join(traceback.format_exception(told.value))


@pytest.mark.parametrize("name", ["", "with blank", "plus+", "com,ma", "ünïcode", "tab\t", "x" * 256])
def test_a_key_of_ours_has_a_plain_name(name: str) -> None:
    with pytest.raises(SettingsError, match="printable ASCII"):
        SignerKey.make(name)


def test_names_of_other_keys_may_be_unicode_without_spaces() -> None:
    assert is_key_name("Ünïcode/日本")
    for name in ("", "a b", "a\u00a0b", "a\u2003b", "a\u3000b", "a\x85b", "a+b", "a\nb", "a\x00", "\ud800", "é" * 256):
        assert not is_key_name(name)


def test_a_cosignature_is_read_as_the_spec_says() -> None:
    """tlog-cosignature, word by word."""
    text = b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    made = WITNESS_KEY.sign(text, 1_679_315_147)
    public = WITNESS_KEY.verifier.public
    assert made.key_id == hashlib.sha256(b"witness.example/1\n\x04" + public).digest()[:4]
    assert made.body[:8] == bytes.fromhex("000000006418 50cb".replace(" ", ""))
    message = b"cosignature/v1\ntime 1679315147\n" + text
    Ed25519PublicKey.from_public_bytes(public).verify(made.body[8:], message)
    assert WITNESS_KEY.verifier.verify(text, made) == 1_679_315_147


def test_a_signature_of_another_time_length_or_kind_is_wrong() -> None:
    text, key = b"text\n", WITNESS_KEY.verifier
    made = WITNESS_KEY.sign(text, NOON)
    plain = VerifierKey(key.name, ED25519, key.public)
    as_plain = SignerKey.read(LOG_KEY.secret()).sign(text)
    for wrong in (
        (NOON + 1).to_bytes(8) + made.body[8:],
        (1 << 63).to_bytes(8) + made.body[8:],
        made.body[:-1],
        made.body + b"\0",
        made.body[8:],
        b"",
    ):
        with pytest.raises(BadSignature, match="is wrong"):
            key.verify(text, NoteSignature(key.name, key.key_id, wrong))
    with pytest.raises(BadSignature):
        plain.verify(text, made)
    with pytest.raises(BadSignature):
        LOG_KEY.verifier.verify(b"other\n", as_plain)


def test_base64_has_one_text_for_the_same_bytes() -> None:
    assert base64_bytes("AA==") == b"\0"
    for text in ("AB==", "AA=", "AA", "AA==\n", " AA==", "A-_=", "ÄÄ==", "AA==AA=="):
        assert base64_bytes(text) is None


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
        with pytest.raises(SettingsError, match="names a connection that is unknown"):
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
