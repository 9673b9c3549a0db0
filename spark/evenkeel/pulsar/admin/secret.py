"""A token that cannot be shown by accident."""

from __future__ import annotations

import hmac
from typing import Any, NoReturn, Self

from evenkeel.errors import SettingsError

HIDDEN = "[secret]"
_SHORTEST = 8


class Secret:
    """Holds a token. `str`, `repr` and formatting show `[secret]`; pickling is refused, so that it enters no hand-over.

    Blanks around the token are dropped (files end in a line feed); a token that is empty or holds anything but
    printable ASCII is a `SettingsError` that does not show it: no HTTP header can carry it.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        token = text.strip()
        if not token or not all("!" <= sign <= "~" for sign in token):
            fault = "is empty" if not token else "holds blanks, line feeds or signs that are no ASCII"
            raise SettingsError(f"the token {fault}: give the bare token, as `pulsar tokens create` prints it")
        self.__text = token

    def reveal(self) -> str:
        """The token itself: for the header that carries it, and nothing else."""
        return self.__text

    def hide_in(self, text: str) -> str:
        """The text with every occurrence of the token hidden: a server may echo what it was sent.

        What is too short for any token would be found in names and figures, and is left there.
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
