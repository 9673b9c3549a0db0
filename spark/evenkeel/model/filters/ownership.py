"""Bundles of each broker by namespace: reported or assigned in this round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from evenkeel.model.bundles import namespace_of
from evenkeel.model.load import LoadData

Owned = Mapping[str, Mapping[str, Collection[str]]]
"""Namespace -> broker -> its bundles of that namespace."""


def by_namespace(bundles: Mapping[str, Iterable[str]]) -> Owned:
    """Return the bundles of brokers sorted by namespace; raises `BadName` for a name that is not a bundle's."""
    owned: dict[str, dict[str, set[str]]] = {}
    for broker, names in sorted(bundles.items()):
        of_broker: dict[str, set[str]] = {}
        for bundle in names:
            namespace = bundle.rpartition("/")[0]
            if namespace not in of_broker:
                of_broker[namespace] = owned.setdefault(namespace_of(bundle), {}).setdefault(broker, set())
            of_broker[namespace].add(bundle)
    return owned


def owned_of(load: LoadData) -> Owned:
    """Return the bundles of brokers by namespace: reported, or assigned and not reported yet."""
    given = {name: load.preallocated.get(name, {}) for name in load.brokers}
    return by_namespace({name: chain(r.bundles, r.stats, given[name]) for name, r in load.brokers.items()})


class Ownership:
    """Bundles per namespace and broker (Pulsar: BundleRangeCache). A bundle given twice to a broker counts once.

    They are sorted by namespace on the first question: most rounds ask none. `known` is the sorted result for another
    caller; it stays unchanged.
    """

    def __init__(
        self, bundles: Mapping[str, Iterable[str]] | None = None, *, known: Callable[[], Owned] | None = None
    ) -> None:
        self._known: Callable[[], Owned] = known or (lambda: by_namespace(bundles or {}))
        self._sorted: Owned | None = None
        self._given: dict[str, dict[str, set[str]]] = {}

    def _of(self, namespace: str) -> Mapping[str, Collection[str]]:
        """Return broker -> bundles of the namespace, those assigned in this round included."""
        if namespace in self._given:
            return self._given[namespace]
        if self._sorted is None:
            self._sorted = self._known()
        return self._sorted.get(namespace, {})

    def add(self, bundle: str, broker: str) -> None:
        """Note that the broker has, or will have, the bundle."""
        namespace = namespace_of(bundle)
        if namespace not in self._given:
            self._given[namespace] = {owner: {*bundles} for owner, bundles in self._of(namespace).items()}
        self._given[namespace].setdefault(broker, set()).add(bundle)

    def bundles_of(self, namespace: str, broker: str) -> int:
        """Return how many bundles of the namespace the broker has."""
        return len(self._of(namespace).get(broker, ()))

    def owners_of(self, namespace: str) -> Mapping[str, int]:
        """Return the brokers with at least one bundle of the namespace, with how many."""
        return {broker: len(bundles) for broker, bundles in self._of(namespace).items()}
