"""What is known of one settings key: type, unit, allowed values, defaults, who reads it, what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["bool", "int", "float", "optional float", "str", "class", "list", "set"]
Manager = Literal["both", "modular", "extensible", "none"]
Generation = Literal["4.x", "5.0"]
ManagerName = Literal["modular", "extensible"]
Value = bool | int | float | str | tuple[str, ...] | frozenset[str] | None

GENERATIONS: Final[tuple[Generation, ...]] = ("4.x", "5.0")
INT_HIGHEST: Final = 2_147_483_647
METADATA: Final = "evenkeel.key"


@dataclass(frozen=True, slots=True)
class Key:
    """One settings key. `name` is filled in by the registry from the field it describes.

    `lowest`/`highest` are inclusive and bind an operator's override; what a cluster really runs with is taken as it is.
    `choices` are the spellings known (of a class: its simple name).
    """

    name: str
    kind: Kind
    default: Value
    default_5_0: Value
    unit: str
    meaning: str
    lowest: float | None = None
    highest: float | None = None
    choices: tuple[str, ...] = ()
    manager: Manager = "both"
    dynamic: bool = True
    deprecated_alias_of: str | None = None

    def default_of(self, generation: Generation) -> Value:
        """The default compiled into Pulsar of that generation (Evenkeel's own default for its own keys)."""
        return self.default_5_0 if generation == "5.0" else self.default

    @property
    def allowed(self) -> str:
        """The allowed type and range in words, for messages and the reference page."""
        words = {"optional float": "float or unset", "class": "str", "list": "list of str", "set": "list of str"}
        text = words.get(self.kind, self.kind)
        if self.choices:
            return f"{text}, one of {', '.join(self.choices)}"
        if self.lowest is not None and self.highest is not None:
            return f"{text} from {_number(self.lowest)} to {_number(self.highest)}"
        if self.lowest is not None:
            return f"{text} of at least {_number(self.lowest)}"
        return text


def _number(x: float) -> str:
    return f"{x:,.0f}" if math.isfinite(x) and x == int(x) else f"{x}"


_UNSET: Final[Any] = object()


def key(
    default: Value,
    *,
    unit: str,
    meaning: str,
    default_5_0: Value = _UNSET,
    kind: Kind | None = None,
    lowest: float | None = None,
    highest: float | None = None,
    choices: tuple[str, ...] = (),
    manager: Manager = "both",
    dynamic: bool = True,
    deprecated_alias_of: str | None = None,
) -> Any:
    """Declare a dataclass field that is a settings key; the field's name is Pulsar's own key."""
    described = kind or _kind_of(default)
    if described == "int" and highest is None:
        highest = INT_HIGHEST
    metadata = Key(
        name="",
        kind=described,
        default=default,
        default_5_0=default if default_5_0 is _UNSET else default_5_0,
        unit=unit,
        meaning=meaning,
        lowest=lowest,
        highest=highest,
        choices=choices,
        manager=manager,
        dynamic=dynamic,
        deprecated_alias_of=deprecated_alias_of,
    )
    return field(default=default, metadata={METADATA: metadata})


def _kind_of(default: Value) -> Kind:
    kinds: Mapping[type, Kind] = {
        bool: "bool",
        int: "int",
        float: "float",
        str: "str",
        tuple: "list",
        frozenset: "set",
        type(None): "optional float",
    }
    return kinds[type(default)]
