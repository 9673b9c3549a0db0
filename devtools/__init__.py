"""Tools of this checkout, not shipped with the package: conformance runner, demo, a local Airflow, a Pulsar lab."""
