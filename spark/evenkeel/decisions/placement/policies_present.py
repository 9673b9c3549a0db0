"""Which policy, if any, a namespace is under (Pulsar: IsolationPoliciesHelper, AntiAffinityGroupPolicyHelper)."""

from __future__ import annotations

from evenkeel.decisions.load import Policies
from evenkeel.decisions.placement.isolation import policy_finder


class PoliciesPresent:
    """The policies of one cycle; answers are remembered per namespace."""

    def __init__(self, policies: Policies) -> None:
        self._isolation_of = policy_finder(policies)
        self._groups = {namespace for namespace, group in policies.groups.items() if group.strip()}
        self._answers: dict[str, str | None] = {}

    def policy(self, namespace: str) -> str | None:
        """The kind of policy it is under: "isolation_policy", "anti_affinity_group", or None."""
        if namespace not in self._answers:
            self._answers[namespace] = self._find(namespace)
        return self._answers[namespace]

    def _find(self, namespace: str) -> str | None:
        if self._isolation_of(namespace) is not None:
            return "isolation_policy"
        return "anti_affinity_group" if namespace in self._groups else None
