"""Figures for a monitoring system, read from the lake as `evenkeel status` reads it, with names in Prometheus style.

`declarations` lists them, `figures` reads them, `task_times` has the durations of tasks, `log_figures` the figures of
the transparency log, `lake_watch` reads again and again, `configuration_watch` knows the lakes, and `exporter` answers
scrapes. These modules write nothing and send no request to a cluster.
"""
