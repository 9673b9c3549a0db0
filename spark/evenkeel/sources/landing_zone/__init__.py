"""The landing zone: snapshots of clusters that Airflow cannot reach."""
