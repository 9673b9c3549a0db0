"""What carries a command out on the cluster, as the agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from evenkeel.sinks import Outcome


class Carrier(Protocol):
    """Fences, sends and reads back; never raises for what the cluster does. Called by several threads at a time."""

    def carry_out(self, command: Mapping[str, Any]) -> Outcome:
        """Carries the command out, or not, and says what was seen. Sends at most one request that has an effect."""
        ...

    def look_again(self, command: Mapping[str, Any]) -> Outcome | None:
        """What came of a request that an agent now dead may have sent; reads only.

        None: it had no effect and its premise still holds, so that it may be carried out (again).
        """
        ...
