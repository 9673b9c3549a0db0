"""An installation of several small lakes, with its configuration; written without a JVM."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.settings.lakes import LakeMap, configured_lakes
from evenkeel.settings.operation import CONFIGURATION, OperatorEnvironment
from tests.lakes.urgent_lake import UrgentLake

MOVED = "uk"
"""A cluster that was moved from `old` to `south`, and has cycles in both."""


@dataclass(frozen=True)
class Installation:
    """Its folder, its configuration file, and the moment of the newest cycles."""

    folder: Path
    file: Path
    now: datetime

    def lakes(self) -> LakeMap:
        """The lakes as the file has them now."""
        return configured_lakes(OperatorEnvironment({CONFIGURATION: str(self.file)}))

    def path(self, lake: str) -> str:
        """Where a lake is."""
        return self.lakes().named(lake).path

    def lose(self, lake: str) -> None:
        """Takes a lake away."""
        shutil.rmtree(self.path(lake))


def configuration(lakes: Mapping[str, Sequence[str]], clusters: Sequence[str], more: str = "") -> str:
    """The text of a configuration: lake -> names and patterns, and the clusters."""
    tables = [f'[lakes.{name}]\npath = "{name}"\nclusters = {[*own]}\n' for name, own in lakes.items()]
    return "\n".join([more, *tables, *(f'[clusters."{name}"]\nrecording = "r"\n' for name in clusters)])


def lakes_in_force(folder: Path, patch: pytest.MonkeyPatch) -> Installation:
    """`several_lakes` as this process finds them: by their configuration file."""
    made = several_lakes(folder)
    patch.delenv("EVENKEEL_LAKE", raising=False)
    patch.setenv(CONFIGURATION, str(made.file))
    return made


def several_lakes(folder: Path, now: datetime | None = None) -> Installation:
    """Lakes `north` (eu-1, which failed, and eu-2), `south` (us-1, and `uk` since it was moved) and `old`, to which
    nothing is written any more, with earlier cycles of `uk`."""
    now = now or datetime.now(UTC)
    file = folder / "evenkeel.toml"
    lakes = {"north": ["eu-*"], "south": ["us-*", MOVED], "old": list[str]()}
    file.write_text(configuration(lakes, ["eu-1", "eu-2", "us-1", MOVED]), encoding="utf-8")
    made = {name: UrgentLake(folder / name, now) for name in lakes}
    made["north"].course("eu-1", mode="dry_run", status="failed", reason="place failed: the disk is full")
    made["north"].course("eu-2", mode="dry_run")
    made["south"].course("us-1", mode="dry_run")
    made["south"].course(MOVED, mode="dry_run")
    made["old"].course(MOVED, mode="dry_run", until=now - timedelta(days=3))
    for lake in made.values():
        lake.lake.write()
    return Installation(folder, file, now)
