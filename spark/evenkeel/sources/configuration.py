"""Which clusters there are, where their snapshots come from, and the operator's settings for each.

A configuration file is TOML:

    [settings]                                  # for all clusters, under Pulsar's own keys
    loadBalancerBrokerThresholdShedderPercentage = 10

    [clusters.east]
    recording = "recordings/east"               # a folder of snapshots; relative to this file
    [clusters.east.settings]                    # for this cluster; win over the ones above
    loadBalancerNamespaceBundleMaxTopics = 500
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.settings import resolve

RECORDING_SCHEME = "recording:"


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """One cluster: its name (None: as its snapshots say), the folder of its recording, and the operator's settings."""

    cluster: str | None
    recording: Path
    overrides: dict[str, Any] = field(default_factory=dict)


def read_configuration(path: str | Path) -> tuple[ClusterSource, ...]:
    """The clusters of a configuration file, by name. `SettingsError` names the file and the entry that is wrong."""
    file = Path(path)
    try:
        body = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"configuration {file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"configuration {file} is not TOML: {error}") from None
    _only_known(body, {"settings", "clusters"}, f"configuration {file}")
    clusters = body.get("clusters")
    if not isinstance(clusters, dict) or not clusters:
        raise SettingsError(f"configuration {file} names no cluster: add a table [clusters.NAME] with `recording`")
    common = body.get("settings", {})
    return tuple(_cluster(file, name, clusters[name], common) for name in sorted(clusters))


def _cluster(file: Path, name: str, body: Any, common: Mapping[str, Any]) -> ClusterSource:
    place = f"configuration {file}, [clusters.{name}]"
    if not isinstance(body, dict):
        raise SettingsError(f"{place}: is no table")
    _only_known(body, {"recording", "settings"}, place)
    recording = body.get("recording")
    if not isinstance(recording, str):
        raise SettingsError(f"{place}: `recording` is missing: the folder that holds the cluster's snapshots")
    overrides = {**common, **body.get("settings", {})}
    try:
        resolve(observed=None, overrides=overrides)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from None
    return ClusterSource(name, file.parent / recording, overrides)


def source_of(text: str) -> ClusterSource:
    """The source that `recording:FOLDER` names; its cluster is the one that its snapshots show."""
    if not text.startswith(RECORDING_SCHEME) or text == RECORDING_SCHEME:
        raise SettingsError(f"unknown source {text!r}: this version reads `recording:FOLDER`")
    return ClusterSource(None, Path(text.removeprefix(RECORDING_SCHEME)))


def choose(sources: Iterable[ClusterSource], wanted: Iterable[str]) -> tuple[ClusterSource, ...]:
    """The sources of the wanted clusters, all if none is named; an unknown name is an error that names the nearest."""
    known = {str(source.cluster): source for source in sources}
    names = sorted(set(wanted)) or sorted(known)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SettingsError(f"cluster {name!r} is not configured: known are {', '.join(known)}.{hint}")
    return tuple(known[name] for name in names)


def _only_known(body: Mapping[str, Any], known: set[str], place: str) -> None:
    for name in body:
        if name not in known:
            raise SettingsError(f"{place}: unknown entry {name!r}; known are {', '.join(sorted(known))}")
