"""All checks of an installation, in the order in which they are reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from pathlib import Path

from evenkeel.doctor import airflow_state, clusters, machine, spark_endpoint, storage
from evenkeel.doctor.checks import CheckFinding, Site, SiteCheck, fail, ok, skipped
from evenkeel.doctor.configuration_faults import configuration_faults
from evenkeel.doctor.spark_endpoint import SPARK_SECONDS, WORKERS_SECONDS
from evenkeel.errors import BadInput
from evenkeel.settings.configuration_file import FaultyConfiguration
from evenkeel.settings.lakes import LakeMap, configured_lakes
from evenkeel.settings.operation import CONFIGURATION, OperatorEnvironment
from evenkeel.sources.configuration import ClusterSource, read_configuration


def check_configuration(site: Site, _: str) -> CheckFinding:
    """The configuration file: `evenkeel config check`."""
    if site.configuration is None:
        return skipped(f"no configuration is named: give --config, or set {CONFIGURATION}")
    faults = configuration_faults(site.configuration)
    if faults:
        more = f" ({len(faults)} faults in all)" if len(faults) > 1 else ""
        return fail(f"{faults[0].words(site.configuration)}{more}", f"`evenkeel config check {site.configuration}`")
    return ok(f"{site.configuration} is sound, with {len(site.sources or ())} clusters")


def _lakes(site: Site) -> Sequence[str]:
    return [*site.lakes] or [""]


def _lake_check(name: str, about: str, run: Callable[[Site, str], CheckFinding], seconds: float = 60.0) -> SiteCheck:
    """A check of the lake, or of each of several."""

    @wraps(run)
    def of_lake(site: Site, lake: str) -> CheckFinding:
        return run(replace(site, lake=site.lakes[lake]) if lake else site, "")

    return SiteCheck(name, about, of_lake, seconds, _lakes)


CHECKS = (
    SiteCheck("package", "the package and its expectations", machine.check_package),
    SiteCheck("python", "the version of Python", machine.check_python),
    SiteCheck("packages", "versions of packages against those that are pinned", machine.check_packages),
    SiteCheck("java", "the JVM of the local Spark server", machine.check_java, 40.0),
    SiteCheck("jars", "the jars of Delta, and of object stores", machine.check_jars, 30.0),
    SiteCheck("disk", "room on the disks", machine.check_disk),
    SiteCheck("configuration", "the configuration file", check_configuration),
    SiteCheck("secret_files", "files with tokens and keys, and their permissions", machine.check_secret_files),
    SiteCheck("spark", "the Spark endpoint: reachable, token, version", spark_endpoint.check_spark, SPARK_SECONDS),
    SiteCheck("spark_workers", "the code of Spark's workers", spark_endpoint.check_workers, WORKERS_SECONDS),
    _lake_check("lake", "the tables and their version", storage.check_tables),
    _lake_check("lake_writer", "the holder of the lake's lock", storage.check_writer),
    _lake_check("lake_rights", "rights on the lake's folder or bucket", storage.check_rights),
    _lake_check("store_clock", "the clock of the lake's store", storage.check_store_clock, storage.SECONDS),
    _lake_check("log", "the transparency log and its key", storage.check_log, 120.0),
    _lake_check("witnesses", "the witnesses of the log", storage.check_witnesses, 120.0),
    SiteCheck("airflow", "Airflow's version and configuration", airflow_state.check_airflow, airflow_state.SECONDS),
    SiteCheck("dags", "whether the DAG files can be imported", airflow_state.check_dags, airflow_state.SECONDS),
    SiteCheck("connections", "Airflow's connections", airflow_state.check_connections, airflow_state.SECONDS),
    *(
        SiteCheck(name, about, run, clusters.SECONDS, clusters.live_clusters, clusters.WITHOUT)
        for name, about, run in (
            ("admin", "the brokers' admin API: reached, and allowed", clusters.check_admin),
            ("pulsar_version", "the versions of the brokers", clusters.check_versions),
            ("hung_brokers", "whether a broker hangs", clusters.check_hung),
            ("switches", "the brokers' own shedding and splitting", clusters.check_switches),
            ("clocks", "the brokers' clocks", clusters.check_clocks),
        )
    ),
    SiteCheck(
        "landing_zone", "rights on the landing zone", storage.check_zone,
        storage.SECONDS, storage.zone_clusters, storage.NO_ZONE,
    ),
    SiteCheck(
        "queues", "the queues of an agent, and their keys", storage.check_queues,
        storage.SECONDS, storage.queue_clusters, storage.NO_QUEUE,
    ),
)  # fmt: skip
"""Every check."""

LAKE_CHECKS = frozenset(check.name for check in CHECKS if check.subjects is _lakes)
"""Checks whose subject is a lake, if there are several."""


def chosen_checks(only: Sequence[str], skip: Sequence[str]) -> tuple[SiteCheck, ...]:
    """The checks of these names, all without any, but for those that are skipped. BadInput for an unknown name."""
    known = {check.name for check in CHECKS}
    for name in (*only, *skip):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadInput(f"there is no check {name!r}{hint}. Known are {', '.join(check.name for check in CHECKS)}")
    return tuple(check for check in CHECKS if (not only or check.name in only) and check.name not in skip)


def site_of(
    configuration: str | None, lake: str | None, home: Path, *, probe: bool, environment: Mapping[str, str] = os.environ
) -> Site:
    """The installation as the options and the environment name it. SettingsError where the file cannot be read."""
    named = configuration or environment.get(CONFIGURATION)
    site_environment = OperatorEnvironment({**environment, **({CONFIGURATION: named} if named else {})})
    file = Path(named) if named else None
    sources = () if file is None else _sources(file)
    # If the file has faults, only the check of the file reports them.
    env: Mapping[str, str] = site_environment if sources is not None else environment
    lakes = LakeMap() if lake or sources is None else configured_lakes(env)
    only = lakes.lakes[0].path if lakes.lakes else env.get("EVENKEEL_LAKE") or None
    site = Site(file, sources, lake or only, home, env, probe)
    several = {known_lake.name: known_lake.path for known_lake in lakes.lakes} if lakes.is_several else {}
    return replace(site, resolve=airflow_state.AirflowTokens(site), lakes=several)


def _sources(file: Path) -> tuple[ClusterSource, ...] | None:
    try:
        return read_configuration(file)
    except FaultyConfiguration:
        return None
