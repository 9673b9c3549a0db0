"""The Spark session by connection, and the local Connect server: jars, start, liveness, stop."""

SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.enabled": "true",
}
"""Settings that change the meaning of values. Every session sets them: a shared server may have others."""
