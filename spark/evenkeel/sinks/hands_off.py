"""Whether the brokers leave the steering to Evenkeel: their own shedding and auto-split must be off.

Any broker may become the leader, and a broker's file may differ from the others': so every one is asked for its
runtime configuration. The cluster-wide list of dynamic values is not enough, for it lacks what the files say.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.sinks.watching import json_of

SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
CONFIGURATION = "/admin/v2/brokers/configuration/runtime"
_AT_ONCE = 8
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Hands:
    """What the brokers said of their configuration. `pulsar_name`: the cluster's name in Pulsar, None where no broker
    told it. `objections`: why no command may be sent, each with what to do about it."""

    pulsar_name: str | None
    objections: tuple[str, ...]


def hands_off(client: AdminClient) -> Hands:
    """Asks every broker that the cluster lists."""
    try:
        return judged(configurations(client))
    except Unreachable as error:
        return Hands(None, (str(error),))


def configurations(client: AdminClient) -> dict[str, Mapping[str, str] | None]:
    """Each listed broker's effective settings (`configuration`). Raises Unreachable where nobody lists the brokers."""
    answer = client.ask("/admin/v2/brokers")[-1]
    brokers = json_of(answer)
    if not isinstance(brokers, list) or not brokers:
        raise Unreachable(f"the brokers of the cluster cannot be listed: {answer.broker} answered {answer.status}")
    with ThreadPoolExecutor(min(_AT_ONCE, len(brokers))) as pool:
        return dict(zip(brokers, pool.map(lambda broker: configuration(client, broker), brokers), strict=True))


def configuration(client: AdminClient, broker: str) -> Mapping[str, str] | None:
    """A broker's effective settings, all of them texts; None if it did not tell."""
    found = json_of(client.ask(CONFIGURATION, broker=broker)[-1])
    return found if isinstance(found, dict) else None


def judged(told: Mapping[str, Mapping[str, str] | None]) -> Hands:
    """The judgement on the brokers' configurations."""
    silent = sorted(broker for broker, found in told.items() if found is None)
    objections = []
    if silent:
        objections.append(
            f"{_listed(silent)} did not tell {'its' if len(silent) == 1 else 'their'} configuration, so it is not "
            "known whether the brokers steer themselves: look at them, or wait until they are gone from the cluster"
        )
    for switch in SWITCHES:
        steering = sorted(b for b, found in told.items() if found is not None and str(found.get(switch)) != "false")
        if steering:
            objections.append(
                f"{switch} is not off on {_listed(steering)}: two would steer. Switch it off with "
                f"`pulsar-admin brokers update-dynamic-config --config {switch} --value false`, "
                "or all of them with `evenkeel takeover`"
            )
    names = sorted({str(found["clusterName"]) for found in told.values() if found and found.get("clusterName")})
    if len(names) > 1:
        objections.append(f"the brokers name several clusters: {', '.join(names)}; check the admin URLs")
    return Hands(names[0] if names else None, tuple(objections))


def _listed(brokers: list[str]) -> str:
    more = f" and {len(brokers) - _SHOWN} more" if len(brokers) > _SHOWN else ""
    return ", ".join(brokers[:_SHOWN]) + more
