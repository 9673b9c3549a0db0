"""Gates that may keep a bundle on its broker although a strategy wants to unload it.

Pulsar: ModularLoadManagerImpl.shouldNamespacePoliciesUnload, shouldAntiAffinityNamespaceUnload.
"""

from __future__ import annotations

from collections.abc import Callable

from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.filters.ownership import Owned, Ownership, owned_of
from evenkeel.model.load import LoadData, Policies
from evenkeel.settings import Settings


class UnloadGates:
    """Isolation policies and anti-affinity groups as gates of a bundle that is to leave its broker."""

    def __init__(self, isolation: Isolation, anti_affinity: AntiAffinity) -> None:
        self._isolation = isolation
        self._anti_affinity = anti_affinity

    def refusal(self, bundle: str, broker: str) -> str | None:
        """Return None if the bundle may leave, else the rule: "no_other_broker_allowed" or "anti_affinity_even"."""
        allowed = self._isolation.allowed(bundle).brokers
        if all(candidate == broker for candidate in allowed):
            return "no_other_broker_allowed"
        if not self._anti_affinity.should_unload(namespace_of(bundle), broker, allowed):
            return "anti_affinity_even"
        return None


def unload_gates(
    load: LoadData, policies: Policies, settings: Settings, *, owned: Callable[[], Owned] | None = None
) -> UnloadGates:
    """Return the gates over a cluster's policies and ownership. `owned` is the result of `owned_of` for another
    caller."""
    ownership = Ownership(known=owned or (lambda: owned_of(load)))
    return UnloadGates(Isolation(policies, load.brokers, settings), AntiAffinity(policies, ownership, settings))
