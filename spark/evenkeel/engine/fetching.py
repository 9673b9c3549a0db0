"""Fetches jars from a Maven repository, many with one call: by `mvn`, or by the Ivy that pyspark brings.

No repository host is named here: Maven uses the machine's own configuration, Ivy its built-in one; where
`EVENKEEL_MAVEN_MIRROR` names a repository of Maven's layout, Ivy asks that one and nobody else. What comes back is not
checked here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from evenkeel.engine.bundled import ivy_jar
from evenkeel.engine.errors import JarError
from evenkeel.engine.java import server_java
from evenkeel.engine.trust import trust_options

MIRROR_VARIABLE = "EVENKEEL_MAVEN_MIRROR"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_SECONDS = 600
MOST_IVYS = 4
FEWEST_FOR_AN_IVY = 10


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository and the sha256 (hex) that its jar must have."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        """group:artifact:version, and the classifier where there is one."""
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        """The name of the jar in a repository of Maven's layout."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def repository_path(self) -> str:
        """Where every repository of Maven's layout keeps it."""
        return "/".join((*self.group.split("."), self.artifact, self.version, self.file_name))


def by_maven(jars: Sequence[Jar], folder: Path) -> None:
    """Puts the jars into `folder`, which exists. `mvn` gets a repository of its own: a half-filled ~/.m2 cannot hurt.

    Raises JarError where one of them did not come.
    """
    project = folder / "pom.xml"
    project.write_text(_maven_project(jars), encoding="utf-8")
    command = ["mvn", "-B", "-q", "-f", str(project), MAVEN_COPY, f"-DoutputDirectory={folder}"]
    _run([*command, f"-Dmaven.repo.local={folder / 'm2'}"], jars, folder)


def by_ivy(jars: Sequence[Jar], folder: Path) -> None:
    """As `by_maven`, with Ivy run by the server's Java: several at once, since one asks for one file at a time."""
    settings = folder / "ivysettings.xml"
    settings.write_text(_ivy_settings(os.environ.get(MIRROR_VARIABLE)), encoding="utf-8")
    command = [str(server_java()), *trust_options(folder), "-cp", str(ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(settings)]
    by_module = sorted(jars, key=lambda jar: jar.coordinates)
    size = max(FEWEST_FOR_AN_IVY, -(-len(jars) // MOST_IVYS))
    with ThreadPoolExecutor(MOST_IVYS) as pool:
        parts = [by_module[start : start + size] for start in range(0, len(jars), size)]
        for done in [pool.submit(_ivy, command, part, folder, number) for number, part in enumerate(parts)]:
            done.result()


def _ivy(command: list[str], jars: Sequence[Jar], folder: Path, number: int) -> None:
    """`number` keeps the caches of two Ivys apart, which would lock each other out."""
    module = folder / f"ivy-{number}.xml"
    module.write_text(_ivy_module(jars), encoding="utf-8")
    pattern = "[artifact]-[revision](-[classifier]).[ext]"
    own = ["-ivy", str(module), "-cache", str(folder / f"ivy-{number}"), "-retrieve", f"{folder}/{pattern}"]
    _run([*command, *own], jars, folder)


def _run(command: list[str], jars: Iterable[Jar], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if not all((folder / jar.file_name).exists() for jar in jars):
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [line for line in lines if "rror" in line or "not found" in line] or lines[-1:]
        raise JarError(f"exit code {done.returncode}, {telling[0] if telling else 'no output'}")


def _maven_project(jars: Iterable[Jar]) -> str:
    """A project that does nothing but copy: artifacts named so are fetched alone, without POMs or dependencies."""
    items = "".join(
        f"<artifactItem><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><classifier>{jar.classifier}</classifier></artifactItem>"
        for jar in jars
    )
    plugin, _, _goal = MAVEN_COPY.rpartition(":")
    group, artifact, version = plugin.split(":")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>evenkeel</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<build><plugins><plugin><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><configuration><artifactItems>{items}</artifactItems></configuration>"
        "</plugin></plugins></build></project>"
    )


def _ivy_settings(mirror: str | None) -> str:
    """One repository; no POMs are read and no checksums asked for, since digests are ours to check."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="repository"/><resolvers>'
        f'<ibiblio name="repository" m2compatible="true" usepoms="false" checksums=""{root}/>'
        "</resolvers></ivysettings>"
    )


def _ivy_module(jars: Iterable[Jar]) -> str:
    """Takes the jars sorted: those of one module, which differ in their classifiers, stand under one dependency."""
    wanted = []
    for (group, artifact, version), found in groupby(jars, lambda jar: (jar.group, jar.artifact, jar.version)):
        files = "".join(
            f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"'
            f"{f' m:classifier={quoteattr(jar.classifier)}' if jar.classifier else ''}/>"
            for jar in found
        )
        names = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        wanted.append(f'<dependency {names} transitive="false" conf="default->*">{files}</dependency>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="evenkeel" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(wanted)}</dependencies></ivy-module>"
    )
