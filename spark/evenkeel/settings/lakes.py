"""Which lakes there are, and which cluster belongs to which, as the configuration file says it.

A cluster belongs to one lake. Its name in a list wins over patterns that it fits. Without `lake` (and EVENKEEL_LAKE,
which wins over it) each cluster has to be named by a lake. A lake with an empty list is written by no cycle any more:
its record stays readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from evenkeel.errors import SettingsError
from evenkeel.settings.names import MAIN, address_beside, claims_of, comparable
from evenkeel.settings.operation import CONFIGURATION, ENVIRONMENT


@dataclass(frozen=True, slots=True)
class ConfiguredLake:
    """A lake: its name, its address, and the names and patterns of its clusters (of `main`: all that no other has)."""

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
        """True if there is more than one lake."""
        return len(self.lakes) > 1

    def named(self, name: str) -> ConfiguredLake:
        """Return the lake of that name; raises SettingsError, with the nearest name, if there is none."""
        for lake in self.lakes:
            if lake.name == name:
                return lake
        known = [lake.name for lake in self.lakes]
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SettingsError(f"no lake {name!r} is configured: known are {', '.join(known) or 'none'}.{hint}")

    def lake_of(self, cluster: str) -> ConfiguredLake | None:
        """Return the lake that a cluster belongs to; None if no lake has it.

        Raises SettingsError if several patterns claim it.
        """
        names = claims_of(cluster, [(lake.name, lake.clusters) for lake in self.lakes])
        if len(names) > 1:
            raise SettingsError(f"the cluster {cluster!r} belongs to the lakes {' and '.join(names)}: name it in one")
        if names:
            return self.named(names[0])
        return next((lake for lake in self.lakes if lake.name == MAIN), None)

    def reader_lake_of(self, cluster: str) -> ConfiguredLake | None:
        """Return the lake that a cluster belongs to, for readers; None also if several patterns claim it."""
        try:
            return self.lake_of(cluster)
        except SettingsError:
            return None

    def clusters_of(self, lake: ConfiguredLake) -> tuple[str, ...]:
        """Return the configured clusters that belong to a lake."""
        return tuple(name for name in self.clusters if self.lake_of(name) == lake)

    def elsewhere(self, address: str, cluster: str) -> ConfiguredLake | None:
        """Return the lake that a cluster belongs to, if it is not the configured lake at this address.

        Returns None if it is that lake, and if no configured lake has the address.
        """
        lake_at_address = self.at(address)
        lake_of_cluster = self.lake_of(cluster) if lake_at_address is not None and self.is_several else None
        return None if lake_of_cluster is None or lake_of_cluster == lake_at_address else lake_of_cluster

    def at(self, address: str) -> ConfiguredLake | None:
        """Return the lake at an address; None if no lake has it."""
        wanted = comparable(address)
        return next((lake for lake in self.lakes if comparable(lake.path) == wanted), None)


def configured_lakes(environment: Mapping[str, str] = ENVIRONMENT) -> LakeMap:
    """Return the lakes that the environment and its configuration file name; having none is no error.

    Raises SettingsError if the file cannot be read, or its lakes are wrong.
    """
    path, main = environment.get(CONFIGURATION), environment.get("EVENKEEL_LAKE")
    lakes = LakeMap()
    if path:
        from evenkeel.settings.configuration_file import operation_in

        operation, clusters = operation_in(path)
        configured = (
            ConfiguredLake(name, address_beside(Path(path), table.path), tuple(table.clusters))
            for name, table in (operation.lakes or {}).items()
        )
        lakes = LakeMap(tuple(configured), clusters)
    if not main:
        return lakes
    if (other := lakes.at(main)) is not None:
        raise SettingsError(f"EVENKEEL_LAKE, or `lake`, is {main}, which is the lake {other.name}, too: take one")
    return replace(lakes, lakes=(ConfiguredLake(MAIN, main), *lakes.lakes))
