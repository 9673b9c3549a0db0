"""Figures for a monitoring system, read from the lake as `evenkeel status` reads it, with names in Prometheus style.

`declarations` lists them, `figures` reads them, `lake_watch` reads the configured lakes again and again, and `exporter`
answers scrapes. These modules write nothing and send no request to a cluster.
"""
