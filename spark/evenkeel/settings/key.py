"""Description of a settings key, and the generation of Pulsar that a cluster runs.

A key has a type, a unit, allowed values, a default per generation, readers and a meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from evenkeel.errors import SettingsError
from evenkeel.pulsar.generations import GENERATIONS, NUMBERS, Generation, generation_of, numbers_of

Kind = Literal["bool", "int", "float", "optional float", "str", "class", "list", "set"]
Manager = Literal["both", "modular", "extensible", "none"]
ManagerName = Literal["modular", "extensible"]
Value = bool | int | float | str | tuple[str, ...] | frozenset[str] | None

INT_HIGHEST: Final = 2_147_483_647
METADATA: Final = "evenkeel.key"
VERSION_KEY: Final = "evenkeelPulsarVersion"
NO_EFFECT: Final = "no effect on decisions"
AFTER_RESTART: Final = "a broker takes {} at its restart, Evenkeel at once"


@dataclass(frozen=True, slots=True)
class Key:
    """One settings key. The registry fills in `name`, from the field it describes.

    `lowest`/`highest` are inclusive and bind an operator's override; the cluster's own values are taken unchecked.
    `choices` are the known spellings (of a class: its simple name). `before` is the value for settings that were
    recorded before the key existed: the behaviour of that time, so that a past cycle is decided again unchanged.
    `defaults` are those of the generations whose default differs. `restart`: brokers read the key at their start only,
    also if it is dynamic. `decides`: a decision depends on it.
    """

    name: str
    kind: Kind
    default: Value
    before: Value
    unit: str
    meaning: str
    defaults: Mapping[Generation, Value] = field(default_factory=dict)
    lowest: float | None = None
    highest: float | None = None
    choices: tuple[str, ...] = ()
    manager: Manager = "both"
    dynamic: bool = True
    restart: bool = False
    decides: bool = True
    deprecated_alias_of: str | None = None

    def default_of(self, generation: Generation) -> Value:
        """Return the default compiled into Pulsar of that generation (Evenkeel's own default for its own keys)."""
        return self.defaults.get(generation, self.default)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what to know before the key is changed; empty for most keys."""
        own = self.name.startswith("evenkeel")
        return (
            *(() if self.decides else (f"{self.name} has {NO_EFFECT}",)),
            *((AFTER_RESTART.format(self.name),) if not own and self.decides and not self.takes_effect_at_once else ()),
        )

    @property
    def takes_effect_at_once(self) -> bool:
        """Return True if a running broker takes a new value (Pulsar: FieldContext, dynamic)."""
        return self.dynamic and not self.restart

    @property
    def allowed(self) -> str:
        """Return the allowed type and range in words, for messages and the reference page."""
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
    default: Value, *, before: Value = _UNSET, kind: Kind | None = None, highest: float | None = None, **more: Any
) -> Any:
    """Declare a dataclass field that is a settings key; the field's name is Pulsar's own key.

    `more`: further fields of `Key`. A key that changes earlier decisions needs `before`, the value that keeps the
    behaviour without the key; the default applies if it is not given.
    """
    described = kind or _kind_of(default)
    if described == "int" and highest is None:
        highest = INT_HIGHEST
    before = default if before is _UNSET else before
    metadata = Key(name="", kind=described, default=default, before=before, highest=highest, **more)
    return field(default=default, metadata={METADATA: metadata})


def idle(default: Value, **more: Any) -> Any:
    """Declare a key that brokers report and no decision reads (`Key.decides`)."""
    return key(default, decides=False, **more)


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


# Generation of Pulsar that a cluster runs, which sets defaults and details of the rules.
#
# Key: evenkeelPulsarVersion. While a cluster is upgraded broker by broker, the oldest broker counts. Any broker may
# become the leader. A default that changes once, with the last broker, is better than one that changes with every
# leader. Values in a broker's reported configuration win over defaults in any case.

SPELLINGS: Final[dict[str, Generation]] = {name: name for name in GENERATIONS} | {"4": "4.x", "4.2": "4.x", "5": "5.0"}
"""Accepted spellings of a generation, with the name in the code."""


def generation_named(text: str) -> Generation:
    """Return the generation of that name; raises `SettingsError` with the known ones."""
    generation = SPELLINGS.get(text)
    if generation is None:
        raise SettingsError(f"unknown Pulsar generation {text!r}: known are {', '.join(GENERATIONS)}")
    return generation


def short_name(generation: Generation) -> str:
    """Return the generation as settings hold it: 3.0, 3.3, 4.0, 4 or 5."""
    return {"4.x": "4", "5.0": "5"}.get(generation, generation)


@dataclass(frozen=True, slots=True)
class Detected:
    """The generation that the brokers run, and their reported versions (in any order, None for a missing one)."""

    generation: Generation
    versions: tuple[str | None, ...] = ()

    @property
    def known(self) -> bool:
        """True if any broker reported its version."""
        return any(self.versions)

    @property
    def note(self) -> str:
        """Note about brokers of different generations; empty if they agree."""
        readable = {version for version in self.versions if version and NUMBERS.match(version)}
        if len({generation_of([version]) for version in readable}) < 2:
            return ""
        return f", by the oldest of the brokers' versions {' and '.join(sorted(readable, key=numbers_of))}"
