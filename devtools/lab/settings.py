"""Choices for a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from devtools.lab.errors import LabError
from devtools.lab.releases import LATEST, releases

MANAGERS = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
SHEDDERS = {
    **{
        name: f"org.apache.pulsar.broker.loadbalance.impl.{name}"
        for name in ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
    },
    "TransferShedder": "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
}
MOST_BROKERS = 9


@dataclass(frozen=True, slots=True)
class LabSettings:
    """One cluster.

    `own_shedding` (a strategy's simple name) and `own_split` let the brokers steer by themselves. `auth` requires a
    token of every client. `cpu_percent` of one core is each broker's limit, in a separate cgroup. `broker` contains any
    settings of broker.conf, and overrides all others.
    """

    version: str = LATEST
    manager: str = "modular"
    brokers: int = 3
    auth: bool = False
    own_shedding: str | None = None
    own_split: bool = False
    cpu_percent: int | None = None
    heap_mb: int = 256
    broker: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version not in releases():
            raise LabError(f"No Pulsar {self.version} here; there is a lock file for {', '.join(releases())}.")
        if self.manager not in MANAGERS:
            raise LabError(f"{self.manager!r} is not a load manager; choose {' or '.join(MANAGERS)}.")
        if not 1 <= self.brokers <= MOST_BROKERS:
            raise LabError(f"{self.brokers} brokers are too few or too many: 1 to {MOST_BROKERS}.")
        if self.own_shedding is not None and self.own_shedding not in SHEDDERS:
            raise LabError(f"{self.own_shedding!r} is not a shedding strategy; choose one of {', '.join(SHEDDERS)}.")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
