"""Moving averages of a bundle's figures."""

from dataclasses import replace

from evenkeel.model.averages import broker_averages, default_history, first_averages, updated, with_sample
from evenkeel.model.load import BrokerAverages, BundleHistory, BundleStats, MessageAverages


def test_article_short_and_long_term_averages() -> None:
    """Eleven samples of 100 msg/s and one of 1,000: the short-term average of ten moves faster."""
    short, long = first_averages(10), first_averages(1000)
    for rate in [100.0] * 11 + [1000.0]:
        sample = BundleStats(msg_rate_in=rate)
        short, long = with_sample(short, sample), with_sample(long, sample)
    assert (short.msg_rate_in, short.samples) == (190.0, 10)
    assert (long.msg_rate_in, long.samples) == (175.0, 12)


def test_a_bundle_without_history_has_averages_of_no_sample() -> None:
    assert default_history() == BundleHistory(first_averages(10), first_averages(1000), 0)
    assert (default_history().short_term.samples, default_history().long_term.samples) == (0, 0)


def test_a_sample_counts_for_both_terms_and_since_the_quota_where_there_is_one() -> None:
    sample = BundleStats(msg_rate_in=30.0, topics=4)
    past = BundleHistory(first_averages(10), first_averages(1000), 2, 3)
    found = updated(past, sample)
    assert (found.short_term.samples, found.long_term.samples) == (1, 1)
    assert (found.short_term.msg_rate_in, found.topics, found.samples_since_quota) == (30.0, 4, 4)
    assert updated(None, sample).samples_since_quota is None


def test_a_brokers_averages_are_sums_of_each_figure_in_the_order_of_bundles() -> None:
    short, long = MessageAverages(10, 1, 1.0, 2.0, 3.0, 4.0), MessageAverages(1000, 1, 5.0, 6.0, 7.0, 8.0)
    histories = {"a": BundleHistory(short, long, 0), "b": BundleHistory(long, short, 0)}
    assert broker_averages(["a"], histories) == BrokerAverages(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    assert broker_averages("ba", histories) == BrokerAverages(6.0, 8.0, 10.0, 12.0, 6.0, 8.0, 10.0, 12.0)
    unknown = broker_averages(["c"], histories, BundleStats(msg_rate_in=3.0, msg_throughput_out=7.0))
    assert (unknown.short_term_rate_in, unknown.long_term_throughput_out, unknown.long_term_rate) == (3.0, 7.0, 3.0)
    tenths = [replace(long, msg_rate_out=value) for value in (0.3, 0.2, 0.1)]
    rows = {name: BundleHistory(one, one, 0) for name, one in zip("cba", tenths, strict=True)}
    assert repr(broker_averages("cab", rows).long_term_rate_out) == repr(0.1 + 0.2 + 0.3)
