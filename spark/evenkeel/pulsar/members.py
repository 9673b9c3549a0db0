"""Members of a JSON object by type: a figure is read, is not there, or is set aside; it never becomes 0."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.pulsar.reading import Rejection, excerpt

UNREADABLE_FIGURE = "unreadable_figure"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = 2**63
# Pulsar's JSON writes what is no number as text.
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Members:
    """Typed access to the members of `body`; what is of another type is NULL and goes into `rejections`.

    NaN, infinite and negative numbers are kept as they came: whether they can be is for `validate` to say.
    """

    def __init__(self, body: Mapping[str, Any], table: str, place: str, rejections: list[Rejection]) -> None:
        self._body, self._table, self._place, self._rejections = body, table, place, rejections
        self.used: set[str] = set()

    def inside(self, name: str) -> Members:
        """The members of the object `name`; no members where it is not there or is something else."""
        value = self._take(name)
        if value is not None and not isinstance(value, dict):
            self._set_aside(name, value, "an object")
        inner = value if isinstance(value, dict) else {}
        return Members(inner, self._table, f"{self._place} {name}", self._rejections)

    def number(self, name: str) -> float | None:
        """A number; NaN and infinities are read from their text. None where it is missing or something else."""
        value = self._take(name)
        if isinstance(value, str) and value in _NO_NUMBERS:
            return _NO_NUMBERS[value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                pass
        self._refuse(name, value, "a number")
        return None

    def count(self, name: str) -> int | None:
        """A whole number of 64 bits; None where it is missing or something else."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool) and -_LONG <= value < _LONG:
            return value
        self._refuse(name, value, "a whole number of 64 bits")
        return None

    def flag(self, name: str) -> bool | None:
        """True or false; None where it is missing or something else."""
        value = self._take(name)
        if isinstance(value, bool):
            return value
        self._refuse(name, value, "true or false")
        return None

    def text(self, name: str) -> str | None:
        """A text; None where it is missing or something else."""
        value = self._take(name)
        if isinstance(value, str):
            return value
        self._refuse(name, value, "a text")
        return None

    def names(self, name: str) -> list[str] | None:
        """A list of texts, sorted, each once."""
        value = self._take(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return sorted(set(value))
        self._refuse(name, value, "a list of texts")
        return None

    def moment(self, name: str) -> datetime | None:
        """Milliseconds since 1970, as UTC."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                pass
        self._refuse(name, value, "a time in milliseconds")
        return None

    def names_inside(self) -> frozenset[str]:
        """The names of all members."""
        return frozenset(self._body)

    def rest(self) -> str | None:
        """JSON of the members that nobody asked for; None if there are none."""
        left = {name: value for name, value in self._body.items() if name not in self.used}
        return json.dumps(left, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if left else None

    def _take(self, name: str) -> Any:
        self.used.add(name)
        return self._body.get(name)

    def _refuse(self, name: str, value: Any, due: str) -> None:
        if value is not None:
            self._set_aside(name, value, due)

    def _set_aside(self, name: str, value: Any, due: str) -> None:
        text = json.dumps(value, ensure_ascii=False)
        self._rejections.append(
            Rejection(
                self._table,
                f"{self._place} {name}",
                UNREADABLE_FIGURE,
                f"{self._place}: member {name} is {text[:60]} where {due} is due; the figure is unknown in this cycle",
                excerpt(text),
            )
        )
