"""JSON from outside: one reader, one error for all faults of a text.

The reader checks the nesting depth and the number of values before it parses: `[[],[],…` becomes twenty times its size
in memory, and a text that is nested too deep ends in the middle of the parser.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH = 100
VALUES = 8_000_000
"""Limit of values in a text, unless the reader sets another one; a value takes up to 100 bytes once it is read."""

# Possessive, and an open text matches up to the end: the expression never reads a character twice.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")
_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_FEW = 100_000


class NotJson(ValueError):
    """A text is not JSON, or is nested too deep to be read. `msg` is the fault without its place in the text."""

    def __init__(self, text: str, msg: str) -> None:
        super().__init__(text)
        self.msg = msg


class TooMuchJson(NotJson):
    """A text is nested deeper, or has more values, than the limits allow."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, reason)


def parse_json(text: str | bytes, *, depth: int = DEPTH, values: int = VALUES) -> Any:
    """Return the value of a JSON text, of any type.

    Raises `NotJson` for any other text, also for bytes that are not UTF-8, and `TooMuchJson` if the text is nested
    deeper than `depth` or has more than `values` values.
    """
    _demand_small(text, depth, values)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise NotJson(str(error), error.msg) from None
    except RecursionError:
        raise _too_deep(depth) from None
    except ValueError as error:
        raise NotJson(str(error), str(error)) from None


def values_in(text: str | bytes) -> int:
    """Return an upper bound for the number of values and names in a JSON text, counted without parsing it."""
    data = _bytes_of(text)
    found = _signs(data)[1]
    return found if found <= _FEW else _signs(_bare(data))[1]


def _demand_small(text: str | bytes, depth: int, values: int) -> None:
    data = _bytes_of(text)
    openers, signs = _signs(data)
    if openers <= depth and signs <= values:
        return
    bare = _bare(data)
    openers, signs = _signs(bare)
    if signs > values:
        raise TooMuchJson(f"it has more than {values:,} values")
    if openers > depth and _is_deeper(bare.translate(_AS_BRACKETS, _ALL_BUT_BRACKETS), depth):
        raise _too_deep(depth)


def _bytes_of(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _bare(data: bytes) -> bytes:
    """Return the text without its quoted parts."""
    return _TEXTS.sub(b"", data)


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Return True if more than `depth` brackets are open at once; each round removes the innermost pairs."""
    for _ in range(depth):
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            return rest.count(b"[") > depth
        brackets = rest
    return b"[" in brackets


def _signs(data: bytes) -> tuple[int, int]:
    """Return the number of opening brackets, and of all characters that a value or a name follows."""
    openers = data.count(b"[") + data.count(b"{")
    return openers, openers + data.count(b",") + data.count(b":")


def _too_deep(depth: int) -> TooMuchJson:
    return TooMuchJson(f"its members are nested too deep: more than {depth} levels")
