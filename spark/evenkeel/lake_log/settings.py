"""What an operator says of a lake's log: its private keys, and its witnesses, in the environment or in files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadNote, SettingsError
from evenkeel.lake_log import LOG_KEY
from evenkeel.secret import FILE
from evenkeel.transparency.keys import COSIGNATURE, ED25519, SignerKey, VerifierKey, shown, signers_in
from evenkeel.transparency.witness_client import WitnessAddress

if TYPE_CHECKING:
    from evenkeel.secret import Secret

WITNESSES = "EVENKEEL_WITNESSES"
"""The environment variable with the witnesses of a log, or `file:PATH`."""

_IN_FILE = "file:"
_FOR_OTHERS = 0o077
_MOST_KEYS = 2


@dataclass(frozen=True, slots=True)
class LakeWitness:
    """A witness of a lake's log: one that listens at an address, or a file that keeps every checkpoint.

    `name` is the URL or the path as it was given; one of `address` and `path` is set.
    """

    name: str
    address: WitnessAddress | None = None
    path: Path | None = None


def signers_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[SignerKey, ...]:
    """The log's private keys; none where `EVENKEEL_LOG_KEY` and `EVENKEEL_LOG_KEY_FILE` are not set.

    One key, or two after a rotation: the new one first. Raises SettingsError, which shows nothing of them.
    """
    text, file = environment.get(LOG_KEY), environment.get(LOG_KEY + FILE)
    if text and file:
        raise SettingsError(f"both {LOG_KEY} and {LOG_KEY + FILE} are set: unset one of them")
    if not text and not file:
        return ()
    signers = signers_of(text or f"{_IN_FILE}{file}", LOG_KEY if text else LOG_KEY + FILE)
    if any(signer.verifier.kind != ED25519 for signer in signers):
        raise SettingsError(f"{LOG_KEY} holds the key of a witness: make one with `evenkeel log make-key NAME`")
    if len(signers) > _MOST_KEYS or len({signer.verifier.name for signer in signers}) > 1:
        raise SettingsError(f"{LOG_KEY} holds one key, or two of the same name while one replaces the other")
    return signers


def signers_of(text: str, place: str) -> tuple[SignerKey, ...]:
    """The private keys in a text, or in the file that `file:PATH` names, which nobody but its owner may read."""
    if not text.startswith(_IN_FILE):
        return signers_in(text, place)
    file = text.removeprefix(_IN_FILE)
    return signers_in(_private_text(Path(file), place), f"{place} ({file})")


def make_key_file(path: Path, key: Secret) -> None:
    """Writes a private key into a new file that its owner alone may read. Raises BadInput where the file is there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} is there already: no key is ever written over; name another file") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{key.reveal()}\n")
        file.flush()
        os.fsync(file.fileno())


def witnesses_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[LakeWitness, ...]:
    """The witnesses that `EVENKEEL_WITNESSES` names; none where it is not set."""
    text = environment.get(WITNESSES, "")
    return witnesses_of(text, WITNESSES) if text.strip() else ()


def witnesses_of(text: str, place: str) -> tuple[LakeWitness, ...]:
    """The witnesses in a text, or in the file that `file:PATH` names: one a line (or with commas between them).

    A line is `<vkey> <URL>`, or the path of a file that keeps every checkpoint; lines that begin with `#` are passed
    over. Raises SettingsError, which names the place and the line.
    """
    if text.startswith(_IN_FILE):
        file = text.removeprefix(_IN_FILE).strip()
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SettingsError(f"{place} names {file}, which cannot be read: {reason}") from None
    lines = [line.strip() for line in re.split(r"[,\n]", text)]
    found = tuple(_witness(line, place) for line in lines if line and not line.startswith("#"))
    if len({one.name for one in found}) < len(found):
        raise SettingsError(f"{place} names a witness twice")
    return found


def _witness(line: str, place: str) -> LakeWitness:
    vkey, blank, url = line.rpartition(" ")
    try:
        if not blank and "://" not in line:
            return LakeWitness(line, path=Path(line))
        if not vkey or urlsplit(url).scheme not in ("http", "https"):
            raise BadNote("a line is `<verifier key> <URL>`, or the path of a file")
        key = VerifierKey.read(vkey)
        if key.kind != COSIGNATURE:
            raise BadNote("the key is one of a log, and not of a witness")
        return LakeWitness(url, WitnessAddress(url, (key,)))
    except (BadInput, ValueError) as error:
        raise SettingsError(f"{place}: the witness {shown(line)} cannot be read: {error}") from None


def _private_text(path: Path, place: str) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _FOR_OTHERS:
                raise SettingsError(
                    f"{place} names {path}, which others than its owner may read or write ({mode & 0o777:04o}): "
                    f"chmod 600 {path}; if somebody may have read it, make a new key"
                )
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingsError(f"{place} names {path}, which cannot be read: {reason}") from None
