"""The brokers' own balancing: check that it is off, switch it off and back on.

`POST /brokers/configuration/{key}/{value}` is in force on every broker within seconds, without a restart; `DELETE`
restores the value of the broker's file. Pulsar stores any value unchecked, so the stored value is read back from every
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
"""Switch -> its dynamic value; None without one: then each broker's file counts."""

OFF = "false"
_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 0.5


def dynamic_values(client: AdminClient) -> Values:
    """Return the dynamic values of the switches in force."""
    answer = client.ask(admin_path("brokers", "configuration", "values"))[-1]
    values = answer.json
    if not isinstance(values, dict):
        raise Unreachable(f"the cluster's dynamic configuration cannot be read: {_in_words(answer)}")
    return {switch: values.get(switch) for switch in SWITCHES}


def set_values(client: AdminClient, values: Values) -> None:
    """Set the switches, or remove the dynamic values of those that are None. Repeating it changes nothing."""
    for switch, value in values.items():
        method = "DELETE" if value is None else "POST"
        path = admin_path("brokers", "configuration", switch, *([] if value is None else [value]))
        answer = client.ask(path, method=method)[-1]
        if not 200 <= answer.status < 300:
            raise Unreachable(f"{switch} could not be set: {_in_words(answer)}")


def not_off(answers: Mapping[str, Mapping[str, str] | None], *, unless_silent: bool) -> dict[str, list[str]]:
    """Return switch -> brokers on which it is not off by their configurations (`configurations`).

    A broker whose configuration is missing counts, unless `unless_silent`.
    """
    known = {broker: found or {} for broker, found in answers.items() if found is not None or not unless_silent}
    on = {switch: sorted(b for b, found in known.items() if str(found.get(switch)) != OFF) for switch in SWITCHES}
    return {switch: brokers for switch, brokers in on.items() if brokers}


def await_off(
    client: AdminClient, *, seconds: float = _WAIT_SECONDS, pause: Callable[[float], None] = time.sleep
) -> None:
    """Return once the switches are off on every broker; raises Unreachable with the brokers on which they are not."""
    until = time.monotonic() + seconds
    while on := not_off(configurations(client), unless_silent=False):
        if time.monotonic() > until:
            where = "; ".join(f"{switch} on {', '.join(brokers[:5])}" for switch, brokers in on.items())
            raise Unreachable(
                f"after {seconds:.0f} s not off, or unknown: {where}. Look at these brokers and run again"
            )
        pause(_PAUSE_SECONDS)


def _in_words(answer: Hop) -> str:
    return f"{answer.broker or 'no broker'} answered {answer.status or 'nothing'} {answer.body[:200]}".rstrip()


# Any broker may become the leader, and a broker's file may differ from the others'. So each broker is asked for its
# runtime configuration. The cluster-wide list of dynamic values is not enough, for it lacks the values of the files.

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
    """Return each listed broker's effective settings (`configuration`); raises Unreachable if no broker gives the
    list."""
    answer = client.ask("/admin/v2/brokers")[-1]
    brokers = names_in(answer.json)
    if not brokers or len(brokers) < len(answer.json):  # a broker left out could be balancing
        raise Unreachable(f"the brokers of the cluster cannot be listed: {answer.broker} answered {answer.status}")
    with ThreadPoolExecutor(min(_AT_ONCE, len(brokers))) as pool:
        return dict(zip(brokers, pool.map(lambda broker: configuration(client, broker), brokers), strict=True))


def configuration(client: AdminClient, broker: str) -> Mapping[str, str] | None:
    """Return a broker's effective settings, all of them texts; None without an answer."""
    answer = client.ask(CONFIGURATION, broker=broker)[-1].json
    return answer if isinstance(answer, dict) else None


def objections_in(answers: Mapping[str, Mapping[str, str] | None]) -> tuple[str, ...]:
    """Return why no command may be sent by the brokers' configurations, each with what to do about it."""
    silent = sorted(broker for broker, settings_of_broker in answers.items() if settings_of_broker is None)
    objections = []
    if silent:
        objections.append(
            f"{_listed(silent)} did not return {'its' if len(silent) == 1 else 'their'} configuration, so it is "
            "unknown whether the brokers steer themselves: look at them, or wait until they are gone from the cluster"
        )
    for switch, brokers in not_off(answers, unless_silent=True).items():
        objections.append(
            f"{switch} is not off on {_listed(brokers)}: two would steer. Switch it off with "
            f"`pulsar-admin brokers update-dynamic-config --config {switch} --value false`, "
            "or all of them with `evenkeel takeover`"
        )
    names = sorted({str(name) for found in answers.values() if (name := (found or {}).get("clusterName"))})
    if len(names) > 1:
        objections.append(f"the brokers name several clusters: {', '.join(names)}; check the admin URLs")
    return tuple(objections)


def _listed(brokers: list[str]) -> str:
    more = f" and {len(brokers) - _SHOWN} more" if len(brokers) > _SHOWN else ""
    return ", ".join(brokers[:_SHOWN]) + more
