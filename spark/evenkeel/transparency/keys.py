"""Keys of signed notes: a private key signs, and its verifier key is published.

C2SP signed-note and tlog-cosignature. Two kinds of signature are verified: Ed25519 over the note's text (0x01, by logs;
this package makes them), and Ed25519 over a checkpoint and its time of observation (0x04, by witnesses).

The private key is one line of text, `PRIVATE+KEY+<name>+<key id>+<base64>`, as other programs for signed notes keep it.
An operator gives it in an environment variable, as the password of a connection, or in a file to which only its owner
has access. Only `SignerKey.secret` shows it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from evenkeel.errors import BadInput, BadNote, BadSignature, SettingsError
from evenkeel.secret import Secret, private_text
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.transparency import KEY_PLACES, LOG_CONNECTION, LOG_KEY

ED25519 = 0x01
"""Signature type of a log: Ed25519 over the text of the note (signed-note, *Signature types*)."""
COSIGNATURE = 0x04
"""Signature type of a witness: Ed25519 over a checkpoint with a time (tlog-cosignature, `cosignature/v1`)."""
MOST_NAME_BYTES = 255
"""The longest name of a key. The spec has no limit; newer cosignatures hold a name in one byte's length."""
LATEST_SECOND = (1 << 63) - 1
"""The last moment that a cosignature can name, in seconds since 1970 (tlog-cosignature, *Format*)."""

_PRIVATE = ("PRIVATE", "KEY")
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_TIME_BYTES = 8
_ID = re.compile(r"[0-9a-f]{8}")
_OWN_NAME = re.compile(r"[!-*\--~]+")  # printable ASCII without plus and comma


def base64_bytes(text: str) -> bytes | None:
    """Return the bytes of a text in standard Base64 (RFC 4648, section 4), padded and without extra bits; None for
    others."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return data if base64.b64encode(data).decode() == text else None


def base64_text(data: bytes) -> str:
    """Return bytes in standard Base64 (RFC 4648, section 4), padded."""
    return base64.b64encode(data).decode()


def shown(text: str, most: int = 120) -> str:
    """Return a foreign text for a message: in quotes, cut, and with every character outside ASCII escaped.

    So names that look alike are told apart.
    """
    return ascii(text if len(text) <= most else f"{text[:most]}…")


def is_key_name(name: str) -> bool:
    """Return True if a key may have this name.

    It is not empty, has no Unicode space, no plus, no control character (signed-note, *Format*), and is not longer than
    `MOST_NAME_BYTES`.
    """
    if not name or len(name) > MOST_NAME_BYTES or "+" in name:
        return False
    return all(sign >= " " and not sign.isspace() and not "\ud800" <= sign <= "\udfff" for sign in name)


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A signature line: the key's name, its id (4 bytes), and the key's signature (64 bytes, or a time and 64)."""

    name: str
    key_id: bytes
    body: bytes

    @property
    def line(self) -> str:
        """Return the line of the note, with its line feed."""
        return f"— {self.name} {base64_text(self.key_id + self.body)}\n"


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The public half of a key: its name, its kind (`ED25519` or `COSIGNATURE`) and its public key (32 bytes)."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """The first 4 bytes of SHA-256(name, line feed, kind, public key): signed-note, *Signatures*."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    @property
    def text(self) -> str:
        """The key as a public `vkey`: `<name>+<hex of the id>+<base64>` (signed-note, *Verifier keys*)."""
        return f"{self.name}+{self.key_id.hex()}+{base64_text(bytes([self.kind]) + self.public)}"

    @classmethod
    def read(cls, text: str) -> VerifierKey:
        """Return the key of a `vkey`; raises BadNote if it is invalid, of another kind, or has a wrong id."""
        kind, name, key_id, public = _parts_of(text.strip(), "verifier key")
        key = cls(name, kind, public)
        if key.key_id.hex() != key_id:
            raise BadNote(f"the verifier key {shown(text)} has an id that is not its own: it was cut or changed")
        return key

    @property
    def bare(self) -> str:
        """The key without its name, `<hex of the id>+<base64>`."""
        return self.text.removeprefix(f"{self.name}+")

    @classmethod
    def read_bare(cls, name: str, text: str) -> VerifierKey:
        """Return the log key of that name, from `bare`; raises BadNote."""
        key = cls.read(f"{name}+{text}")
        if key.kind != ED25519:
            raise BadNote("the key of a witness where a log's key belongs")
        return key

    def verify(self, text: bytes, signature: NoteSignature) -> int | None:
        """Verify the signature of this key; return its time in seconds since 1970, None for `ED25519`.

        `text`: the note's text with its last line feed. Raises BadSignature.
        """
        at, message, bare = None, text, signature.body
        if self.kind == COSIGNATURE:
            at, bare = int.from_bytes(bare[:_TIME_BYTES]), bare[_TIME_BYTES:]
            message = cosigned_message(text, at)
        try:
            if len(bare) != _SIGNATURE_BYTES or (at or 0) > LATEST_SECOND:
                raise InvalidSignature
            Ed25519PublicKey.from_public_bytes(self.public).verify(bare, message)
        except (InvalidSignature, ValueError):
            raise BadSignature(f"the signature by {shown(self.name)} is wrong: text or signature was changed") from None
        return at


def cosigned_message(text: bytes, at: int) -> bytes:
    """Return the bytes that a witness signs.

    They are a header, the time in seconds since 1970, and the whole text of the checkpoint (tlog-cosignature, *Ed25519
    signed message*).
    """
    return b"cosignature/v1\ntime %d\n" % at + text


class SignerKey:
    """The private key of a log. `repr` and formatting show its public half; pickling is refused."""

    __slots__ = ("__private", "verifier")

    def __init__(self, name: str, seed: bytes) -> None:
        """Take `name`, printable ASCII without blank, plus and comma, e.g. `example.com/evenkeel`, and `seed`, 32
        bytes."""
        if not _OWN_NAME.fullmatch(name) or not is_key_name(name):
            raise SettingsError(
                f"a key named {shown(name)}: a name is 1 to {MOST_NAME_BYTES} printable ASCII characters, no blank, "
                "plus or comma among them, best a domain and a path that are yours, such as example.com/evenkeel"
            )
        self.__private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, ED25519, self.__private.public_key().public_bytes_raw())

    @classmethod
    def make(cls, name: str) -> SignerKey:
        """Return a new key of that name."""
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def read(cls, secret: Secret) -> SignerKey:
        """Return the key in its private text; raises SettingsError, which shows nothing of the text."""
        parts = secret.reveal().split("+", 2)
        try:
            if tuple(parts[:2]) != _PRIVATE:
                raise BadNote("no private key")
            kind, name, key_id, seed = _parts_of(parts[2], "private key")
            key = cls(name, seed)
            if kind != ED25519 or key.verifier.key_id.hex() != key_id:
                raise BadNote("another kind or id")
        except (BadNote, SettingsError):
            raise SettingsError(
                "the private key of the log cannot be read: it is one line that begins with PRIVATE+KEY+, as "
                "`evenkeel log make-key` wrote it; this message shows nothing of it"
            ) from None
        return key

    def secret(self) -> Secret:
        """Return the private key as one line of text, for the operator alone."""
        body = base64_text(bytes([ED25519]) + self.__private.private_bytes_raw())
        return Secret(f"{'+'.join(_PRIVATE)}+{self.verifier.name}+{self.verifier.key_id.hex()}+{body}")

    def sign(self, text: bytes) -> NoteSignature:
        """Return the signature of a note's text, with its last line feed."""
        return NoteSignature(self.verifier.name, self.verifier.key_id, self.__private.sign(text))

    def __repr__(self) -> str:
        return f"SignerKey({self.verifier.text})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a private key is not pickled: read it where it is used")


def signers_in(text: str, place: str) -> tuple[SignerKey, ...]:
    """Return the private keys in a text, separated by commas or line feeds.

    After a rotation it is the new one, and for a while the old one, which then both sign. Raises SettingsError, which
    names the origin of the text and shows nothing of it.
    """
    parts = [part for part in re.split(r"[,\n]", text) if part.strip()]
    try:
        signers = tuple(SignerKey.read(Secret(part)) for part in parts)
    except SettingsError:
        raise SettingsError(
            f"{place}: a private key cannot be read: each is one line that begins with PRIVATE+KEY+, as it was made"
        ) from None
    if not signers or len({signer.verifier for signer in signers}) < len(signers):
        raise SettingsError(f"{place} holds {'no private key' if not signers else 'a private key twice'}")
    return signers


def _parts_of(text: str, what: str) -> tuple[int, str, str, bytes]:
    """Return kind, name, id and key of `<name>+<id>+<base64>`; the base64 itself may hold plus signs."""
    name, _, id_and_key = text.partition("+")
    key_id, _, encoded = id_and_key.partition("+")
    data = base64_bytes(encoded)
    if not is_key_name(name) or not _ID.fullmatch(key_id) or not data:
        raise BadNote(f"a {what} is <name>+<8 hex digits>+<base64>, and this text is not")
    kind, key = data[0], data[1:]
    if kind not in (ED25519, COSIGNATURE) or len(key) != _KEY_BYTES:
        raise BadNote(f"a {what} of the kind {kind:#04x}: {ED25519:#04x} and {COSIGNATURE:#04x} are known, of 32 bytes")
    return kind, name, key_id, key


IN_FILE = "file:"
"""Prefix of a setting whose value is in a file."""
KeyResolver = Callable[[str], "Secret | None"]
"""Function from the name of a connection to the private key in it; None if the name is unknown."""
_MOST_KEYS = 2


def signers_from_environment(
    environment: Mapping[str, str] = ENVIRONMENT, resolve: KeyResolver | None = None
) -> tuple[SignerKey, ...]:
    """Return the log's private keys; none if no variable says where they are.

    One key, or two after a rotation: the new one first. `resolve` looks up connections. Raises SettingsError, which
    shows nothing of them.
    """
    given = [name for name in KEY_PLACES if environment.get(name)]
    if len(given) > 1:
        raise SettingsError(f"{' and '.join(given)} are set: unset all but one of them")
    if not given:
        return ()
    (place,) = given
    text = environment[place]
    if place == LOG_CONNECTION:
        password = None if resolve is None else resolve(text)
        if password is None:
            raise SettingsError(
                f"{LOG_CONNECTION} names a connection that is unknown: make it in Airflow, with the log's "
                f"private key as its password, or set {LOG_KEY} instead. Outside of Airflow none is known"
            )
        signers = signers_in(password.reveal(), f"connection {text}")
    else:
        signers = signers_of(text if place == LOG_KEY else f"{IN_FILE}{text}", place)
    if len(signers) > _MOST_KEYS or len({signer.verifier.name for signer in signers}) > 1:
        raise SettingsError(f"{place} holds one key, or two of the same name while one replaces the other")
    return signers


def signers_of(text: str, place: str) -> tuple[SignerKey, ...]:
    """Return the private keys in a text, or in the file that `file:PATH` names, which only its owner may read."""
    if not text.startswith(IN_FILE):
        return signers_in(text, place)
    file = text.removeprefix(IN_FILE)
    return signers_in(private_text(Path(file), place), f"{place} ({file})")


def make_key_file(path: Path, key: Secret) -> None:
    """Write a private key into a new file that only its owner may read; raises BadInput if the file exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} exists already: no key is ever overwritten; name another file") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{key.reveal()}\n")
        file.flush()
        os.fsync(file.fileno())
