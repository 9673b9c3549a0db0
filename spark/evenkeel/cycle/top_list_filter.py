"""Filter of the bundles that may be in a top list (Pulsar: TopKBundles.update)."""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.errors import BadName
from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.topics import is_heartbeat_or_sla, is_system
from evenkeel.settings import Settings


class TopListFilter:
    """Filter of the bundles that may be in a top list; answers about namespaces are cached."""

    def __init__(self, present: PoliciesPresent, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._answers: dict[str, bool] = {}

    def lists(self, bundle: str) -> bool:
        """Return True if bundles of the bundle's namespace may be shed; raises `BadName` if it is not two parts."""
        answer = self._answers.get(namespace := bundle.rpartition("/")[0])
        if answer is None:
            answer = self._answers[namespace] = self._may_be_shed(namespace_of(bundle))
        return answer

    def lists_all(self, bundles: Iterable[str]) -> bool:
        """Return True if all bundles are of such namespaces."""
        namespaces = {bundle.rpartition("/")[0]: bundle for bundle in bundles}
        # Most often all answers are known.
        return all(map(self._answers.get, namespaces)) or all(map(self.lists, namespaces.values()))

    def _may_be_shed(self, namespace: str) -> bool:
        if namespace.count("/") != 1:
            raise BadName(f"namespace {namespace!r} is not tenant/namespace: Pulsar 4.2 knows no other form")
        if is_system(namespace) or is_heartbeat_or_sla(namespace):
            return False
        if namespace in self._settings.loadBalancerSheddingExcludedNamespaces:
            return False
        return self._settings.loadBalancerSheddingBundlesWithPoliciesEnabled or self._present.policy(namespace) is None
