"""An Airflow of one's own on one machine: for the demo, for `make ui`, for tests."""
