"""Which broker has how many bundles of which namespace: reported or assigned in this round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenkeel.decisions.bundles import namespace_of


class Ownership:
    """Bundles per namespace and broker (Pulsar: BundleRangeCache). A bundle given twice to a broker counts once.

    They are sorted by namespace when somebody asks for the first time: in most rounds nobody does.
    """

    def __init__(self, bundles: Mapping[str, Iterable[str]] | None = None) -> None:
        self._unsorted = bundles or {}
        self._sorted: dict[str, dict[str, set[str]]] = {}

    @property
    def _bundles(self) -> dict[str, dict[str, set[str]]]:
        unsorted, self._unsorted = self._unsorted, {}
        for broker, names in sorted(unsorted.items()):
            own: dict[str, set[str]] = {}
            for bundle in names:
                namespace = bundle.rpartition("/")[0]
                if namespace not in own:
                    own[namespace] = self._sorted.setdefault(namespace_of(bundle), {}).setdefault(broker, set())
                own[namespace].add(bundle)
        return self._sorted

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
