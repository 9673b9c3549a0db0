"""Moves that rules allow: the brokers that may have a bundle, and the rules that hold a bundle where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from evenkeel.cycle import reading
from evenkeel.cycle.reading import Row, Rows
from evenkeel.model.bundles import is_heartbeat_or_sla, is_system, namespace_of, range_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.broker_filters import newest
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.load import BrokerReport, Ownership, Policies
from evenkeel.model.past_commands import Act, act_of, past_moves
from evenkeel.planner.view import ANTI_AFFINITY, DAY, ISOLATION, OWN_NAMESPACE
from evenkeel.settings import Settings

_AGAINST_POLICY = frozenset({"outside_policy", "reserved_by_policy"})
_UNEVEN = 2


class Places:
    """The brokers that may have a bundle, and if anti-affinity lets it leave; equal rules share one answer."""

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
        """Brokers that may get bundles, by Pulsar's filters; under the modular manager all, where none is left."""
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

    def of(self, bundle: str, owner: str | None) -> frozenset[str]:
        """The brokers that may get it; those that have least of its group, if that is less than its owner has."""
        places, namespace = self.allowed(bundle), namespace_of(bundle)
        if self.group(bundle) is None:
            return places
        least = self._groups.keep_least(namespace, places).brokers
        return frozenset(b for b in least if owner is None or self._groups.more_at(namespace, owner, b) > 0)

    def allowed(self, bundle: str) -> frozenset[str]:
        """The brokers that may get it if its anti-affinity group does not count."""
        return self._both(bundle)[0]

    def breach(self, bundle: str, owner: str, places: Iterable[str]) -> tuple[str | None, int]:
        """Return the rule that the bundle breaks where it is, and by how much; `places`: the brokers that may get it.

        A group is broken where the owner has at least two more of it than another broker, and one less without the
        bundle.
        """
        if self._isolation.allowed(bundle).removed.get(owner) in _AGAINST_POLICY:
            return ISOLATION, 0
        if self.group(bundle) is None or not self._groups.is_last(bundle, owner):
            return None, 0
        more = max((self._groups.more_at(namespace_of(bundle), owner, place) for place in places), default=0)
        return (ANTI_AFFINITY, more) if more >= _UNEVEN else (None, 0)

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


class Held:
    """The rules that hold bundles in place.

    `unsettled`: bundles whose figures have not settled; `asked`: bundles that manual requests or drains move; `moves`:
    as `moves_of` returns them.
    """

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        at: datetime,
        unsettled: Iterable[str],
        asked: frozenset[str],
        moves: Mapping[str, Sequence[tuple[str, datetime]]],
    ) -> None:
        self._settings, self._at, self._asked, self._moves = settings, at, asked, moves
        cycle = reading.the_cycle(rows)
        self._is_extensible = cycle["manager"] == reading.EXTENSIBLE
        self._is_guarded = settings.evenkeelGuardsEnabled
        self._split = _by_namespace(row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split")
        self._unsettled = _by_namespace(unsettled)
        self._frozen = _by_namespace(settings.evenkeelFrozenBundles)
        hold = timedelta(minutes=self._settings.evenkeelHarmHoldMinutes)
        namespaces = {
            namespace_of(act_of(row).bundle)
            for row in reading.harm_rows(cycle)
            if self._at - datetime.fromisoformat(row["seen_at"]) < hold
        }
        self._harmed = frozenset(namespaces - self._settings.evenkeelHarmLiftedNamespaces)
        self._whole_namespaces: dict[str, str | None] = {}

    def why(self, row: Row) -> str | None:
        """Return the rule that holds a bundle; None if it may leave."""
        bundle = row["bundle"]
        namespace = namespace_of(bundle)
        if bundle in self._asked:
            return "wished"
        if namespace not in self._whole_namespaces:
            self._whole_namespaces[namespace] = self._whole_namespace(namespace)
        if (rule_of_all := self._whole_namespaces[namespace]) is not None:
            return rule_of_all
        for rule, others in (("split", self._split), ("unsettled", self._unsettled)):
            if others and _overlaps(bundle, namespace, others):
                return rule
        if row["ownership"] in reading.UNCLEAR:
            return "owner_unclear"
        return self._guarded(row, namespace) if self._is_guarded else None

    def _whole_namespace(self, namespace: str) -> str | None:
        """The rule that holds all bundles of a namespace for good."""
        if is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True):
            return OWN_NAMESPACE
        if self._is_extensible and is_system(namespace):
            return OWN_NAMESPACE
        return "excluded_namespace" if namespace in self._settings.loadBalancerSheddingExcludedNamespaces else None

    def _guarded(self, row: Row, namespace: str) -> str | None:
        """The rule of a guard that would hold it."""
        bundle, owner, settings = row["bundle"], row["owner"], self._settings
        if namespace in settings.evenkeelFrozenNamespaces or owner in settings.evenkeelFrozenBrokers:
            return "frozen"
        if self._frozen and _overlaps(bundle, namespace, self._frozen):
            return "frozen"
        if row["used_msg_throughput_in"] is None and row["used_msg_throughput_out"] is None:
            return "traffic_unknown"
        if namespace in self._harmed:
            return "harmed_namespace"
        free, past = settings.evenkeelFreeMovesPerBundlePerDay, self._moves.get(bundle, ())
        today = sum(self._at - moved_at < DAY for _, moved_at in past) if past else 0
        return "moved_often" if 0 <= free <= today else None


def _by_namespace(bundles: Iterable[str]) -> dict[str, list[str]]:
    bundles_of: dict[str, list[str]] = {}
    for bundle in sorted(bundles):
        bundles_of.setdefault(namespace_of(bundle), []).append(bundle)
    return bundles_of


def _overlaps(bundle: str, namespace: str, others: Mapping[str, Sequence[str]]) -> bool:
    """Return True if the bundle shares hashes with one of the others."""
    known = others.get(namespace)
    if not known:
        return False
    if bundle in known:
        return True
    hashes = range_of(bundle)
    ranges = map(range_of, known)
    return any(hashes.lower < other.upper and other.lower < hashes.upper for other in ranges)


def moves_of(acts: Iterable[Act], at: datetime, settings: Settings) -> dict[str, list[tuple[str, datetime]]]:
    """Bundle -> the brokers that it left, or may have left, with when; as guards count its moves."""
    moves: dict[str, list[tuple[str, datetime]]] = {}
    for move in past_moves(acts, at, settings):
        moves.setdefault(move.bundle, []).append((move.source or "", move.at))
    return moves
