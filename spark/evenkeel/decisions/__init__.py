"""The decisions: pure code that knows neither Spark nor Airflow nor Delta nor HTTP, neither the clock nor chance.

Everything walks brokers and bundles in ascending name order and sorts stably, so ties break by name.
"""
