"""Which value of each key is in force: an operator's override over what the cluster runs with over Pulsar's default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.errors import SettingsError
from evenkeel.settings.contradictions import contradictions
from evenkeel.settings.effective import EffectiveSettings, Origin
from evenkeel.settings.key import Value
from evenkeel.settings.reading import check_allowed, coerce, known_key, parse
from evenkeel.settings.settings import Settings, generation_named, registry

SWITCHES = {
    "loadBalancerSheddingEnabled": "evenkeelSheddingEnabled",
    "loadBalancerAutoBundleSplitEnabled": "evenkeelSplitEnabled",
}
"""The cluster's own switches, never taken from it, and Evenkeel's that stand in for them."""


def resolve(
    *,
    observed: Mapping[str, str] | None,
    overrides: Mapping[str, object] | None,
    generation: str = "4.x",
    explicit_switches: bool = False,
) -> EffectiveSettings:
    """Put default, observed and override together, the later over the earlier.

    `observed` is a broker's `GET /admin/v2/brokers/configuration/runtime`: all values text; keys that are not about
    load balancing are passed over. A value in it that cannot be read leaves the default in force and is listed in
    `problems`; one out of range is taken, as the cluster runs with it, and listed. The cluster's shedding and split
    switches are not taken unless `explicit_switches`, and then they switch Evenkeel too.
    `overrides` are an operator's: unknown keys, wrong types, values out of range and contradictions raise
    `SettingsError`. An override of `evenkeelPulsarVersion` other than "auto" wins over `generation`.
    """
    chosen = {name: _override(name, given, explicit_switches) for name, given in (overrides or {}).items()}
    version = chosen.get("evenkeelPulsarVersion", "auto")
    held = generation_named(generation if version == "auto" else str(version))
    values: dict[str, Value] = Settings.for_generation(held).values()
    origins: dict[str, Origin] = dict.fromkeys(values, "default")
    problems: list[str] = []
    seen, odd = _read_observed(observed or {}, explicit_switches)
    problems += odd
    for name, value in seen.items():
        values[name], origins[name] = value, "observed"
    for name, value in chosen.items():
        values[name], origins[name] = value, "override"
    values["evenkeelPulsarVersion"] = held
    if explicit_switches:
        _follow_switches(values, origins)
    settings = Settings().with_values(values)
    _judge(settings, origins, problems)
    return EffectiveSettings(settings, origins, tuple(problems))


@dataclass(frozen=True, slots=True)
class OwnHands:
    """Whether the brokers themselves shed and split; None where the configuration is not known."""

    shedding: bool | None
    splitting: bool | None

    @property
    def off(self) -> bool:
        """True only where both are known to be off, so that Evenkeel steers alone."""
        return self.shedding is False and self.splitting is False


def own_hands(observed: Mapping[str, str] | None) -> OwnHands:
    """What the cluster's own switches say; the only use Evenkeel makes of them."""
    on = _switch(observed, "loadBalancerEnabled")
    if on is False:
        return OwnHands(False, False)
    return OwnHands(
        _switch(observed, "loadBalancerSheddingEnabled"), _switch(observed, "loadBalancerAutoBundleSplitEnabled")
    )


def _switch(observed: Mapping[str, str] | None, name: str) -> bool | None:
    text = (observed or {}).get(name, "").strip().lower()
    return {"true": True, "false": False}.get(text)


def _override(name: str, given: object, explicit_switches: bool) -> Value:
    key = known_key(name)
    if name in SWITCHES and not explicit_switches:
        raise SettingsError(
            f"{name} is the brokers' own switch and does not switch Evenkeel: set {SWITCHES[name]} instead"
        )
    value = coerce(key, given)
    check_allowed(key, value)
    return value


def _read_observed(observed: Mapping[str, str], explicit_switches: bool) -> tuple[dict[str, Value], list[str]]:
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, key in registry().items():
        text = observed.get(name)
        if text is None or name.startswith("evenkeel") or (name in SWITCHES and not explicit_switches):
            continue
        try:
            value = coerce(key, text) if not isinstance(text, str) else parse(key, text)
        except SettingsError as error:
            problems.append(f"observed {error}; the default holds")
            continue
        try:
            check_allowed(key, value)
        except SettingsError as error:
            if key.choices:
                problems.append(f"observed {error}; the default holds")
                continue
            problems.append(f"observed {error}; taken all the same, as the cluster runs with it")
        values[name] = value
    return values, problems


def _follow_switches(values: dict[str, Value], origins: dict[str, Origin]) -> None:
    """Shedding also needs loadBalancerEnabled; the modular manager's split check does not ask for it."""
    for theirs, own in SWITCHES.items():
        asked = [theirs] if own == "evenkeelSplitEnabled" else [theirs, "loadBalancerEnabled"]
        if origins[own] == "default":
            values[own] = all(values[name] for name in asked)
            origins[own] = next((origins[name] for name in asked if origins[name] != "default"), "default")


def _judge(settings: Settings, origins: Mapping[str, Origin], problems: list[str]) -> None:
    for contradiction in contradictions(settings):
        if any(origins[name] == "override" for name in contradiction.keys):
            raise SettingsError(contradiction.text)
        problems.append(contradiction.text)
