"""The Spark session by connection, and the local Connect server: jars, start, liveness, stop."""
