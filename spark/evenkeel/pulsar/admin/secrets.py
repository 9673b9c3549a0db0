"""Where tokens come from. What is named in a configuration is a connection, never the token itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.secret import Secret

VARIABLE = "EVENKEEL_TOKEN_"
FILE = "_FILE"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a connection brings: a token, and admin addresses where it names any."""

    token: Secret | None
    urls: tuple[str, ...] = ()


Resolver = Callable[[str], Credentials | None]
"""From the name of a connection to what it brings; None where it is not known."""


def variable_of(connection: str) -> str:
    """The environment variable that holds the token of a connection: `EVENKEEL_TOKEN_PULSAR_EAST`."""
    return VARIABLE + re.sub(r"[^A-Z0-9]", "_", connection.upper())


def from_environment(connection: str, environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """The token in the connection's variable, or in the file that its `…_FILE` names."""
    return from_variable(variable_of(connection), environment)


def from_variable(name: str, environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """The token in a variable, or in the file that `<name>_FILE` names; both at once is a `SettingsError`."""
    text, file = environment.get(name), environment.get(name + FILE)
    if text and file:
        raise SettingsError(f"both {name} and {name + FILE} are set: unset one of them")
    if not text and not file:
        return None
    return Credentials(_secret(text, name) if text else _secret(_content(str(file), name + FILE), name + FILE))


def resolved(connection: str, resolve: Resolver) -> Credentials:
    """What the connection brings; `SettingsError` where nobody knows it."""
    found = resolve(connection)
    if found is None:
        name = variable_of(connection)
        raise SettingsError(
            f"connection {connection!r} is not known: set {name} to the token, or {name + FILE} to a file that holds "
            "it; in Airflow, a connection of that name with the token as its password does as well"
        )
    return found


def _content(file: str, name: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SettingsError(f"{name} names {file}, which cannot be read: {reason}") from None


def _secret(text: str, name: str) -> Secret:
    try:
        return Secret(text)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
