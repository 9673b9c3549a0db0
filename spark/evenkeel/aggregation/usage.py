"""A broker's usage in percent and its weighted usage, in Pulsar's 32-bit arithmetic, as Spark SQL.

Pulsar (ResourceUsage.percentUsage) divides two 32-bit floats and multiplies by 100 in 32 bits, so 30 of 100 is
30.000002 %. Thresholds are compared with that figure, so it is reproduced to the bit.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")

# The modular manager never looks at heap memory (LocalBrokerData.getMaxResourceUsageWithWeight); the extensible one
# does, with a weight of its own (BrokerLoadData.getWeightedMaxResourceUsage).
MODULAR_RESOURCES = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")


def percent(usage: Column, limit: Column) -> Column:
    """Usage in percent of the limit, as a double that holds a 32-bit value; 0 without a limit, NULL if not known."""
    ratio = F.try_divide(usage.cast("float").cast("double"), limit.cast("float").cast("double")).cast("float")
    share = (ratio.cast("double") * F.lit(100.0)).cast("float").cast("double")
    return F.when(usage.isNull() | limit.isNull(), None).when(limit > 0, share).otherwise(F.lit(0.0))


def weighted_usage(is_extensible: Column) -> Column:
    """The largest of percent x weight, as a fraction, of the columns `<resource>_percent` and `<resource>_weight`.

    NULL if a resource that has a weight is not known. Units: fraction, 1.0 is full.
    """
    return F.when(is_extensible, _largest(RESOURCES)).otherwise(_largest(MODULAR_RESOURCES))


def _largest(resources: tuple[str, ...]) -> Column:
    # Pulsar compares with `>`, so not-a-number (0 of a limit too small for 32 bits) never wins; in Spark it would.
    least = F.lit(float("-inf"))
    weighted = [F.nanvl(F.col(f"{name}_percent") * F.col(f"{name}_weight"), least) for name in resources]
    is_unknown = [(F.col(f"{name}_percent").isNull() & (F.col(f"{name}_weight") > 0)).cast("int") for name in resources]
    unknown = is_unknown[0]
    for flag in is_unknown[1:]:
        unknown = unknown + flag
    return F.when(unknown == 0, F.greatest(*weighted) / F.lit(100.0))
