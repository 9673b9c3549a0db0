"""Pulsar's admin API: its client, and its answers turned into rows of observed tables."""
