"""Aggregate: topic figures become bundle and broker load, in Spark SQL all the way; there is no round."""
