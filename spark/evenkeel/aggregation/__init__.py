"""Topic figures to bundle and broker load: Spark SQL all the way, grouped by cluster and cycle."""
