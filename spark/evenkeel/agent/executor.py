"""The carrier of a real agent: steers the cluster through its admin API, while the brokers leave that to Evenkeel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from evenkeel.pulsar.admin import AdminClient
from evenkeel.steering.broker_switches import BrokerSwitches, hands_off
from evenkeel.steering.command_executor import Patience, Steering
from evenkeel.steering.outcome import Outcome, not_sent

ASKED_EVERY_SECONDS = 30.0


class ClusterExecutor:
    """Carries commands out with `Steering`. The publisher may not reach the cluster, so it is asked here whether the
    brokers' own shedding and auto-split are off; while they are not, commands are `withheld` with what to do."""

    def __init__(self, client: AdminClient, *, longest_request_s: float, now: Callable[[], datetime]) -> None:
        """`now`: the queue's clock, by which commands expire."""
        self._client = client
        self._patience = Patience(unanswered_s=longest_request_s)
        self._now = now
        self._lock = threading.Lock()
        self._switches: BrokerSwitches | None = None
        self._steerings: dict[str, Steering] = {}
        self._asked_at = 0.0

    def carry_out(self, command: Mapping[str, Any]) -> Outcome:
        """Fences, sends and reads back."""
        switches = self._ask()
        if switches.objections:
            return not_sent(command["command_id"], self._now(), "; ".join(switches.objections))
        return self._steering(switches).carry_out(command)

    def look_again(self, command: Mapping[str, Any]) -> Outcome | None:
        """Reads back what came of a request that may have gone out."""
        return self._steering(self._ask()).look_again(command)

    def _steering(self, switches: BrokerSwitches) -> Steering:
        """The one of the cluster's name in Pulsar, which is not known while no broker tells it."""
        name = switches.pulsar_name or ""
        with self._lock:
            if name not in self._steerings:
                self._steerings[name] = Steering(self._client, name, patience=self._patience, now=self._now)
            return self._steerings[name]

    def _ask(self) -> BrokerSwitches:
        """What the brokers say of their switches; asked anew after a while, and at once where it was no before."""
        with self._lock:
            fresh = time.monotonic() - self._asked_at < ASKED_EVERY_SECONDS
            if self._switches is None or self._switches.objections or not fresh:
                self._switches, self._asked_at = hands_off(self._client), time.monotonic()
            return self._switches


# What carries a command out on the cluster, as the agent sees it.


class Executor(Protocol):
    """Fences, sends and reads back; never raises for what the cluster does. Called by several threads at a time."""

    def carry_out(self, command: Mapping[str, Any]) -> Outcome:
        """Carries the command out, or not, and says what was seen. Sends at most one request that has an effect."""
        ...

    def look_again(self, command: Mapping[str, Any]) -> Outcome | None:
        """What came of a request that an agent now dead may have sent; reads only.

        None: it had no effect and its premise still holds, so that it may be carried out (again).
        """
        ...
