"""The rule that one lake alone writes and steers a cluster that was moved between lakes.

Each task reads the configuration again. After the change, the old lake leaves the cluster out: the rest of a run under
way neither writes its decisions nor sends its commands. The new lake sends nothing while the old one's lease of the
cluster lasts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from evenkeel.errors import EvenkeelError, NoLake
from evenkeel.handover import Handover
from evenkeel.settings.lakes import configured_lakes

log = logging.getLogger(__name__)


def elsewhere(lake: str, cluster: str) -> str | None:
    """Return why a lake leaves a cluster alone: by the current configuration it belongs to another one."""
    other = configured_lakes().elsewhere(lake, cluster)
    if other is None:
        return None
    by_now = "by the configuration now: nothing more of it is written to this lake"
    return f"{cluster} belongs to the lake {other.name} {by_now}"


def without_moved(handover: Handover) -> Handover:
    """Return the hand-over without the clusters that belong to another lake now."""
    reasons = {cycle.key: elsewhere(handover.lake, cycle.cluster) for cycle in handover.open_cycles()}
    return handover.leave_out({key: reason for key, reason in reasons.items() if reason is not None})


class LakeGuard:
    """Reasons against sending to a cluster from a lake, beside those of `halted`."""

    def __init__(self, lake: str, halted: Callable[[str], str | None]) -> None:
        self._lake, self._halted = lake, halted
        self._asked: dict[str, str | None] = {}

    def __call__(self, cluster: str) -> str | None:
        reason = self._halted(cluster) or elsewhere(self._lake, cluster)
        if reason is None and cluster not in self._asked:  # once: a free lease stays free
            self._asked[cluster] = lease_elsewhere(self._lake, cluster, datetime.now(UTC))
        return reason or self._asked.get(cluster)


def lease_elsewhere(lake: str, cluster: str, now: datetime) -> str | None:
    """Return why nothing may be sent yet: a publisher of another lake holds the cluster."""
    lakes = configured_lakes()
    this_lake = lakes.at(lake)
    for other in lakes.lakes if this_lake is not None else ():
        until = None if other == this_lake else _lease_end(other.path, cluster)
        if until is not None and until > now:
            return (
                f"a publisher of the lake {other.name} holds {cluster} until {until.isoformat()}: it was moved from "
                "there, and the next cycle goes on"
            )
    return None


def _lease_end(lake: str, cluster: str) -> datetime | None:
    """Return the end of the last step of a cluster's lease; None without one, or if it cannot be read."""
    # Imported late: most clusters were never moved, and reading imports as much as the rest of the task.
    from evenkeel.lake.controls import leases
    from evenkeel.lake.store import Lake

    try:
        lease = leases(Lake(lake), [cluster]).get(cluster)
    except NoLake:
        return None
    except (EvenkeelError, OSError) as error:
        log.warning("whether another lake still holds %s is not known: %s", cluster, error)
        return None
    return None if lease is None else lease.until
