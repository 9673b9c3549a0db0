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

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from evenkeel.errors import SettingsError
from evenkeel.settings.operation import CONFIGURATION, ENVIRONMENT, address_beside
from evenkeel.settings.resolving import toml_in

MAIN: Final = "main"
"""The name of the lake that the entry `lake` is about; no table of [lakes] has it."""
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"
"""What a lake may be called: the ids of its DAGs end with it."""
_SIGNS = re.compile(r"[*?\[]")
_TEXT: Final = {"type": "string", "pattern": r"\S"}
EntryNames = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """An entry of `[lakes.NAME]`; `schema`: its JSON schema."""

    name: str
    schema: dict[str, Any]
    meaning: str


LAKE_ENTRIES: Final = (
    LakeEntry("path", _TEXT,
        "Root of the lake's tables: a folder, relative to this file, or `s3a://bucket/prefix`."),
    LakeEntry("clusters", {"type": "array", "items": _TEXT},
        "The clusters that belong to the lake: names, and patterns with `*`, `?` and `[…]`. Empty: nothing is written "
        "to it any more."),
)  # fmt: skip
"""Both are needed."""


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
        wanted = _place(address)
        return next((lake for lake in self.lakes if _place(lake.path) == wanted), None)


def claims_of(cluster: str, lists: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """The names of the lakes whose list names the cluster, else of those with a pattern that it fits."""
    exact = [name for name, own in lists if cluster in own]
    return exact or [name for name, own in lists if any(_is_pattern(one) and fnmatchcase(cluster, one) for one in own)]


def _is_pattern(text: str) -> bool:
    return _SIGNS.search(text) is not None


def _place(address: str) -> str:
    """An address as it is compared with others."""
    if "://" in address and not address.startswith("file://"):
        return address.rstrip("/")
    return os.path.realpath(address.removeprefix("file://"))


# What is wrong with the tables, of a body whose entries have the kinds that the schema asks for.


def lake_faults(file: Path, body: Mapping[str, Any]) -> Iterator[tuple[EntryNames, str]]:
    """(entry, what is wrong with it) of the tables [lakes.NAME] and of clusters without a lake."""
    tables = body.get("lakes")
    if tables is None:
        return
    if not isinstance(tables, Mapping) or not tables:
        yield ("lakes",), "names no lake: add a table [lakes.NAME] with `path` and `clusters`"
        return
    broken = [*_table_faults(tables)]
    yield from broken
    if not broken:
        yield from _shared_places(file, body, tables)
        yield from _claim_faults(body, tables)


def _table_faults(tables: Mapping[str, Any]) -> Iterator[tuple[EntryNames, str]]:
    known = [entry.name for entry in LAKE_ENTRIES]
    for name, table in tables.items():
        path = ("lakes", name)
        if name == MAIN:
            yield path, f"the lake {MAIN} is the one at `lake`: give this one another name, or write `lake`"
        elif not re.match(NAME_PATTERN, name):
            yield path, "is not a name of a lake: letters, digits, `_` and `-`, 60 at most"
        if not isinstance(table, Mapping):
            yield path, "is not a table"
            continue
        for entry in table:
            if entry not in known:
                near = get_close_matches(entry, known, n=1)
                yield (
                    (*path, entry),
                    f"unknown entry; {f'did you mean `{near[0]}`?' if near else 'known are path and clusters'}",
                )
        if not _is_text(table.get("path")):
            yield (*path, "path"), "is to be the root of the lake's tables, a text that is not empty"
        own = table.get("clusters")
        if not isinstance(own, list) or not all(map(_is_text, own)):
            yield (*path, "clusters"), 'is to be a list of names and patterns, as in ["eu-*", "uk"]'


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _shared_places(file: Path, body: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[tuple[EntryNames, str]]:
    main = body.get("lake")
    seen = {_place(address_beside(file, main)): "`lake`"} if isinstance(main, str) and _is_text(main) else {}
    for name, table in tables.items():
        place = _place(address_beside(file, table["path"]))
        before = seen.setdefault(place, name)
        if before != name:
            yield ("lakes", name, "path"), f"is the place of {before}, too: each lake has its own"


def _claim_faults(body: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[tuple[EntryNames, str]]:
    configured = body.get("clusters")
    names = sorted(configured) if isinstance(configured, Mapping) else []
    lists = [(name, table["clusters"]) for name, table in tables.items()]
    for lake, own in lists:
        for one in (one for one in own if not _is_pattern(one) and one not in names):
            near = get_close_matches(one, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield ("lakes", lake, "clusters"), f"{one!r} is not a configured cluster{hint}"
    for name in names:
        lakes = claims_of(name, lists)
        if len(lakes) > 1:
            said = f"the cluster {name!r} belongs to {lakes[0]}, too: name it in the list of one of them"
            yield ("lakes", lakes[1], "clusters"), said
        elif not lakes and not body.get("lake") and not os.environ.get("EVENKEEL_LAKE"):
            yield ("clusters", name), "belongs to no lake: name it in a table of [lakes], or write `lake` for the rest"


# The lakes of this process.


def lakes_in(file: Path, body: Mapping[str, Any]) -> tuple[ConfiguredLake, ...]:
    """The lakes of the tables [lakes.NAME], by their order; SettingsError names the entry that is wrong."""
    for path, said in lake_faults(file, body):
        raise SettingsError(f"configuration {file}: `{'.'.join(map(str, path))}`: {said}")
    return tuple(
        ConfiguredLake(name, address_beside(file, table["path"]), tuple(table["clusters"]))
        for name, table in body.get("lakes", {}).items()
    )


@lru_cache(maxsize=4)
def _read(path: str, changed: tuple[int, int] | None) -> LakeMap:
    """The tables of a file as it was at its last change (ns) and size, without `main`."""
    file = Path(path)
    body = toml_in(file, "configuration")[0]
    clusters = body.get("clusters")
    names = tuple(sorted(clusters)) if isinstance(clusters, Mapping) else ()
    return LakeMap(lakes_in(file, body), names)


def configured_lakes(environment: Mapping[str, str] = ENVIRONMENT) -> LakeMap:
    """The lakes that the environment and its configuration file name; none at all is no error.

    Raises SettingsError where the file cannot be read, or its lakes are wrong.
    """
    path, main = environment.get(CONFIGURATION), environment.get("EVENKEEL_LAKE")
    found = LakeMap() if not path else _read(path, _changed(path))
    if not main:
        return found
    lakes = (ConfiguredLake(MAIN, main), *found.lakes)
    if (other := found.at(main)) is not None:
        raise SettingsError(f"EVENKEEL_LAKE, or `lake`, is {main}, which is the lake {other.name}, too: take one")
    return replace(found, lakes=lakes)


def _changed(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):  # reading says why
        return None
    return stat.st_mtime_ns, stat.st_size
