"""The frame TransferShedder runs in: switch, interval, number of brokers, grace period (Pulsar: UnloadScheduler).

Keys: those of `frame`, which also says what times are. There are no gates after it: policies were asked bundle by
bundle, and excluded namespaces were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evenkeel.decisions.considered import Considered
from evenkeel.decisions.extensible_load import ExtensibleLoad
from evenkeel.decisions.load import Moment, Policies, milliseconds
from evenkeel.decisions.placement.extensible.filters import BrokerFilters
from evenkeel.decisions.placement.policies_present import PoliciesPresent
from evenkeel.decisions.shedding.frame import why_not_now, within_grace
from evenkeel.decisions.shedding.transfer_policies import TransferPolicies
from evenkeel.decisions.shedding.transfer_shedder import Transfer, TransferState, find_bundles_for_unloading
from evenkeel.settings import Settings


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
    """Decide what to transfer in this cycle; a round that does not run keeps the state. `owners`: broker -> bundles.

    Pulsar remembers an unload, of the bundle and of its broker, when it has succeeded: that is the caller's to add.
    """
    last = None if last_shed_at is None else milliseconds(last_shed_at)
    recent = within_grace(load.recently_unloaded, now, settings)
    stopped = why_not_now(len(load.brokers), now, last, settings)
    if stopped is not None:
        return TransferRound(stopped.rule, (), (), (stopped,), state, last, recent)
    asked = TransferPolicies(BrokerFilters(load, policies, owners, settings), PoliciesPresent(policies), settings)
    at = milliseconds(now)
    made = find_bundles_for_unloading(replace(load, recently_unloaded=recent), state, asked, settings, now=at)
    return TransferRound(
        "ran", made.transfers, made.notes, made.considered, made.state, at, recent, made.mean, made.std
    )
