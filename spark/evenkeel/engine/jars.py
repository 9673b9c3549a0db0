"""Jars pinned by coordinates and sha256: fetched once, then taken from a cache. Delta's two, and whatever is asked for.

Order: the cache, the machine's Maven repository, `mvn`, Ivy (see `fetching`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evenkeel.engine.errors import JarError
from evenkeel.engine.fetching import MIRROR_VARIABLE, Jar, by_ivy, by_maven

LOG = logging.getLogger(__name__)
CACHE_VARIABLE = "EVENKEEL_CACHE"

DELTA_JARS = (
    Jar(
        "io.delta", "delta-spark_4.1_2.13", "4.4.0", "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    Jar("io.delta", "delta-storage", "4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
)


def cache_folder() -> Path:
    """`EVENKEEL_CACHE`, else `~/.cache/evenkeel`."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / ".cache" / "evenkeel"


def delta_jars() -> list[Path]:
    """Delta's jars on this machine, fetched if need be; raises JarError."""
    return resolve(DELTA_JARS)


def resolve(jars: Sequence[Jar]) -> list[Path]:
    """The jars in the cache, in the order given; what is missing is fetched with one call.

    A cached file whose digest differs is refused, not replaced. Raises JarError.
    """
    folder = cache_folder() / "jars"
    absent = []
    for jar in jars:
        kept = folder / jar.file_name
        if kept.exists():
            _demand(jar, kept, f"Remove {kept} to fetch it again.")
        else:
            absent.append(jar)
    if absent:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _keep(absent, folder, Path(scratch))
    return [folder / jar.file_name for jar in jars]


def _keep(jars: Sequence[Jar], folder: Path, scratch: Path) -> None:
    """Brings the jars into `folder`; each is there whole or not at all, also with several set-ups at once."""
    remote = []
    for jar in jars:
        local = Path.home() / ".m2" / "repository" / jar.repository_path
        if local.exists() and _sha256(local) == jar.sha256:
            shutil.copyfile(local, scratch / jar.file_name)
            (scratch / jar.file_name).replace(folder / jar.file_name)
        else:
            remote.append(jar)
    if remote:
        way = _fetch(remote, scratch)
        for jar in remote:
            found = scratch / jar.file_name
            _demand(jar, found, f"It was fetched by {way}; check the repository, or set {MIRROR_VARIABLE} to another.")
            found.replace(folder / jar.file_name)


def _fetch(jars: Sequence[Jar], scratch: Path) -> str:
    """Fetches the jars into `scratch` by the first way that has all of them; the name of that way."""
    ways = [("Ivy", by_ivy)]
    if shutil.which("mvn") and not os.environ.get(MIRROR_VARIABLE):  # Maven asks its own configuration for mirrors
        ways.insert(0, ("mvn", by_maven))
    failures = []
    for name, way in ways:
        LOG.info("fetching %s by %s", _names(jars), name)
        try:
            way(jars, scratch)
        except (OSError, subprocess.SubprocessError, JarError) as error:
            failures.append(f"{name}: {error}")
        else:
            return name
    raise JarError(
        f"Cannot fetch {_names(jars)} ({'; '.join(failures)}). Is there a network? "
        f"A repository of Maven's layout can be named by {MIRROR_VARIABLE}; "
        f"or put {_names(jars, files=True)} into {cache_folder() / 'jars'} yourself."
    )


def _names(jars: Sequence[Jar], *, files: bool = False) -> str:
    """Few by name, many by number."""
    names = [jar.file_name if files else jar.coordinates for jar in jars]
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _demand(jar: Jar, path: Path, what_to_do: str) -> None:
    found = _sha256(path)
    if found != jar.sha256:
        raise JarError(
            f"{path} is not the pinned {jar.coordinates}: its sha256 is {found}, expected {jar.sha256}. {what_to_do}"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
