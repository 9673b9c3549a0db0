"""The brokers that may have a bundle under all hard placement rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenkeel.cycle import reading
from evenkeel.cycle.reading import Rows
from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.broker_filters import newest
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.load import BrokerReport, Ownership, Policies
from evenkeel.settings import Settings


class Places:
    """The brokers that may have a bundle, and if anti-affinity lets it leave. Bundles with equal rules share one
    answer."""

    def __init__(
        self, rows: Rows, settings: Settings, taking: Iterable[str], reports: Mapping[str, BrokerReport]
    ) -> None:
        self._policies: Policies = reading.policies(rows)
        is_extensible = reading.the_cycle(rows)["manager"] == reading.EXTENSIBLE
        self._isolation = Isolation(self._policies, reports, settings)
        self._fit = self._fitting(taking, reports, settings, is_extensible)
        self._is_extensible = is_extensible
        self._answers: dict[tuple[str | None, bool], tuple[frozenset[str], frozenset[str]]] = {}
        owned: dict[str, list[str]] = {}
        if self._policies.groups:
            for row in rows["bundle_load"]:
                if row["owner"] is not None and namespace_of(row["bundle"]) in self._policies.groups:
                    owned.setdefault(row["owner"], []).append(row["bundle"])
        self._groups = AntiAffinity(self._policies, Ownership(owned), settings, counts_bundles=is_extensible)

    @staticmethod
    def _fitting(
        taking: Iterable[str], reports: Mapping[str, BrokerReport], settings: Settings, is_extensible: bool
    ) -> frozenset[str]:
        """Brokers that may get bundles at all, as Pulsar's filters have it; under the modular manager all of them where
        none is left."""
        every = frozenset(taking) - settings.evenkeelFrozenBrokers
        most = settings.loadBalancerBrokerMaxTopics
        fitting = {
            name
            for name in every
            if reports[name].load_manager == settings.loadManagerClassName
            and (reports[name].topics < most if is_extensible else reports[name].topics <= most)
        }
        if settings.preferLaterVersions and fitting:
            latest = newest({name: reports[name].version for name in sorted(fitting)})
            fitting = fitting if latest is None else fitting & latest
        return frozenset(fitting) if fitting or is_extensible else every

    def group(self, bundle: str) -> str | None:
        """Return the bundle's anti-affinity group."""
        return self._groups.group_of(namespace_of(bundle)) if self._policies.groups else None

    def of(self, bundle: str) -> frozenset[str]:
        """The brokers that may get it."""
        places, _ = self._both(bundle)
        if self.group(bundle) is None:
            return places
        return frozenset(self._groups.keep_least(namespace_of(bundle), places).brokers)

    def may_leave(self, bundle: str, owner: str) -> bool:
        """Return True if moving it can help its anti-affinity group."""
        _, allowed = self._both(bundle)
        return self._groups.should_unload(namespace_of(bundle), owner, allowed)

    def _both(self, bundle: str) -> tuple[frozenset[str], frozenset[str]]:
        kind = self._isolation.kind(bundle)
        if kind not in self._answers:
            allowed = frozenset(self._isolation.allowed(bundle).brokers)
            among = (
                frozenset(self._isolation.allowed_among(bundle, sorted(self._fit)).brokers)
                if self._is_extensible
                else allowed & self._fit
            )
            self._answers[kind] = among, allowed
        return self._answers[kind]
