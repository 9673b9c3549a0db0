"""Evenkeel: the load-balancing decisions of Apache Pulsar, taken outside the brokers and on the record."""

__version__ = "1.0.0"
