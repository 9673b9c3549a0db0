"""The brokers' own steering, switched off and back: dynamic configuration of the cluster, through the admin API.

`POST /brokers/configuration/{key}/{value}` is in force on every broker within seconds, without a restart; `DELETE`
brings back what the broker's file says. Pulsar stores any value unchecked, so what was stored is read back from every
broker (`hands_off.configurations`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.hop import Hop
from evenkeel.pulsar.admin.quoting import admin_path
from evenkeel.sinks.hands_off import SWITCHES, configurations
from evenkeel.sinks.watching import json_of

Values = Mapping[str, str | None]
"""Switch -> its dynamic value; None where there is none, and each broker's file counts."""

OFF = "false"
_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 0.5


def dynamic_values(client: AdminClient) -> Values:
    """The dynamic values of the switches that are in force now."""
    answer = client.ask(admin_path("brokers", "configuration", "values"))[-1]
    found = json_of(answer)
    if not isinstance(found, dict):
        raise Unreachable(f"the cluster's dynamic configuration cannot be read: {_in_words(answer)}")
    return {switch: found.get(switch) for switch in SWITCHES}


def set_values(client: AdminClient, values: Values) -> None:
    """Sets the switches, or takes their dynamic values away where there is to be none. Again and again is the same."""
    for switch, value in values.items():
        method = "DELETE" if value is None else "POST"
        path = admin_path("brokers", "configuration", switch, *([] if value is None else [value]))
        answer = client.ask(path, method=method)[-1]
        if not 200 <= answer.status < 300:
            raise Unreachable(f"{switch} could not be set: {_in_words(answer)}")


def steering(client: AdminClient) -> dict[str, list[str]]:
    """Switch -> brokers on which it is not off, or that do not tell."""
    told = {broker: said or {} for broker, said in configurations(client).items()}
    found = {switch: sorted(b for b, said in told.items() if str(said.get(switch)) != OFF) for switch in SWITCHES}
    return {switch: on for switch, on in found.items() if on}


def await_off(
    client: AdminClient, *, seconds: float = _WAIT_SECONDS, pause: Callable[[float], None] = time.sleep
) -> None:
    """Returns once the switches are off on every broker. Raises Unreachable with the brokers on which they are not."""
    until = time.monotonic() + seconds
    while on := steering(client):
        if time.monotonic() > until:
            where = "; ".join(f"{switch} on {', '.join(brokers[:5])}" for switch, brokers in on.items())
            raise Unreachable(
                f"after {seconds:.0f} s not off, or not told: {where}. Look at these brokers and run again"
            )
        pause(_PAUSE_SECONDS)


def _in_words(answer: Hop) -> str:
    return f"{answer.broker or 'nobody'} answered {answer.status or 'nothing'} {answer.body[:200]}".rstrip()
