"""Moving averages of a bundle's figures."""

from evenkeel.model.averages import default_history, first_averages, updated, with_sample
from evenkeel.model.load import BundleHistory, BundleStats


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
