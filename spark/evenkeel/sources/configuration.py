"""Clusters: the sources of their snapshots, their access, and the operator's settings for each.

The entries of the configuration file are in `settings.cluster_entries`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.settings.cluster_entries import DAYS_KEPT, SILENT_SECONDS, ClusterEntries
from evenkeel.settings.configuration_file import configuration_in
from evenkeel.settings.names import default_keys, default_landing

RECORDING_SCHEME = "recording:"


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A running cluster: its access (a configuration never holds a secret itself), and how its snapshots are kept.

    `auth_params` is text as in a client.conf: JSON, if the file has a table. Without addresses in `admin` those of the
    connection count. A cluster that gives no answer for `silent_seconds` is left out of the cycle.
    """

    admin: tuple[str, ...] = ()
    connection: str | None = None
    ca_file: str | None = None
    check_hostname: bool = True
    broker_url: str | None = None
    landing_days: float = DAYS_KEPT
    full_every: int = 1
    silent_seconds: float = SILENT_SECONDS
    auth_plugin: str | None = None
    auth_params: str | None = None


@dataclass(frozen=True, slots=True)
class ZoneSource:
    """A landing zone in S3 that has a cluster's snapshots; without a `connection` boto3 finds credentials itself."""

    url: str
    connection: str | None = None
    landing_days: float = DAYS_KEPT


@dataclass(frozen=True, slots=True)
class QueueSource:
    """The FIFO queues of a cluster that an agent beside it serves: one for commands, one for reports.

    `keys`: the name of the keys that sign the messages of both, as `steering.queue.signing` finds them.
    """

    commands: str
    reports: str
    keys: str


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """One cluster: its name (None: as in its snapshots), the folder of its snapshots, and the operator's settings.

    The folder is a recording, or the place where the snapshots of a running cluster (`live`) or from a landing zone
    (`zone`) land. With both the snapshots come from the zone: the access is for commands beside the cluster. With
    `queues` commands go to the agent. `limits` bound how much is read of the cluster.
    """

    cluster: str | None
    recording: Path
    overrides: dict[str, Any] = field(default_factory=dict)
    live: LiveSource | None = None
    zone: ZoneSource | None = None
    queues: QueueSource | None = None
    limits: Limits = DEFAULT


def read_configuration(path: str | Path) -> tuple[ClusterSource, ...]:
    """Return the clusters of a configuration file, by name; raises SettingsError with the file and its faults."""
    file = Path(path)
    configuration = configuration_in(file)
    common, limits = configuration.settings.given(), configuration.limits.given()
    return tuple(
        ClusterSource(
            cluster=name,
            recording=file.parent / (entries.recording or entries.landing or default_landing(name)),
            overrides={**common, **entries.settings.given()},
            live=_live(file, entries) if entries.is_live else None,
            zone=None if entries.s3 is None else ZoneSource(entries.s3, entries.s3_connection, entries.landing_days),
            queues=_queues(name, entries),
            limits=Limits(**{**limits, **entries.limits.given()}),
        )
        for name, entries in sorted(configuration.clusters.items())
    )


def _live(file: Path, entries: ClusterEntries) -> LiveSource:
    given = {each.name: getattr(entries, each.name) for each in fields(LiveSource)}
    ca_file = None if entries.ca_file is None else str(file.parent / entries.ca_file)
    params = json.dumps(entries.auth_params) if isinstance(entries.auth_params, dict) else entries.auth_params
    return LiveSource(**{**given, "admin": tuple(entries.admin or ()), "ca_file": ca_file, "auth_params": params})


def _queues(cluster: str, entries: ClusterEntries) -> QueueSource | None:
    if entries.queue is None or entries.reports is None:
        return None
    return QueueSource(entries.queue, entries.reports, entries.queue_keys or default_keys(cluster))


def source_of(text: str) -> ClusterSource:
    """Return the source that `recording:FOLDER` names; its cluster is the one of its snapshots."""
    if not text.startswith(RECORDING_SCHEME) or text == RECORDING_SCHEME:
        raise SettingsError(f"unknown source {text!r}: this version reads `recording:FOLDER`")
    return ClusterSource(None, Path(text.removeprefix(RECORDING_SCHEME)))


def choose(sources: Iterable[ClusterSource], wanted: Iterable[str]) -> tuple[ClusterSource, ...]:
    """Return the sources of the wanted clusters (none: all); an unknown name raises an error with the nearest."""
    known = {str(source.cluster): source for source in sources}
    names = sorted(set(wanted)) or sorted(known)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SettingsError(f"cluster {name!r} is not configured: known are {', '.join(known)}.{hint}")
    return tuple(known[name] for name in names)
