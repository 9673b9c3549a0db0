"""Whether a bundle may be transferred at all, by policies and broker filters (Pulsar: TransferShedder.isTransferable).

Key: loadBalancerSheddingBundlesWithPoliciesEnabled.
"""

from __future__ import annotations

from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.placement.extensible.filters import BrokerFilters
from evenkeel.decisions.placement.policies_present import PoliciesPresent
from evenkeel.settings import Settings

WITH_POLICIES = "loadBalancerSheddingBundlesWithPoliciesEnabled"


class TransferPolicies:
    """Policies and filters of one round, asked about one bundle and the broker it would go to."""

    def __init__(self, filters: BrokerFilters, present: PoliciesPresent, settings: Settings) -> None:
        self._filters = filters
        self._present = present
        self._with_policies = settings.loadBalancerSheddingBundlesWithPoliciesEnabled

    def refusal(self, bundle: str, destination: str) -> str | None:
        """None if the bundle may go there, else why not: the kind of its policy, "unreadable_version", or the filter.

        The destination must be a candidate even where bundles are only freed and find their broker later.
        """
        if not self._with_policies:
            policy = self._present.policy(namespace_of(bundle))
            if policy is not None:
                return policy
        if self._filters.unreadable_version:
            return "unreadable_version"
        return self._filters.why_not(bundle, destination)
