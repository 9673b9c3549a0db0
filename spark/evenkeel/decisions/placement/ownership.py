"""Which broker has how many bundles of which namespace: reported or assigned in this round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenkeel.decisions.bundles import namespace_of


class Ownership:
    """Bundles per namespace and broker (Pulsar: BundleRangeCache). A bundle given twice to a broker counts once."""

    def __init__(self, bundles: Mapping[str, Iterable[str]] | None = None) -> None:
        self._bundles: dict[str, dict[str, set[str]]] = {}
        for broker, names in sorted((bundles or {}).items()):
            for bundle in names:
                self.add(bundle, broker)

    def add(self, bundle: str, broker: str) -> None:
        """Note that the broker has, or will have, the bundle."""
        self._bundles.setdefault(namespace_of(bundle), {}).setdefault(broker, set()).add(bundle)

    def bundles_of(self, namespace: str, broker: str) -> int:
        """How many bundles of the namespace the broker has."""
        return len(self._bundles.get(namespace, {}).get(broker, ()))

    def owners_of(self, namespace: str) -> Mapping[str, int]:
        """Brokers with at least one bundle of the namespace, with how many."""
        return {broker: len(bundles) for broker, bundles in self._bundles.get(namespace, {}).items()}

    def namespaces(self) -> Iterable[str]:
        """Namespaces of which somebody has a bundle."""
        return self._bundles.keys()
