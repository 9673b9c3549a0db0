"""Small clusters of the modular load manager, for tests of shedders, and what became of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenkeel.model.averages import updated
from evenkeel.model.load import BrokerReport, LoadData
from evenkeel.shed import try_shedder
from evenkeel.shed.shedder import Shed
from evenkeel.shed.try_shedder import Tried

MIB = 1_048_576.0


def broker(
    name: str, cpu: float = 50.0, *, rates: Sequence[float] = (), mib: Sequence[float] = (), **figures: Any
) -> BrokerReport:
    """A broker with a bundle for every rate (msg/s, a byte per message), or for every throughput (MiB/s).

    `cpu` is percent. The bundles of b1:8080 are those of the namespaces t/b1-0, t/b1-1, …, one each. The broker's rate
    and throughput are the sums of its bundles', where `figures`, fields of `BrokerReport`, give no others.
    """
    flows = [(rate, rate) for rate in rates] or [(0.0, one * MIB) for one in mib]
    host = name.split(":")[0]
    bundles = {f"t/{host}-{n}/0x00000000_0xffffffff": flow for n, flow in enumerate(flows)}
    return replace(try_shedder.broker(name, cpu, bundles), **figures)


def cluster(*reports: BrokerReport, **more: Any) -> LoadData:
    """Load data of these brokers, whose bundles are reported for the first time; `more` are fields of `LoadData`."""
    histories = {bundle: updated(None, stats) for report in reports for bundle, stats in report.stats.items()}
    return LoadData({report.broker: report for report in reports}, histories, **more)


def taken(shed: Shed | Tried) -> list[str]:
    """The namespaces of the bundles that leave, without their tenant, in the order of selection."""
    return [bundle.split("/")[1] for bundle, _ in shed.unloads]


def said_of(shed: Shed | Tried, subject: str) -> str:
    """The sentence about a broker or a bundle."""
    (row,) = (row for row in shed.considered if row.subject == subject)
    return row.sentence()
