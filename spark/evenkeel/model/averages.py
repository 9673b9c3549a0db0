"""Short-term and long-term averages of bundles (Pulsar: TimeAverageMessageData, BundleData, TimeAverageBrokerData).

Sample counts (10 and 1000) and defaults are constants in Pulsar, not settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evenkeel.model.load import (
    LONG_TERM_SAMPLES,
    SHORT_TERM_SAMPLES,
    BrokerAverages,
    BrokerReport,
    BundleHistory,
    BundleStats,
    MessageAverages,
)

DEFAULT_STATS = BundleStats(
    msg_rate_in=50.0, msg_rate_out=50.0, msg_throughput_in=50_000.0, msg_throughput_out=50_000.0
)
"""Pulsar's assumption about a bundle without history: msg/s and byte/s."""


def first_averages(max_samples: int, stats: BundleStats = DEFAULT_STATS) -> MessageAverages:
    """Return the averages of a bundle before its first sample: assumed figures, which the first sample overwrites."""
    return MessageAverages(
        max_samples=max_samples,
        samples=0,
        msg_throughput_in=stats.msg_throughput_in,
        msg_throughput_out=stats.msg_throughput_out,
        msg_rate_in=stats.msg_rate_in,
        msg_rate_out=stats.msg_rate_out,
    )


def default_history(
    stats: BundleStats = DEFAULT_STATS,
    short_term_samples: int = SHORT_TERM_SAMPLES,
    long_term_samples: int = LONG_TERM_SAMPLES,
) -> BundleHistory:
    """Return the history of a bundle that has none yet."""
    return BundleHistory(first_averages(short_term_samples, stats), first_averages(long_term_samples, stats), 0)


def next_means(
    samples: int, max_samples: int, means: Iterable[float], figures: Iterable[float]
) -> tuple[int, tuple[float, ...]]:
    """Return the number of samples and the means after one more sample.

    It is a plain mean up to `max_samples`; from then on the new sample has the weight 1/max_samples.
    """
    n = min(samples + 1, max_samples)
    return n, tuple([((n - 1) * old + new) / n for old, new in zip(means, figures, strict=True)])


def with_sample(averages: MessageAverages, stats: BundleStats) -> MessageAverages:
    """Return the averages after one more sample (see `next_means`)."""
    n, means = next_means(
        averages.samples,
        averages.max_samples,
        (averages.msg_throughput_in, averages.msg_throughput_out, averages.msg_rate_in, averages.msg_rate_out),
        (stats.msg_throughput_in, stats.msg_throughput_out, stats.msg_rate_in, stats.msg_rate_out),
    )
    return MessageAverages(averages.max_samples, n, *means)


def updated(history: BundleHistory | None, stats: BundleStats) -> BundleHistory:
    """Return a bundle's history after one more sample; without a history the sample is its first."""
    past = history or default_history()
    since = None if past.samples_since_quota is None else past.samples_since_quota + 1
    return BundleHistory(with_sample(past.short_term, stats), with_sample(past.long_term, stats), stats.topics, since)


def history_of_quota(quota: BundleStats) -> BundleHistory:
    """Return the history of a bundle that has only a resource quota: "ample history" of the quota's figures.

    Source: ModularLoadManagerImpl.getBundleDataOrDefault. Sample counts are at their maximum. So the first sample
    counts for a tenth in the short term and for a thousandth in the long term. `aggregate.bundle_load` states the same
    in SQL.
    """
    short = replace(first_averages(SHORT_TERM_SAMPLES, quota), samples=SHORT_TERM_SAMPLES)
    long = replace(first_averages(LONG_TERM_SAMPLES, quota), samples=LONG_TERM_SAMPLES)
    return BundleHistory(short, long, 0, 0)


def share_of_quota(samples_since: int) -> float:
    """Return the fraction of the long-term averages that still comes from the initial resource quota: 1.0 is all."""
    return float((1.0 - 1.0 / LONG_TERM_SAMPLES) ** samples_since)


def update_histories(
    histories: Mapping[str, BundleHistory], brokers: Mapping[str, BrokerReport]
) -> dict[str, BundleHistory]:
    """Return the histories after one sample of every bundle in every report; bundles in no report are forgotten.

    Source: ModularLoadManagerImpl.updateBundleData. A bundle in two reports gets two samples, in broker name order.
    Pulsar samples whenever any report changes; Evenkeel samples once per cycle.
    """
    fresh: dict[str, BundleHistory] = {}
    for _, report in sorted(brokers.items()):
        for bundle, stats in report.stats.items():
            fresh[bundle] = updated(fresh.get(bundle) or histories.get(bundle), stats)
    return fresh


def broker_averages(
    bundles: Iterable[str], histories: Mapping[str, BundleHistory], assumed: BundleStats = DEFAULT_STATS
) -> BrokerAverages:
    """Return sums over a broker's bundles in name order; a bundle without history counts with the assumed figures."""
    unknown = default_history(assumed)
    return summed(figures_of(histories.get(bundle, unknown)) for bundle in sorted(bundles))


Figures = tuple[float, float, float, float, float, float, float, float]
"""Throughput in and out, rate in and out, of the short term and then of the long term."""


def figures_of(history: BundleHistory) -> Figures:
    """Return the averages of one bundle."""
    short, long = history.short_term, history.long_term
    return (
        short.msg_throughput_in,
        short.msg_throughput_out,
        short.msg_rate_in,
        short.msg_rate_out,
        long.msg_throughput_in,
        long.msg_throughput_out,
        long.msg_rate_in,
        long.msg_rate_out,
    )


def summed(figures: Iterable[Figures]) -> BrokerAverages:
    """Return sums, added one after the other, as the bits of a sum depend on the order."""
    short_in = short_out = short_rate_in = short_rate_out = 0.0
    long_in = long_out = long_rate_in = long_rate_out = 0.0
    for a, b, c, d, e, f, g, h in figures:
        short_in += a
        short_out += b
        short_rate_in += c
        short_rate_out += d
        long_in += e
        long_out += f
        long_rate_in += g
        long_rate_out += h
    return BrokerAverages(
        short_in, short_out, short_rate_in, short_rate_out, long_in, long_out, long_rate_in, long_rate_out
    )
