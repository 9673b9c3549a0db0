"""Evenkeel under Airflow: how a DAG task is run, its params, approval, lineage and credentials."""
