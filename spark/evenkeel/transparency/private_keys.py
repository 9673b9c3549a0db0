"""Private keys of logs as operators give them: in the environment, or in files with access for their owner only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import BadInput, SettingsError
from evenkeel.secret import private_text
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.transparency import KEY_PLACES, LOG_CONNECTION, LOG_KEY
from evenkeel.transparency.keys import SignerKey, signers_in

if TYPE_CHECKING:
    from evenkeel.secret import Secret

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
        signers = signers_in(_password_of(text, resolve), f"connection {text}")
    else:
        signers = signers_of(text if place == LOG_KEY else f"{IN_FILE}{text}", place)
    if len(signers) > _MOST_KEYS or len({signer.verifier.name for signer in signers}) > 1:
        raise SettingsError(f"{place} holds one key, or two of the same name while one replaces the other")
    return signers


def _password_of(connection: str, resolve: KeyResolver | None) -> str:
    password = None if resolve is None else resolve(connection)
    if password is None:
        raise SettingsError(
            f"{LOG_CONNECTION} names the connection {connection!r}, which is unknown: make it in Airflow, with "
            f"the log's private key as its password, or set {LOG_KEY} instead. Outside of Airflow none is known"
        )
    return password.reveal()


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
