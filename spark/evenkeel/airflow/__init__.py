"""Evenkeel under Airflow: how a DAG task is run. DAGs and the plugin call this room and no other."""
