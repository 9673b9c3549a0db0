"""The Spark session by connection, and the local Connect server: jars, start, liveness, stop."""

SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.ansi.enabled": "true",
}
"""What values mean: every session sets these, since a server that others share may have other ones."""
