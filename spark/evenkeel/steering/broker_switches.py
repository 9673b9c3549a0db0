"""The brokers' own steering: whether it is off, and switching it off and back.

`POST /brokers/configuration/{key}/{value}` is in force on every broker within seconds, without a restart; `DELETE`
brings back what the broker's file says. Pulsar stores any value unchecked, so what was stored is read back from every
broker (`hands_off.configurations`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.http_exchange import Hop, admin_path, names_in

Values = Mapping[str, str | None]
"""Switch -> its dynamic value; None where there is none, and each broker's file counts."""

OFF = "false"
_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 0.5


def dynamic_values(client: AdminClient) -> Values:
    """The dynamic values of the switches that are in force now."""
    answer = client.ask(admin_path("brokers", "configuration", "values"))[-1]
    found = answer.json
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
    answers = {broker: said or {} for broker, said in configurations(client).items()}
    found = {switch: sorted(b for b, said in answers.items() if str(said.get(switch)) != OFF) for switch in SWITCHES}
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


# Whether the brokers leave the steering to Evenkeel: their own shedding and auto-split must be off.
#
# Any broker may become the leader, and a broker's file may differ from the others': so every one is asked for its
# runtime configuration. The cluster-wide list of dynamic values is not enough, for it lacks what the files say.

SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
CONFIGURATION = "/admin/v2/brokers/configuration/runtime"
_AT_ONCE = 8
_SHOWN = 5


def hands_off(client: AdminClient) -> tuple[str, ...]:
    """Ask every broker that the cluster lists; return the objections to sending (`objections_in`)."""
    try:
        return objections_in(configurations(client))
    except Unreachable as error:
        return (str(error),)


def configurations(client: AdminClient) -> dict[str, Mapping[str, str] | None]:
    """Each listed broker's effective settings (`configuration`). Raises Unreachable where nobody lists the brokers."""
    answer = client.ask("/admin/v2/brokers")[-1]
    brokers = names_in(answer.json)
    if not brokers or len(brokers) < len(answer.json):  # whoever is left out could be steering
        raise Unreachable(f"the brokers of the cluster cannot be listed: {answer.broker} answered {answer.status}")
    with ThreadPoolExecutor(min(_AT_ONCE, len(brokers))) as pool:
        return dict(zip(brokers, pool.map(lambda broker: configuration(client, broker), brokers), strict=True))


def configuration(client: AdminClient, broker: str) -> Mapping[str, str] | None:
    """A broker's effective settings, all of them texts; None if it did not tell."""
    found = client.ask(CONFIGURATION, broker=broker)[-1].json
    return found if isinstance(found, dict) else None


def objections_in(answers: Mapping[str, Mapping[str, str] | None]) -> tuple[str, ...]:
    """Return why no command may be sent by the brokers' configurations, each with what to do about it."""
    silent = sorted(broker for broker, found in answers.items() if found is None)
    objections = []
    if silent:
        objections.append(
            f"{_listed(silent)} did not tell {'its' if len(silent) == 1 else 'their'} configuration, so it is not "
            "known whether the brokers steer themselves: look at them, or wait until they are gone from the cluster"
        )
    for switch in SWITCHES:
        steering = sorted(b for b, found in answers.items() if found is not None and str(found.get(switch)) != "false")
        if steering:
            objections.append(
                f"{switch} is not off on {_listed(steering)}: two would steer. Switch it off with "
                f"`pulsar-admin brokers update-dynamic-config --config {switch} --value false`, "
                "or all of them with `evenkeel takeover`"
            )
    names = sorted({str(found["clusterName"]) for found in answers.values() if found and found.get("clusterName")})
    if len(names) > 1:
        objections.append(f"the brokers name several clusters: {', '.join(names)}; check the admin URLs")
    return tuple(objections)


def _listed(brokers: list[str]) -> str:
    more = f" and {len(brokers) - _SHOWN} more" if len(brokers) > _SHOWN else ""
    return ", ".join(brokers[:_SHOWN]) + more
