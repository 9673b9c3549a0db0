"""Which bundle a topic lies in: by the hash of its name and the boundaries in force (NamespaceBundles.findBundle).

A topic's hash is CRC32 of its full name; bundle i of a namespace holds the hashes from boundary i up to, not including,
boundary i + 1; the last bundle includes 0xffffffff too. (Pulsar's own look-up raises an error for a topic with exactly
that hash although the last bundle is declared closed; here it belongs to the last bundle.)
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

CYCLE = ("cluster", "cycle_at")
FULL_HASH = 4_294_967_295
_HEX = "0x[0-9a-fA-F]{8}"

# Heartbeat and SLA-monitor namespaces stand in no list of namespaces and are always one bundle; 4.0 has a cluster in
# between. `pulsar/system` is an ordinary namespace with boundaries of its own.
_BROKER_NAMESPACE = r"^(pulsar|sla-monitor)/([^/]+/)?[^/]+:[0-9]+$"


def is_broker_namespace(namespace: Column) -> Column:
    """Whether it is a broker's own heartbeat or SLA-monitor namespace."""
    return namespace.rlike(_BROKER_NAMESPACE)


def is_system_namespace(namespace: Column) -> Column:
    """Whether it is Pulsar's own: heartbeat, SLA monitor or `pulsar/system`."""
    return is_broker_namespace(namespace) | (namespace == F.lit("pulsar/system"))


def bundles_in_force(namespaces: DataFrame, ownership: DataFrame) -> DataFrame:
    """One row per bundle: cluster, cycle_at, namespace, bundle, lower, upper, shift.

    `namespaces` are rows of namespace_bundles. A broker's own namespace has no boundaries there; it counts as one
    bundle where `ownership` (rows of bundle_ownership) shows that a broker has it, as it does in Pulsar's own sums.
    `shift` is how far a hash of this namespace is shifted to give its bucket, see `with_bundle`.
    """
    hashes = (
        f"transform(filter(boundaries, b -> b rlike '^{_HEX}$'), b -> cast(conv(substring(b, 3), 16, 10) as bigint))"
    )
    known = namespaces.select(*CYCLE, "namespace", F.expr(hashes).alias("hashes"))
    own = (
        ownership.where(is_broker_namespace(F.col("namespace")))
        .select(*CYCLE, "namespace", F.array(F.lit(0), F.lit(FULL_HASH)).cast("array<bigint>").alias("hashes"))
        .distinct()
    )
    ranges = "transform(slice(hashes, 1, bundles), (b, i) -> named_struct('lower', b, 'upper', hashes[i + 1]))"
    return (
        known.unionByName(own)
        .withColumn("bundles", F.expr("greatest(size(hashes) - 1, 0)"))
        .withColumn("shift", F.expr("32 - cast(ceil(log2(greatest(bundles, 1))) as int)"))
        .select(*CYCLE, "namespace", "shift", F.explode(F.expr(ranges)).alias("range"))
        .select(*CYCLE, "namespace", _bundle_name().alias("bundle"), "range.lower", "range.upper", "shift")
    )


def with_bundle(topics: DataFrame, bundles: DataFrame) -> DataFrame:
    """The topics (cluster, cycle_at, namespace, hash, …) with the `bundle` that each lies in.

    Topics of namespaces without boundaries are left out. Every namespace cuts the hash space into as many buckets as
    it has bundles (rounded up to a power of two); a bundle stands in every bucket it touches, so that topic and bundle
    meet by equality on the bucket and few candidates are left for the comparison of ranges.
    """
    shifts = bundles.select(*CYCLE, "namespace", "shift").distinct()
    touched = F.expr("sequence(shiftright(lower, shift), shiftright(last_hash, shift))")
    candidates = bundles.withColumn("last_hash", _last_hash()).select(
        *CYCLE, "namespace", "bundle", "lower", "last_hash", F.explode(touched).alias("bucket")
    )
    return (
        topics.join(F.broadcast(shifts), [*CYCLE, "namespace"], how="inner")
        .withColumn("bucket", F.expr("shiftright(hash, shift)"))
        .join(F.broadcast(candidates), [*CYCLE, "namespace", "bucket"], how="inner")
        .where((F.col("hash") >= F.col("lower")) & (F.col("hash") <= F.col("last_hash")))
        .drop("shift", "bucket", "lower", "last_hash")
    )


def _last_hash() -> Column:
    return F.expr(f"if(upper = {FULL_HASH}, upper, upper - 1)")


def _bundle_name() -> Column:
    lower, upper = (F.lower(F.lpad(F.hex(F.col(f"range.{end}")), 8, "0")) for end in ("lower", "upper"))
    return F.concat(F.col("namespace"), F.lit("/0x"), lower, F.lit("_0x"), upper)
