"""The landing zone: how snapshots travel where Airflow cannot reach a cluster."""
