"""Evenkeel under Airflow: how a DAG task is run, and an Airflow of one's own on one machine."""
