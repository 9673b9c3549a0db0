"""Secrets: kept from being shown by accident, and read from a variable or from a file."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from evenkeel.errors import SettingsError

FILE = "_FILE"
HIDDEN = "[secret]"
_SHORTEST = 8
_FOR_OTHERS = 0o077


class Secret:
    """A token. `str`, `repr` and formatting show `[secret]`; pickling is refused, so that it enters no hand-over.

    Blanks around the token are dropped (files end in a line feed). Raises `SettingsError`, which does not show it, if
    the token is empty or holds anything but printable ASCII: no HTTP header can carry it.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        token = text.strip()
        if not token or not all("!" <= sign <= "~" for sign in token):
            fault = "is empty" if not token else "holds blanks, line feeds or characters outside ASCII"
            raise SettingsError(f"the token {fault}: give the bare token, as `pulsar tokens create` prints it")
        self.__text = token

    def reveal(self) -> str:
        """Return the token itself: for the header that carries it, and nothing else."""
        return self.__text

    def hide_in(self, text: str) -> str:
        """Return the text with every occurrence of the token hidden: a server may echo its request.

        A string too short for any token stays: it would occur in names and figures.
        """
        if len(self.__text) < _SHORTEST or self.__text not in text:
            return text
        return text.replace(self.__text, HIDDEN)

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self.__text, other.reveal())

    def __hash__(self) -> int:
        return hash((Secret, self.__text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret is not pickled: resolve it where it is used")


def variable_name(prefix: str, name: str) -> str:
    """Return the environment variable for this name.

    Names that differ only in case, or in characters that no variable can have, share their variable.
    """
    return prefix + re.sub(r"[^A-Z0-9]", "_", name.upper())


def text_given(name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the text of the variable, or of the file that `<name>_FILE` names, and which of the two names was set.

    Returns None if neither is set. Raises `SettingsError`, which shows no content, if both are set or the file cannot
    be read.
    """
    text, file = environment.get(name), environment.get(name + FILE)
    if text and file:
        raise SettingsError(f"both {name} and {name + FILE} are set: unset one of them")
    if text:
        return text, name
    return (content_of(file, name + FILE), name + FILE) if file else None


def content_of(file: str, name: str) -> str:
    """Return the text of the file that the variable `name` names; raises SettingsError, which shows nothing of both."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingsError(f"{name} names a file that cannot be read: {reason}") from None


def private_text(path: Path, place: str) -> str:
    """Return the text of a file that only its owner may read; `place` names the origin of the path, for messages.

    Raises SettingsError, which shows no content, if others may read or write the file, or it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _FOR_OTHERS:
                raise SettingsError(
                    f"{place} names {path}, which others than its owner may read or write ({mode & 0o777:04o}): "
                    f"chmod 600 {path}; if others may have read it, make a new key"
                )
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingsError(f"{place} names a file that cannot be read: {reason}") from None
