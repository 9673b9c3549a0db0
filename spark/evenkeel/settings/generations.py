"""Which generation of Pulsar a cluster runs, and so whose defaults and details hold.

Key: evenkeelPulsarVersion. While a cluster is upgraded broker by broker, the oldest broker counts: any of them may
become the leader, and a default that changes once, with the last broker, is better than one that changes with every
leader. Values that a broker reports of its configuration win over defaults in any case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from evenkeel.errors import SettingsError
from evenkeel.settings.key import GENERATIONS, Generation

SPELLINGS: Final[dict[str, Generation]] = {"4": "4.x", "4.x": "4.x", "5": "5.0", "5.0": "5.0"}
"""How a generation may be written, with the name that the code has for it."""

_NUMBERS = re.compile(r"(\d+)((?:\.\d+)*)")


def generation_named(text: str) -> Generation:
    """The generation of that name, or a `SettingsError` that lists the known ones."""
    found = SPELLINGS.get(text)
    if found is None:
        raise SettingsError(f"unknown Pulsar generation {text!r}: known are {', '.join(GENERATIONS)}")
    return found


def short_name(generation: Generation) -> str:
    """The generation as an operator writes it: 4 or 5."""
    return generation.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Detected:
    """The generation that the brokers run, and the versions that they named (in any order, None where one did not)."""

    generation: Generation
    versions: tuple[str | None, ...] = ()

    @property
    def known(self) -> bool:
        """Whether any broker named its version."""
        return any(self.versions)

    @property
    def note(self) -> str:
        """What is to be said about brokers of different generations; empty where they agree."""
        readable = {version for version in self.versions if version and _NUMBERS.match(version)}
        if len({_numbers(version)[0] >= 5 for version in readable}) < 2:
            return ""
        return f", by the oldest of the brokers' versions {' and '.join(sorted(readable, key=_numbers))}"


def _numbers(version: str) -> tuple[int, ...]:
    match = _NUMBERS.match(version)
    assert match is not None
    return tuple(int(part) for part in match.group().split("."))
