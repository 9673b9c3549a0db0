"""Short- and long-term averages of a bundle by Pulsar's update rule (TimeAverageMessageData.update).

With a sample `s`: n = min(n + 1, most), average = ((n - 1) * average + s) / n; most is 10 for the short term, 1000 for
the long one. A bundle never seen before starts from Pulsar's defaults with n = 0, so that its first sample replaces
them. Pulsar takes the sample from the brokers' reports, several times per report; here it is the sum over the bundle's
topics, once per cycle.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.aggregation.bundle_sums import FIGURES

MOST_SAMPLES = {"short": 10, "long": 1_000}

# Pulsar's NamespaceBundleStats defaults: ModularLoadManagerImpl.DEFAULT_MESSAGE_RATE and DEFAULT_MESSAGE_THROUGHPUT.
DEFAULTS = {"msg_rate_in": 50.0, "msg_rate_out": 50.0, "msg_throughput_in": 50_000.0, "msg_throughput_out": 50_000.0}
AVERAGES = tuple(f"{term}_{figure}" for term in MOST_SAMPLES for figure in FIGURES)
SAMPLES = tuple(f"{term}_samples" for term in MOST_SAMPLES)


def default_average(average: str) -> float:
    """What Pulsar assumes of a bundle it has never seen, e.g. for `short_msg_rate_in`."""
    return DEFAULTS[average.split("_", 1)[1]]


def updated_samples(samples: Column, sample: Column, most: int) -> Column:
    """The number of samples after `sample`; unchanged where there is none."""
    return F.when(sample.isNull(), samples).otherwise(F.least(samples + F.lit(1), F.lit(most)))


def updated_average(average: Column, samples_after: Column, sample: Column) -> Column:
    """The average after `sample`, in the very operations and order of Pulsar's; unchanged where there is none."""
    n = samples_after.cast("double")
    return F.when(sample.isNull(), average).otherwise(((n - F.lit(1.0)) * average + sample) / n)


def with_averages(bundles: DataFrame) -> DataFrame:
    """Carries the averages on by one sample, the bundle's measured_* figures; without them they stay as they were, and
    so they do where a measured_gap says that they are not to be used.

    `bundles` hold the averages and sample counts of the cycle before, NULL where there was none.
    """
    # The four figures of a bundle are known together or not at all, so any of them tells whether there is a sample.
    is_usable = F.col("measured_gap").isNull()
    sample = F.when(is_usable, F.col("measured_msg_rate_in"))
    started = {name: F.coalesce(F.col(name), F.lit(0)) for name in SAMPLES}
    started |= {name: F.coalesce(F.col(name), F.lit(default_average(name))) for name in AVERAGES}
    counted = {
        f"{term}_samples": updated_samples(F.col(f"{term}_samples"), sample, most)
        for term, most in MOST_SAMPLES.items()
    }
    averaged = {
        f"{term}_{figure}": updated_average(
            F.col(f"{term}_{figure}"), F.col(f"{term}_samples"), F.when(is_usable, F.col(f"measured_{figure}"))
        )
        for term in MOST_SAMPLES
        for figure in FIGURES
    }
    return bundles.withColumns(started).withColumns(counted).withColumns(averaged)
