"""Small clusters to place a bundle in, and what became of it."""

from typing import Any

from evenkeel.model.load import BrokerAverages, BrokerReport, LoadData, Policies, ResourceUsage
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.placement import Placement
from evenkeel.settings import Settings

NEW = "t/new/0x00000000_0xffffffff"


def report(name: str, cpu: float = 10.0, **values: Any) -> BrokerReport:
    """A report with this CPU usage (percent); `values` are fields of `BrokerReport`."""
    return BrokerReport(name, cpu=ResourceUsage(cpu, 100.0), **values)


def rated(reports: list[BrokerReport], rates: list[float]) -> LoadData:
    """These brokers with these long-term rates (msg/s)."""
    averages = {r.broker: BrokerAverages(long_term_rate_in=x) for r, x in zip(reports, rates, strict=True)}
    return LoadData({r.broker: r for r in reports}, averages=averages)


def used(usages: dict[str, float], **values: Any) -> dict[str, BrokerReport]:
    """Brokers with this CPU usage (percent), a bundle each, and traffic; `values` are fields of `BrokerReport`."""
    values = {"bundles": frozenset(["t/own/0x00000000_0xffffffff"]), "msg_rate_in": 10.0} | values
    return {name: report(name, cpu, **values) for name, cpu in usages.items()}


def standing(usages: dict[str, float], rates: dict[str, float]) -> LoadData:
    """Brokers as `used` makes them, with these long-term rates (msg/s); one that is not named has no average."""
    averages = {name: BrokerAverages(long_term_rate_in=rate) for name, rate in rates.items()}
    return LoadData(used(usages), averages=averages)


def place(load: LoadData, policies: Policies = Policies(), bundle: str = NEW, **values: Any) -> Placement:  # noqa: B008
    """Where a bundle without owner goes; `values` are Pulsar's keys."""
    return PlacementRound(load, policies, Settings().with_values(values)).assign(bundle)


def best(load: LoadData, bundle: str = NEW, **values: Any) -> tuple[str, ...]:
    """The brokers that are equally good for the bundle; `values` are Pulsar's keys."""
    return place(load, bundle=bundle, **values).best


def removed(placement: Placement) -> dict[str, str]:
    """Broker -> the rule of the filter that removed it."""
    return {a.name: a.rule for a in placement.candidates if a.verdict == "removed"}
