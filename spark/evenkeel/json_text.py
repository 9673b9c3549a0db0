"""JSON that comes from outside, read in one place: all that can be wrong with the text is one error.

How deep a text is nested and how many values it has are seen before it is read: `[[],[],…` becomes twenty times its
size, and what is nested too deep ends in the middle of the reader.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH = 100
VALUES = 8_000_000
"""What a text may have where its reader says nothing else; a value takes up to 100 bytes once it is read."""

# Possessive, and an open text ends with the whole: no text makes it look twice at a sign.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")
_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_FEW = 100_000


class NotJson(ValueError):
    """A text that is not JSON, or is nested too deep to be read. `msg`: the fault without its place in the text."""

    def __init__(self, text: str, msg: str) -> None:
        super().__init__(text)
        self.msg = msg


class TooMuchJson(NotJson):
    """A text that is nested deeper, or has more values, than is read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, reason)


def parse_json(text: str | bytes, *, depth: int = DEPTH, values: int = VALUES) -> Any:
    """The value of a JSON text, of any type; `NotJson` for any other text, also for bytes that are not UTF-8.

    `TooMuchJson` where it is nested deeper than `depth`, or where it has more than `values` values.
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
    """How many values and names a JSON text has at most: by its signs, without reading it."""
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
    """The text without what stands in quotes."""
    return _TEXTS.sub(b"", data)


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Whether more than `depth` brackets are open at once; each round takes away the innermost pairs."""
    for _ in range(depth):
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            return rest.count(b"[") > depth
        brackets = rest
    return b"[" in brackets


def _signs(data: bytes) -> tuple[int, int]:
    """Brackets that open, and all signs that a value or a name stands behind."""
    openers = data.count(b"[") + data.count(b"{")
    return openers, openers + data.count(b",") + data.count(b":")


def _too_deep(depth: int) -> TooMuchJson:
    return TooMuchJson(f"its members are nested too deep: more than {depth} levels")
