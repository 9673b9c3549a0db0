"""Builds the values that decisions take, in the terms in which Pulsar's tests state theirs.

Pulsar's tests call bundles "bundle-3" and brokers "broker-1". Evenkeel wants a bundle's full name; `named` makes one.
Usages are in per cent of a limit of 100, rates in msg/s, throughputs in byte/s, times in ms since 1970.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from evenkeel.model.load import (
    BrokerLoadData,
    BrokerReport,
    BundleHistory,
    BundleStats,
    LoadData,
    MessageAverages,
    ResourceUsage,
)
from evenkeel.model.usage import ExtensibleAverages
from evenkeel.settings import Settings

MIB = 1_048_576.0
FULL = "0x00000000_0xffffffff"
NOW = 1_700_000_000_000
EXTENSIBLE = "ExtensibleLoadManagerImpl"
MODULAR = "ModularLoadManagerImpl"


def settings(**values: Any) -> Settings:
    """Pulsar's defaults of 4.x with some keys set."""
    return Settings().with_values(values)


def named(short: str) -> str:
    """A bundle's full name from the short one in Pulsar's test; names sort as the short ones do."""
    return f"test/{short}/{FULL}"


def short(bundle: str) -> str:
    """The name in Pulsar's test, from a bundle's full name."""
    return bundle.split("/")[1]


def usage(used: float, limit: float) -> ResourceUsage:
    """One resource: `used` of `limit`, both in the same unit."""
    return ResourceUsage(used, limit)


def report(broker: str, bundles: Iterable[str] = (), **more: Any) -> BrokerReport:
    """What a broker reports; `more` are fields of `BrokerReport`."""
    return BrokerReport(broker, bundles=frozenset(bundles), **more)


def averages(samples: int = 0, **figures: float) -> MessageAverages:
    """Message averages; `figures` as `rate_in=…`, `throughput_out=…`."""
    return MessageAverages(1_000, samples, **{f"msg_{name}": value for name, value in figures.items()})


def history(samples: int = 0, topics: int = 0, **figures: float) -> BundleHistory:
    """Equal figures for the short and the long term; Pulsar's tests set only the term that their class reads."""
    found = averages(samples, **figures)
    return BundleHistory(found, found, topics)


def load_of(*reports: BrokerReport, histories: Mapping[str, BundleHistory] | None = None, **more: Any) -> LoadData:
    """The modular leader's load data of these brokers; `histories`: bundle -> its averages."""
    return LoadData({one.broker: one for one in reports}, histories or {}, **more)


def usages(percent: float, limit: float = 100.0) -> dict[str, Any]:
    """All five resources equally used."""
    names = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
    return dict.fromkeys(names, ResourceUsage(percent, limit))


def published(
    after: ExtensibleAverages, latest: BrokerReport, updated_at: int = NOW, topics: int = 6
) -> BrokerLoadData:
    """Load data that an extensible broker publishes: its averages `after` an update by its `latest` report."""
    return BrokerLoadData(
        weighted_max_ema=after.weighted_maximum,
        msg_throughput_ema=after.msg_throughput,
        msg_throughput_in=latest.msg_throughput_in,
        msg_throughput_out=latest.msg_throughput_out,
        topics=topics,
        updated_at=updated_at,
    )


def stats(**figures: float) -> BundleStats:
    """A bundle's latest figures; rates as `rate_in=…`, flow as `throughput_in=…`, the rest by its own name."""
    plain = ("topics", "consumers", "producers", "cache_size_bytes")
    named_fully = {name if name in plain else f"msg_{name}": value for name, value in figures.items()}
    return BundleStats(**named_fully)  # type: ignore[arg-type]
