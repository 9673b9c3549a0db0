"""Which lakes there are, and which cluster belongs to which, as the configuration file says it.

    lake = "s3a://bucket/main"                  # the lake `main`: has every cluster that no other lake names

    [lakes.north]                               # further lakes, each with a writer of its own
    path = "s3a://bucket/north"                 # as `lake`: an address, or a folder relative to this file
    clusters = ["eu-*", "uk"]                   # names, and patterns of names

A cluster belongs to one lake. Its name in a list wins over patterns that it fits. Without `lake` (and EVENKEEL_LAKE,
which wins over it) each cluster has to be named by a lake. A lake with an empty list is written by no cycle any more:
its record stays readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.settings.names import MAIN, address_beside, claims_of, comparable
from evenkeel.settings.operation import CONFIGURATION, ENVIRONMENT


@dataclass(frozen=True, slots=True)
class ConfiguredLake:
    """A lake: its name, its address, and the names and patterns of its clusters (of `main`: what no other has)."""

    name: str
    path: str
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeMap:
    """The lakes of an installation, `main` first, and the names of its configured clusters."""

    lakes: tuple[ConfiguredLake, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_several(self) -> bool:
        """Whether there is more than one lake."""
        return len(self.lakes) > 1

    def named(self, name: str) -> ConfiguredLake:
        """The lake of that name; SettingsError, with the nearest, where there is none."""
        for lake in self.lakes:
            if lake.name == name:
                return lake
        known = [lake.name for lake in self.lakes]
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SettingsError(f"no lake {name!r} is configured: known are {', '.join(known) or 'none'}.{hint}")

    def lake_of(self, cluster: str) -> ConfiguredLake | None:
        """The lake that a cluster belongs to; None where none has it. SettingsError where several patterns claim it."""
        return self._lake_among(claims_of(cluster, [(lake.name, lake.clusters) for lake in self.lakes]), cluster)

    def reader_lake_of(self, cluster: str) -> ConfiguredLake | None:
        """The lake that a cluster belongs to, for whoever only reads; None also where several patterns claim it."""
        try:
            return self.lake_of(cluster)
        except SettingsError:
            return None

    def _lake_among(self, names: Sequence[str], cluster: str) -> ConfiguredLake | None:
        if len(names) > 1:
            raise SettingsError(f"the cluster {cluster!r} belongs to the lakes {' and '.join(names)}: name it in one")
        if names:
            return self.named(names[0])
        return next((lake for lake in self.lakes if lake.name == MAIN), None)

    def clusters_of(self, lake: ConfiguredLake) -> tuple[str, ...]:
        """The configured clusters that belong to a lake."""
        return tuple(name for name in self.clusters if self.lake_of(name) == lake)

    def elsewhere(self, address: str, cluster: str) -> ConfiguredLake | None:
        """The lake that a cluster belongs to, where that is another one than the configured lake at this address; None
        where it is that one, and where the address is none of a configured lake."""
        here = self.at(address)
        own = self.lake_of(cluster) if here is not None and self.is_several else None
        return None if own is None or own == here else own

    def at(self, address: str) -> ConfiguredLake | None:
        """The lake at an address; None where it is none of these."""
        wanted = comparable(address)
        return next((lake for lake in self.lakes if comparable(lake.path) == wanted), None)


def configured_lakes(environment: Mapping[str, str] = ENVIRONMENT) -> LakeMap:
    """The lakes that the environment and its configuration file name; none at all is no error.

    Raises SettingsError where the file cannot be read, or its lakes are wrong.
    """
    path, main = environment.get(CONFIGURATION), environment.get("EVENKEEL_LAKE")
    lakes = _lakes_in(path) if path else LakeMap()
    if not main:
        return lakes
    if (other := lakes.at(main)) is not None:
        raise SettingsError(f"EVENKEEL_LAKE, or `lake`, is {main}, which is the lake {other.name}, too: take one")
    return replace(lakes, lakes=(ConfiguredLake(MAIN, main), *lakes.lakes))


def _lakes_in(path: str) -> LakeMap:
    """The lakes of the tables [lakes.NAME], without `main`."""
    from evenkeel.settings.configuration_file import operation_in

    operation, clusters = operation_in(path)
    tables = operation.lakes or {}
    lakes = (
        ConfiguredLake(name, address_beside(Path(path), table.path), tuple(table.clusters))
        for name, table in tables.items()
    )
    return LakeMap(tuple(lakes), clusters)
