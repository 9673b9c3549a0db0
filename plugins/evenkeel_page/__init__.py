"""The page of the Evenkeel plugin; loaded by Airflow's API server alone."""
