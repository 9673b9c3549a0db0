"""Figures for a monitoring system, read from the lake as `evenkeel status` reads it, named as Prometheus asks for.

`declared` says which there are, `figures` reads them, `task_times` knows how long tasks took, `log_figures` what is
known of the transparency log, `lake_watch` reads again and again, `configuration_watch` knows which lakes, and
`exporter` answers scrapes. Nothing here writes, and nothing is asked of a cluster.
"""
