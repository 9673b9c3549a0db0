"""The schedule of shedding rounds, and the gates after them, under both load managers.

Pulsar: LoadSheddingTask, ModularLoadManagerImpl.doLoadShedding. Keys: evenkeelSheddingEnabled,
loadBalancerSheddingIntervalMinutes, loadBalancerSheddingGracePeriodMinutes, loadBalancerSheddingExcludedNamespaces.
Times are aware datetimes or epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import (
    PLANNED,
    SWITCHED_OFF,
    TOO_FEW_BROKERS,
    Considered,
    Rule,
    bundle_stays,
    by_name,
    measured,
    threshold,
)
from evenkeel.model.filters.broker_filters import BrokerFilters, UnloadGates
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import ExtensibleLoad, LoadData, Moment, Policies, milliseconds
from evenkeel.settings import Settings
from evenkeel.shed.bundle_selection import EXCLUDED_KEY
from evenkeel.shed.shedder import ModularShedder, Shed, ShedderState, without_gone
from evenkeel.shed.strategies import shedder_named
from evenkeel.shed.strategies.transfer_shedder import SHEDDER, Transfer, TransferState
from evenkeel.shed.strategies.transfer_shedder.conditions import TransferPolicies

FEWEST_BROKERS = 2
INTERVAL_KEY = "loadBalancerSheddingIntervalMinutes"
_MINUTE_MS = 60_000

NOT_DUE = Rule(
    "skipped",
    "not_due",
    lambda row: f"Shedding is not due: the last round was {measured(row)} ago, and the interval is {threshold(row)}.",
    "below",
)
EXCLUDED_NAMESPACE = Rule("refused", "excluded_namespace", bundle_stays("its namespace is excluded from shedding"))
REFUSALS = by_name(
    "rules",
    EXCLUDED_NAMESPACE,
    Rule("refused", "no_other_broker_allowed", bundle_stays("isolation policies allow it no other broker")),
    Rule(
        "refused",
        "anti_affinity_even",
        bundle_stays("its anti-affinity group is spread evenly over all brokers it may have"),
    ),
)
"""The gates that may keep a proposed bundle, by the names that `UnloadGates.refusal` gives."""


@dataclass(frozen=True, slots=True)
class SheddingRound:
    """One cycle's shedding. `status`: "ran", "not_due", "switched_off" or "too_few_brokers".

    `unloads`: bundles that may leave, with the broker they leave; placement chooses their destination. `destinations`
    are those that the strategy planned, for all its proposals. `shed_at`: when the strategy last ran, epoch ms (this
    cycle's time if it ran, else unchanged). `recently_unloaded`: bundles still within the grace period.
    """

    status: str
    unloads: tuple[tuple[str, str], ...]
    considered: tuple[Considered, ...]
    state: ShedderState
    shed_at: int | None
    recently_unloaded: Mapping[str, int]
    destinations: Mapping[str, str] = field(default_factory=dict)


def due(last_shed_at: Moment | None, now: Moment, settings: Settings) -> bool:
    """Return True if the shedding interval has passed since the strategy last ran; the first time it is due."""
    if last_shed_at is None:
        return True
    return milliseconds(now) - milliseconds(last_shed_at) >= settings.loadBalancerSheddingIntervalMinutes * _MINUTE_MS


def within_grace(recently_unloaded: Mapping[str, int], now: Moment, settings: Settings) -> dict[str, int]:
    """The unloads not older than the grace period (bundle -> epoch ms)."""
    oldest = milliseconds(now) - settings.loadBalancerSheddingGracePeriodMinutes * _MINUTE_MS
    return {bundle: at for bundle, at in sorted(recently_unloaded.items()) if at >= oldest}


def run_shedding(
    load: LoadData,
    state: ShedderState,
    gates: UnloadGates,
    settings: Settings,
    *,
    now: Moment,
    last_shed_at: Moment | None,
    shedder: ModularShedder | None = None,
) -> SheddingRound:
    """Decide this cycle's shedding, by `shedder` or that of the settings; a round that does not run keeps the state."""
    last = None if last_shed_at is None else milliseconds(last_shed_at)
    recent = within_grace(load.recently_unloaded, now, settings)
    stopped = why_not_now(len(load.brokers), now, last, settings)
    if stopped is not None:
        return SheddingRound(stopped.rule, (), (stopped,), state, last, recent)
    decides = shedder or shedder_named(settings.loadBalancerLoadSheddingStrategy)
    remembered = without_gone(state, load.brokers.keys()) if decides.forgets_gone_brokers else state
    shed = decides.shed(replace(load, recently_unloaded=recent), remembered, settings)
    unloads, rows = through_gates(shed, gates, settings)
    return SheddingRound("ran", unloads, rows, shed.state, milliseconds(now), recent, shed.destinations)


def through_gates(
    shed: Shed, gates: UnloadGates, settings: Settings
) -> tuple[tuple[tuple[str, str], ...], tuple[Considered, ...]]:
    """Return the proposals that pass the gates, and all rows of the strategy, with the gate's rule on refused bundles.

    A refused proposal is not replaced by another bundle. A bundle that two brokers report may be proposed for both.
    """
    refusals = {proposal: _refusal(*proposal, gates, settings) for proposal in shed.unloads}
    rows = [_through_gate(row, refusals) if row.outcome == "unload" else row for row in shed.considered]
    return tuple(proposal for proposal in shed.unloads if refusals[proposal] is None), tuple(rows)


def _through_gate(row: Considered, refusals: Mapping[tuple[str, str], Rule | None]) -> Considered:
    """Return the row of a proposal; the plan of a refused one may still be needed (see AvgShedder's placement)."""
    refusal = refusals.get((row.subject, row.broker or "")) if row.subject_kind == "bundle" else None
    if refusal is None:
        return row
    return refusal.about_bundle(
        row.subject,
        row.broker,
        setting=EXCLUDED_KEY if refusal is EXCLUDED_NAMESPACE else None,
        alternatives=tuple(other for other in row.alternatives if other.rule == PLANNED),
        numbers=row.numbers,
    )


def _refusal(bundle: str, broker: str, gates: UnloadGates, settings: Settings) -> Rule | None:
    if namespace_of(bundle) in settings.loadBalancerSheddingExcludedNamespaces:
        return EXCLUDED_NAMESPACE
    refusal = gates.refusal(bundle, broker)
    return None if refusal is None else REFUSALS[refusal]


def why_not_now(brokers: int, now: Moment, last: int | None, settings: Settings) -> Considered | None:
    """Return the row with the reason why no shedding takes place now, else None.

    The reasons are "switched_off", "too_few_brokers" and "not_due". `brokers`: number of available ones. `last`: when
    the strategy last ran, epoch ms.
    """
    if not settings.evenkeelSheddingEnabled:
        return SWITCHED_OFF.about_cluster(setting="evenkeelSheddingEnabled")
    if brokers < FEWEST_BROKERS:
        return TOO_FEW_BROKERS.about_cluster(measured=brokers, threshold=FEWEST_BROKERS, unit="count")
    if last is not None and not due(last, now, settings):
        return NOT_DUE.about_cluster(
            setting=INTERVAL_KEY,
            measured=milliseconds(now) - last,
            threshold=settings.loadBalancerSheddingIntervalMinutes * _MINUTE_MS,
            unit="ms",
        )
    return None


# The frame that TransferShedder runs in: switch, interval, number of brokers, grace period (Pulsar: UnloadScheduler).
#
# Keys: those of the modular frame above. It has no gates afterwards: policies were checked bundle by bundle, and
# excluded namespaces were left out.


@dataclass(frozen=True, slots=True)
class TransferRound:
    """One cycle's transfers. `status`: "ran", "not_due", "switched_off" or "too_few_brokers".

    `notes`, `mean` and `std` as in `Transfers`. `shed_at`: when the strategy last ran, epoch ms. `recently_unloaded`:
    bundles still within the grace period.
    """

    status: str
    transfers: tuple[Transfer, ...]
    notes: tuple[str, ...]
    considered: tuple[Considered, ...]
    state: TransferState
    shed_at: int | None
    recently_unloaded: Mapping[str, int]
    mean: float | None = None
    std: float | None = None


def run_transfers(
    load: ExtensibleLoad,
    state: TransferState,
    policies: Policies,
    owners: Mapping[str, Iterable[str]],
    settings: Settings,
    *,
    now: Moment,
    last_shed_at: Moment | None,
) -> TransferRound:
    """Decide the transfers of this cycle; a round that does not run keeps the state. `owners`: broker -> bundles.

    Pulsar remembers an unload, of the bundle and of its broker, when it has succeeded. The caller has to add that.
    """
    last = None if last_shed_at is None else milliseconds(last_shed_at)
    recent = within_grace(load.recently_unloaded, now, settings)
    stopped = why_not_now(len(load.brokers), now, last, settings)
    if stopped is not None:
        return TransferRound(stopped.rule, (), (), (stopped,), state, last, recent)
    asked = TransferPolicies(BrokerFilters(load, policies, owners, settings), PoliciesPresent(policies), settings)
    at = milliseconds(now)
    transfers = SHEDDER.shed(replace(load, recently_unloaded=recent), state, asked, settings, now=at)
    return TransferRound(
        "ran",
        transfers.transfers,
        transfers.notes,
        transfers.considered,
        transfers.state,
        at,
        recent,
        transfers.mean,
        transfers.std,
    )
