"""Keys of the guards: what is misspelt or cannot be meant is refused; windows of the day."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import SettingsError
from evenkeel.settings import Settings, contradictions, resolve
from evenkeel.settings.parsing import is_within, minutes_of

DAY = 24 * 60


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"evenkeelFrozenBrokers": "broker-1"}, "evenkeelFrozenBrokers: a name in it is not a broker id"),
        ({"evenkeelFrozenNamespaces": "web"}, "evenkeelFrozenNamespaces: a name in it is not a namespace: write"),
        ({"evenkeelFrozenBundles": ["acme/web"]}, "a name in it is not a bundle: write tenant/namespace/0x00000000_"),
        ({"evenkeelFrozenBundles": ["a/b/0x0_0x4"]}, "a name in it is not a bundle: write tenant/"),
        ({"evenkeelMaintenanceWindows": ["1:00-2:00"]}, "a text in it is not a maintenance window: write 22:00"),
        ({"evenkeelMaintenanceWindows": "08:00-08:00"}, "a text in it is not a maintenance window: write 22:00"),
        (
            {"evenkeelDrainingBrokers": ["b1:8080"], "evenkeelFrozenBrokers": ["b1:8080"]},
            "evenkeelDrainingBrokers and evenkeelFrozenBrokers both name b1:8080, which cannot be emptied while",
        ),
        (
            {"evenkeelGuardsEnabled": False, "evenkeelFrozenNamespaces": ["acme/web"]},
            "evenkeelFrozenNamespaces is not kept while evenkeelGuardsEnabled = False",
        ),
        ({"evenkeelMaxUnloadsPerCycle": -2}, "int from -1 to"),
        ({"evenkeelMaxMovedTrafficPercent": 101}, "float from 0 to 100"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(observed=None, overrides=overrides)
    assert said in str(caught.value)


def test_what_is_written_as_it_should_be_is_taken() -> None:
    found = resolve(
        observed=None,
        overrides={
            "evenkeelFrozenBundles": "acme/web/0x00000000_0x40000000",
            "evenkeelFrozenNamespaces": "acme/web, acme/ads",
            "evenkeelFrozenBrokers": "b1.eu:8080",
            "evenkeelMaintenanceWindows": "22:00-04:30, 12:00-12:30",
        },
    ).settings
    assert found.evenkeelMaintenanceWindows == ("22:00-04:30", "12:00-12:30")
    assert contradictions(found) == []
    assert contradictions(Settings(evenkeelGuardsEnabled=False)) == []


def test_a_window_may_pass_midnight() -> None:
    assert minutes_of("22:00-04:30") == (22 * 60, 4 * 60 + 30)
    assert [is_within(minute, ["22:00-04:30"]) for minute in (0, 269, 270, 1319, 1320)] == [
        True, True, False, False, True,
    ]  # fmt: skip
    assert not is_within(0, [])


@pytest.mark.parametrize("text", ["", "22:00", "24:00-01:00", "10:60-11:00", "10:00-10:00", "10:00 - 11:00", "x"])
def test_what_is_no_window_holds_no_minute(text: str) -> None:
    assert minutes_of(text) is None
    assert not any(is_within(minute, [text]) for minute in range(DAY))


@given(st.integers(0, DAY - 1), st.integers(0, DAY - 1))
def test_a_window_and_the_one_the_other_way_round_make_a_day(start: int, end: int) -> None:
    if start == end:
        return
    one, other = (f"{a // 60:02}:{a % 60:02}-{b // 60:02}:{b % 60:02}" for a, b in ((start, end), (end, start)))
    inside = [is_within(minute, [one]) for minute in range(DAY)]
    assert inside == [not is_within(minute, [other]) for minute in range(DAY)]
    assert (inside[start], inside[end]) == (True, False)
