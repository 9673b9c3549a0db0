"""Aggregate: topic figures become bundle and broker load: sums over topics in Spark SQL, then a round."""
