"""Delta's two jars: pinned by coordinates and sha256, fetched once, then taken from a cache.

Order: the cache, the machine's Maven repository, `mvn`, Ivy (which pyspark brings). No repository host is named here:
Maven uses the machine's own configuration, Ivy its built-in one; where `EVENKEEL_MAVEN_MIRROR` names a repository of
Maven's layout, Ivy asks that one and nobody else.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from evenkeel.engine.errors import JarError
from evenkeel.engine.java import server_java
from evenkeel.engine.trust import trust_options

LOG = logging.getLogger(__name__)
CACHE_VARIABLE = "EVENKEEL_CACHE"
MIRROR_VARIABLE = "EVENKEEL_MAVEN_MIRROR"
MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
FETCH_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository and the sha256 (hex) that its jar must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def repository_path(self) -> str:
        """Where every repository of Maven's layout keeps it."""
        return "/".join((*self.group.split("."), self.artifact, self.version, self.file_name))


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
    return [resolve(jar) for jar in DELTA_JARS]


def resolve(jar: Jar) -> Path:
    """The jar in the cache; a cached file whose digest differs is refused, not replaced."""
    kept = cache_folder() / "jars" / jar.file_name
    if kept.exists():
        _demand(jar, kept, f"Remove {kept} to fetch it again.")
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        fetched = _fetch(jar, Path(folder))
        part = Path(folder) / "checked.jar"
        shutil.copyfile(fetched, part)
        part.replace(kept)  # whole or not at all, also with several set-ups at once
    return kept


def _fetch(jar: Jar, folder: Path) -> Path:
    local = Path.home() / ".m2" / "repository" / jar.repository_path
    if local.exists() and _sha256(local) == jar.sha256:
        return local
    ways: list[tuple[str, Callable[[Jar, Path], Path]]] = [("Ivy", by_ivy)]
    if shutil.which("mvn") and not os.environ.get(MIRROR_VARIABLE):  # Maven asks its own configuration for mirrors
        ways.insert(0, ("mvn", by_maven))
    failures = []
    for name, way in ways:
        LOG.info("fetching %s by %s", jar.coordinates, name)
        try:
            found = way(jar, folder)
        except (OSError, subprocess.SubprocessError, JarError) as error:
            failures.append(f"{name}: {error}")
            continue
        _demand(jar, found, f"It was fetched by {name}; check the repository, or set {MIRROR_VARIABLE} to another.")
        return found
    raise JarError(
        f"Cannot fetch {jar.coordinates} ({'; '.join(failures)}). Is there a network? "
        f"A repository of Maven's layout can be named by {MIRROR_VARIABLE}; "
        f"or put {jar.file_name} into {cache_folder() / 'jars'} yourself."
    )


def by_maven(jar: Jar, folder: Path) -> Path:
    """Fetches with `mvn` into a repository of its own below `folder`, so that a half-filled ~/.m2 cannot hurt."""
    repository = folder / "m2"
    command = ["mvn", "-B", "-q", MAVEN_GET, f"-Dartifact={jar.coordinates}", "-Dtransitive=false"]
    return _run([*command, f"-Dmaven.repo.local={repository}"], repository / jar.repository_path)


def by_ivy(jar: Jar, folder: Path) -> Path:
    """Fetches with the Ivy among pyspark's jars, run by the server's Java."""
    command = [str(server_java()), *trust_options(folder), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    mirror = os.environ.get(MIRROR_VARIABLE)
    if mirror:
        settings = folder / "ivysettings.xml"
        settings.write_text(_mirror_settings(mirror), encoding="utf-8")
        command += ["-settings", str(settings)]
    command += ["-cache", str(folder / "ivy"), "-notransitive", "-types", "jar"]
    command += ["-dependency", jar.group, jar.artifact, jar.version]
    return _run([*command, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"], folder / jar.file_name)


def _run(command: list[str], expected: Path) -> Path:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if not expected.exists():
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [line for line in lines if "rror" in line or "not found" in line] or lines[-1:]
        raise JarError(f"exit code {done.returncode}, {telling[0] if telling else 'no output'}")
    return expected


def _mirror_settings(mirror: str) -> str:
    from xml.sax.saxutils import quoteattr

    return (
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(mirror)}/>'
        "</resolvers></ivysettings>"
    )


def spark_home() -> Path:
    """The folder of pyspark's own Spark, found without importing pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment; run `make setup`.")
    return Path(spec.origin).parent


def _ivy_jar() -> Path:
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarError(f"no Ivy among pyspark's jars in {spark_home() / 'jars'}")
    return found[0]


def _demand(jar: Jar, path: Path, what_to_do: str) -> None:
    found = _sha256(path)
    if found != jar.sha256:
        raise JarError(
            f"{path} is not the pinned {jar.coordinates}: its sha256 is {found}, expected {jar.sha256}. {what_to_do}"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
