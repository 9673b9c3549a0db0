"""Variants: a strategy, settings, or both, under a name, to be tried instead of the recorded ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.settings import EffectiveSettings, Generation, contradictions, registry, typed_overrides
from evenkeel.settings.compatibility import (
    FALLBACK_PLACEMENT,
    PLACEMENTS_OF,
    SHEDDER_AND_PLACEMENT,
    older_rules,
    why_undecidable,
)
from evenkeel.settings.compatibility import PLACEMENT as PLACEMENT_KEY
from evenkeel.settings.compatibility import SHEDDING as SHEDDING_KEY
from evenkeel.settings.key import Value
from evenkeel.settings.keys.balancing import SHEDDERS_OF

RECORDED = "recorded"
"""The decisions made at the time, read and not decided again."""
AGAIN = "again"
"""The recorded settings, decided again."""
PLANNER = "Planner"
"""The strategy that is Evenkeel's own: evenkeelPlanner on."""
PLANNER_KEY = "evenkeelPlanner"
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Variant:
    """Differences from the record: Pulsar's keys with their values, typed and in range. Empty for `again`."""

    name: str
    overrides: Mapping[str, Value] = field(default_factory=dict)

    def described(self) -> str:
        """The differences in words."""
        return ", ".join(f"{key}={value_text(value)}" for key, value in self.overrides.items()) or "recorded settings"


def variants_of(
    strategies: Sequence[str] = (), settings: Sequence[str] = (), named: Sequence[str] = ()
) -> tuple[Variant, ...]:
    """Return the variants of a command line: `--strategy S`, `--set K=V` (for all of them), `--variant NAME:K=V,K=V`.

    Without any of them, the recorded settings once more. Names are distinct; `BadInput` and `SettingsError` name the
    unknown word and the nearest known one.
    """
    common = typed_overrides(settings, "--set")
    variants = [Variant(name, {**_strategy(name), **common}) for name in strategies]
    for text in named:
        name, colon, pairs = text.partition(":")
        if not colon or not name or not pairs:
            raise BadInput("--variant: write NAME:KEY=VALUE,KEY=VALUE")
        variants.append(Variant(name, {**common, **typed_overrides(pairs_in(pairs), f"--variant {name}")}))
    if not variants:
        variants = [Variant("set" if common else AGAIN, common)]
    names = [variant.name for variant in variants]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled or RECORDED in names:
        raise BadInput(f"two variants are called {(doubled or [RECORDED])[0]!r}: give each its own name by --variant")
    return tuple(variants)


def overrides_in(words: str) -> dict[str, Value]:
    """The overrides that `Variant.described` put into words. SettingsError for a key or value of another version."""
    if words == Variant("").described():
        return {}
    return typed_overrides(pairs_in(words, ", "), "variant")


def notes_on(variants: Iterable[Mapping[str, Value]], generation: Generation) -> list[str]:
    """Return what to know before these values are put into force: keys that brokers take late, strategies that differ.

    Keys without an effect are left out: the command that was given them has warned.
    """
    values = [(registry()[name], str(value)) for overrides in variants for name, value in overrides.items()]
    late = {note for key, _ in values if key.decides for note in key.notes}
    rules = older_rules(generation)
    older = {f"{name} of Pulsar {generation}: {rules[name]}" for _, name in values if name in rules}
    return [f"to put it into force: {note}" for note in sorted(late)] + sorted(older)


_MOST_PERCENT = 1_000.0


def check_limit(percent: float | None, called: str = "--limit") -> None:
    """Raise BadInput for a limit of usage, in percent, that no broker can have."""
    if percent is not None and not 0 < percent <= _MOST_PERCENT:
        raise BadInput(f"{called} {percent} is not a usage in percent: give one above 0, such as 85")


def settings_of(variant: Variant, recorded: EffectiveSettings, manager: str | None, cluster: str) -> EffectiveSettings:
    """Return the variant's settings if `recorded` were in force under `manager`.

    A strategy that does not go with the recorded placement brings its own: AvgShedder places too, and a strategy after
    it places by LeastLongTermMessageRate. A strategy of Pulsar decides itself, even if Evenkeel's planner did.
    `SettingsError` if Pulsar would refuse the settings.
    """
    if not variant.overrides:
        return recorded
    values = {**_placing(variant, recorded), **_planning(variant, recorded), **variant.overrides}
    settings = recorded.settings.with_values(values)
    by = manager_of(variant, recorded, manager)
    asked = (
        contradiction.text
        for contradiction in contradictions(settings)
        if any(key in variant.overrides for key in contradiction.keys)
    )
    refused = next(asked, None) or why_undecidable(settings, by)
    if refused is not None:
        raise SettingsError(f"variant {variant.name} on {cluster}: {refused}{_other_manager(settings, by)}")
    if settings == recorded.settings:
        return recorded
    return EffectiveSettings(settings, {**recorded.origins, **dict.fromkeys(values, "override")}, recorded.problems)


def manager_of(variant: Variant, recorded: EffectiveSettings, manager: str | None) -> str | None:
    """Return the load manager whose rules decide: the variant's, else the recorded one."""
    given = str(variant.overrides.get("evenkeelManager", _AUTO))
    return manager if given == _AUTO else given


def _planning(variant: Variant, recorded: EffectiveSettings) -> dict[str, Value]:
    """Turn the planner off if a variant names a strategy, or sheds nothing: else that would have no effect."""
    others = {SHEDDING_KEY, PLACEMENT_KEY} & variant.overrides.keys()
    is_meant = others or variant.overrides.get("evenkeelSheddingEnabled") is False
    return {PLANNER_KEY: "off"} if is_meant and recorded.settings.evenkeelPlanner == "on" else {}


def _placing(variant: Variant, recorded: EffectiveSettings) -> dict[str, Value]:
    """The placement strategy that goes with another shedder, where the recorded one does not."""
    shedder = variant.overrides.get(SHEDDING_KEY)
    placement = recorded.settings.loadBalancerLoadPlacementStrategy
    if shedder is None or PLACEMENT_KEY in variant.overrides:
        return {}
    if shedder == SHEDDER_AND_PLACEMENT and placement != SHEDDER_AND_PLACEMENT:
        return {PLACEMENT_KEY: SHEDDER_AND_PLACEMENT}
    if shedder in SHEDDERS_OF["extensible"]:
        return {PLACEMENT_KEY: PLACEMENTS_OF["extensible"][0]}
    if shedder != SHEDDER_AND_PLACEMENT and placement == SHEDDER_AND_PLACEMENT:
        return {PLACEMENT_KEY: FALLBACK_PLACEMENT}
    return {}


def _other_manager(settings: Any, manager: str | None) -> str:
    shedder = settings.loadBalancerLoadSheddingStrategy
    others = [name for name, known in SHEDDERS_OF.items() if shedder in known and name != manager]
    return f". To decide by that manager's rules all the same, add --set evenkeelManager={others[0]}" if others else ""


def _strategy(name: str) -> dict[str, Value]:
    if name == PLANNER:
        return {PLANNER_KEY: "on"}
    for key, known in ((SHEDDING_KEY, SHEDDERS_OF), (PLACEMENT_KEY, PLACEMENTS_OF)):
        if any(name in names for names in known.values()):
            return {key: name}
    every = [*SHEDDERS_OF["modular"], *SHEDDERS_OF["extensible"], *PLACEMENTS_OF["modular"], PLANNER]
    lower = {one.lower(): one for one in every}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[close[0]]}? " if close else ""
    raise BadInput(
        f"unknown strategy {name!r}: {hint}Shedders of the modular load manager: {', '.join(SHEDDERS_OF['modular'])}; "
        f"of the extensible one: {', '.join(SHEDDERS_OF['extensible'])}; placement: "
        f"{', '.join(PLACEMENTS_OF['modular'])}; Evenkeel's own: {PLANNER}"
    )


def pairs_in(text: str, comma: str = ",") -> list[str]:
    """Return keys and values: `a=1,b=x,y` is a=1 and b=x,y. A part without `=` belongs to the value before it."""
    pairs: list[str] = []
    for part in text.split(comma):
        if "=" in part or not pairs:
            pairs.append(part)
        else:
            pairs[-1] += f"{comma}{part}"
    return pairs


def value_text(value: Value | list[str]) -> str:
    """Return a value as a command line has it."""
    if isinstance(value, frozenset | tuple | list):
        return ",".join(map(str, value if isinstance(value, list) else sorted(value)))
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
