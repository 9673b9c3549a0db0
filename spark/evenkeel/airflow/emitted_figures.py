"""Figures of a run's clusters for Airflow's own metrics (statsd, DogStatsD or OpenTelemetry, as configured there).

If Airflow's metrics are on, a recorded cycle is read as `evenkeel metrics` reads it. Some of its figures are sent as
gauges with the same names, and with the cluster as a tag. If they are off, nothing is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime

SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")
"""Keys of Airflow's section [metrics]; each one turns its metrics on."""

log = logging.getLogger(__name__)


def emit_figures(lake: str, clusters: Collection[str]) -> int:
    """Give the figures of these clusters to Airflow's metrics, and return how many; never raises."""
    try:
        return _emit(lake, clusters) if clusters and _is_on() else 0
    except Exception as error:  # a recorded cycle does not fail because of its figures
        log.warning("no figures for Airflow's metrics: %s: %s", type(error).__name__, error)
        return 0


def _is_on() -> bool:
    from airflow.sdk.configuration import conf

    return any(conf.getboolean("metrics", name, fallback=False) for name in SWITCHES)


def _emit(lake: str, clusters: Collection[str]) -> int:
    from airflow.sdk.observability import stats

    from evenkeel.metrics.declarations import BY_NAME, EMITTED
    from evenkeel.metrics.figures import LakeReader

    only = next(iter(clusters)) if len(clusters) == 1 else None
    figures, number = LakeReader(lake).read(datetime.now(UTC), only), 0
    for name in EMITTED:
        for labels, value in figures.values.get(name, {}).items():
            tags = dict(zip(BY_NAME[name].labels, labels, strict=True))
            if tags["cluster"] in clusters:
                stats.gauge(name, value, tags=tags)
                number += 1
    return number
